//! `[[evaluation]]`: further evaluations, each with an input of its own.

use serde::Serialize;
use trainyard_diagnostic::{Code, Key, Section, section};

use super::input::{PartKeys, duplicate, read_eval_part};
use crate::InputPart;

/// Longest name of an evaluation, in bytes. It becomes a part of a folder's name.
const NAME_BYTES_MAX: usize = 64;

section! {
    /// Keys of `[[evaluation]]` beside those of its input.
    #[derive(Debug)]
    pub(crate) struct EvaluationKeys {
        /// name of a further evaluation of each evaluated checkpoint, on files of its own (`name` of
        /// `tf.estimator.EvalSpec`). Its results are in `eval_<name>`, and beside those of `[input.eval]` as `<name>/auc`
        /// and so on. Exporters and early stopping can use them. Letters, digits, `_`, `-`, `.`
        name: Option<String> = nonempty_text().required_or_invalid("\"mobile\"");
        /// number of batches of this evaluation
        steps: Option<u64> = integer(1..=u64::MAX).optional("all");
    }
}

/// Returns the keys of `[[evaluation]]`, with those of its input.
pub(crate) fn evaluation_keys() -> Vec<Key> {
    let mut keys = EvaluationKeys::keys();
    let at = keys.len() - 1;
    keys.splice(at..at, PartKeys::keys());
    keys
}

/// A further evaluation of each evaluated checkpoint (`name` of `tf.estimator.EvalSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluationConfig {
    /// Name of the evaluation. Its results are in `eval_<name>`.
    pub name: String,
    /// Input of the evaluation.
    #[serde(flatten)]
    pub input: InputPart,
    /// Batches per evaluation; absent = to the end of the input.
    pub steps: Option<u64>,
}

/// Reads further evaluations, each with an input of its own.
pub(crate) fn read_all(root: &Section<'_>) -> Option<Vec<EvaluationConfig>> {
    let mut out = Vec::new();
    if root.node("evaluation").is_none() {
        return Some(out);
    }
    let mut complete = true;
    for section in root.sections("evaluation") {
        let keys = EvaluationKeys::read_keys(&section);
        if let Some(name) = keys.as_ref().and_then(|keys| keys.name.as_ref())
            && !is_evaluation_name(name)
        {
            let message = format!(
                "evaluation.name must be letters, digits, `_`, `-` and `.`, at most {NAME_BYTES_MAX}, and not `train`, given `{}`",
                name.escape_default()
            );
            section.fail(Code::E1002, "name", message);
        }
        let input = read_eval_part(section);
        match (keys, input) {
            (
                Some(EvaluationKeys {
                    name: Some(name),
                    steps,
                }),
                Some(input),
            ) => out.push(EvaluationConfig { name, input, steps }),
            _ => complete = false,
        }
    }
    let names: Vec<String> = out
        .iter()
        .map(|evaluation| evaluation.name.clone())
        .collect();
    if let Some(twice) = duplicate(&names) {
        let message = format!("evaluations must have unique names, `{twice}` is given twice");
        root.fail(Code::E1002, "evaluation", message);
    }
    complete.then_some(out)
}

fn is_evaluation_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    // `eval_train` is the folder of evaluations of the training data.
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) && name != "train"
}
