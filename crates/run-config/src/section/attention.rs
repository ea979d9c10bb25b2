//! `[[model.attention]]`: the histories of a `din` model, each with its target.

use trainyard_diagnostic::{Code, Diagnostic, Section, Takes, section};

use crate::{
    AttentionConfig, Combiner, Deep, Embedding, Family, FeatureConfig, FeatureKind, KeptIds,
    ModelConfig,
};

/// Most histories of a model.
const HISTORIES_MAX: usize = 64;
/// Most ids of a history.
const HISTORY_IDS_MAX: u64 = 4096;

section! {
    /// Keys of `[[model.attention]]`.
    #[derive(Debug)]
    pub(crate) struct AttentionKeys {
        /// name of a feature of several ids (`separator`), for example the items that a user has clicked. It has an embedding with a `table`
        history: Option<String> = nonempty_text().required_or_invalid("\"clicked_items\"");
        /// name of a feature of one id, the candidate, which shares the table of the history. Several histories may have the same target
        target: Option<String> = nonempty_text().required_or_invalid("\"item\"");
        /// most ids of the history that count in a record. Each costs time and memory whether it is there or not
        history_max: usize = integer(1..=HISTORY_IDS_MAX).or(50);
        /// ids that count where a record has more than `history_max`: `last` or `first` of the list
        keep: Option<KeptIds> = choice("end of the history", &KeptIds::NAMES).or_invalid(KeptIds::Last);
    }
}

pub(super) fn attention_taken() -> Takes {
    Takes::Tables(AttentionKeys::keys())
}

/// Reads the histories with their targets, and reports all mistakes.
pub(super) fn read_attention(
    model: &Section<'_>,
    key: &'static str,
) -> Option<Vec<AttentionConfig>> {
    let sections = model.sections(key);
    let count = sections.len();
    let attention: Vec<AttentionConfig> = sections.into_iter().filter_map(read).collect();
    if !(1..=HISTORIES_MAX).contains(&count) {
        let message = format!("a model attends to 1 to {HISTORIES_MAX} histories, given {count}");
        model.fail(Code::E1002, key, message);
        return None;
    }
    (attention.len() == count).then_some(attention)
}

fn read(section: Section<'_>) -> Option<AttentionConfig> {
    let keys = AttentionKeys::read_keys(&section)?;
    section.finish();
    Some(AttentionConfig {
        history: keys.history?,
        target: keys.target?,
        history_max: keys.history_max,
        keep: keys.keep?,
    })
}

/// Checks the histories and their targets against the features.
pub(crate) fn settle(root: &Section<'_>, model: &ModelConfig, features: &[FeatureConfig]) {
    if model.kind.family != Family::Din {
        return;
    }
    let sections = root
        .section("model")
        .map_or_else(Vec::new, |model| model.sections("attention"));
    for (place, (attention, section)) in model.attention.iter().zip(&sections).enumerate() {
        let before = &model.attention[..place];
        if before
            .iter()
            .any(|other| other.history == attention.history)
        {
            let message = format!(
                "each history has one target, `{}` is the history of two",
                attention.history
            );
            section.fail(Code::E1006, "history", message);
            continue;
        }
        let history = embedded(section, "history", &attention.history, features);
        let target = embedded(section, "target", &attention.target, features);
        if let (Some(history), Some(target)) = (history, target) {
            check(section, history, target);
        }
    }
}

/// Returns a feature with its embedding, and reports a name that has none.
fn embedded<'a>(
    section: &Section<'_>,
    key: &'static str,
    name: &str,
    features: &'a [FeatureConfig],
) -> Option<(&'a FeatureConfig, &'a Embedding)> {
    let named = |feature: &&FeatureConfig| feature.name == name;
    if !features.iter().any(|feature| named(&feature)) {
        let message = format!("attention.{key} names no feature, given `{name}`");
        let problem = section.reject(Code::E1006, key, message);
        let help = "name a [[feature]]: its name is its column, unless it has the key `name`";
        section.problems().push(problem.help(help));
        return None;
    }
    let found = features
        .iter()
        .filter(named)
        .find_map(|feature| match &feature.deep {
            Some(Deep::Embedding(embedding)) => Some((feature, embedding)),
            _ => None,
        });
    if found.is_none() {
        let message = format!("attention.{key} needs an embedding, the feature `{name}` has none");
        let problem = section.reject(Code::E1006, key, message);
        let help = "give the feature deep = { embedding = 16, table = \"items\" }";
        section.problems().push(problem.help(help));
    }
    found
}

fn check(
    section: &Section<'_>,
    (history, of_history): (&FeatureConfig, &Embedding),
    (target, of_target): (&FeatureConfig, &Embedding),
) {
    let fail = |key: &'static str, message: String, help: &str| {
        let problem = section.reject(Code::E1006, key, message);
        section.problems().push(problem.help(help));
    };
    for (key, feature) in [("history", history), ("target", target)] {
        let name = &feature.name;
        let kind = match feature.kind {
            FeatureKind::Bucketized { .. } => "bucketized",
            FeatureKind::Crossed { .. } => "crossed",
            _ => "",
        };
        if !kind.is_empty() {
            let message =
                format!("attention.{key} needs a feature of ids, `{name}` has kind = \"{kind}\"");
            let help = "name a feature of the kind identity, vocabulary, hashed or dynamic";
            fail(key, message, help);
        }
        if let Some(weights) = &feature.weights {
            let message = format!(
                "attention.{key} needs ids without weights, `{name}` has weights = \"{weights}\""
            );
            fail(
                key,
                message,
                "leave the weights out: attention weighs the ids",
            );
        }
    }
    if history.separator.is_none() {
        let message = format!(
            "attention.history needs a feature of several ids, `{}` has one",
            history.name
        );
        fail(
            "history",
            message,
            "give the feature a separator, for example \"|\"",
        );
    }
    if target.separator.is_some() {
        let message = format!(
            "attention.target needs a feature of one id, `{}` has a separator",
            target.name
        );
        fail("target", message, "name the feature of the candidate");
    }
    if of_history.table.is_none() || of_history.table != of_target.table {
        let shown = |table: &Option<String>| match table {
            Some(table) => format!("table = \"{table}\""),
            None => "a table of its own".to_owned(),
        };
        let message = format!(
            "a history shares the table of its target, but `{}` has {}, and `{}` {}",
            history.name,
            shown(&of_history.table),
            target.name,
            shown(&of_target.table)
        );
        fail(
            "history",
            message,
            "give both deep = { embedding = 16, table = \"items\" }",
        );
    }
    if of_history.combiner != Combiner::Mean {
        let message = format!(
            "`combiner` of the feature `{}` does nothing: it is a history, whose ids attention combines",
            history.name
        );
        let warning = Diagnostic::warning(Code::E1006, message);
        section.problems().warn(match section.place("history") {
            Some(place) => warning.at(place),
            None => warning,
        });
    }
}
