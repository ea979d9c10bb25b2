//! `[input]`: the input of training and evaluation.

use trainyard_diagnostic::{Code, Section};

use crate::{
    BadRows, Compression, EvaluationConfig, Format, IndexBase, InputConfig, InputPart, LabelConfig,
    Sharding,
};

/// Most records in a batch or a shuffle buffer.
const ROWS_MAX: u64 = 100_000_000;

pub(crate) fn read(section: Section<'_>) -> Option<InputConfig> {
    let format = match section.node("format") {
        Some(_) => section.choice("format", "input format", &Format::NAMES),
        None => Some(Format::Csv),
    };
    let compression = match section.node("compression") {
        Some(_) => section
            .choice("compression", "compression", &Compression::NAMES)
            .map(Some),
        None => Some(None),
    };
    let label = match section.section("label") {
        Some(label) => read_label(label),
        None => {
            section.missing("label", "{ column = \"salary\", positive = \">50K\" }");
            None
        }
    };
    let train = match section.section("train") {
        Some(part) => read_part(part, 10_000, true),
        None => {
            section.missing_section("train", "[input.train]", "files = [\"train.csv\"]");
            None
        }
    };
    let eval = section
        .section("eval")
        .map(|part| read_part(part, 0, false));
    let bad_rows = match section.node("bad_rows") {
        Some(_) => section.choice("bad_rows", "policy", &BadRows::NAMES),
        None => Some(BadRows::Fail),
    };
    let columns = section.texts("columns");
    if let Some(twice) = columns.as_ref().and_then(|columns| duplicate(columns)) {
        section.fail(
            Code::E1002,
            "columns",
            format!("columns must be unique, `{twice}` is given twice"),
        );
    }
    let (without, why): (&[&str], _) = match format {
        Some(Format::TfRecord) => (
            &["columns", "trim"],
            "is for text: a TFRecord names its features and holds their values as they are",
        ),
        Some(Format::Parquet) => (
            &["columns", "trim", "compression"],
            "is for other formats: a Parquet file names its columns, holds values as they are, and says how they are compressed",
        ),
        Some(Format::LibSvm(_)) => (
            &["columns", "trim"],
            "is for other formats: the columns of libsvm are label, qid, index and value",
        ),
        Some(Format::Csv | Format::Tsv) | None => (&[], ""),
    };
    for key in without.iter().filter(|key| section.node(key).is_some()) {
        section.fail(Code::E1006, key, format!("{key} {why}"));
    }
    let has_indices = matches!(format, None | Some(Format::LibSvm(_)));
    if section.node("index_base").is_some() && !has_indices {
        section.fail(
            Code::E1006,
            "index_base",
            "index_base is for format = \"libsvm\"",
        );
    }
    let index_base = match section.integer("index_base", 0..=1) {
        Some(0) => IndexBase::Zero,
        _ => IndexBase::One,
    };
    let format = format.map(|format| match format {
        Format::LibSvm(_) => Format::LibSvm(index_base),
        other => other,
    });
    let input = InputConfig {
        format: format?,
        compression: compression?,
        columns,
        label: label?,
        weight_column: section.text("weight_column"),
        trim: section.flag("trim").unwrap_or(true),
        bad_rows: bad_rows?,
        bad_rows_max: section.integer("bad_rows_max", 0..=u64::MAX).unwrap_or(100),
        missing: section.texts("missing").unwrap_or_default(),
        train: train?,
        eval: match eval {
            Some(eval) => Some(eval?),
            None => None,
        },
    };
    section.finish();
    Some(input)
}

/// Reads a separator, which is one ASCII character.
pub(crate) fn separator(section: &Section<'_>) -> Option<u8> {
    let text = section.text("separator")?;
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | b'"') => Some(*byte),
        _ => {
            let message = format!("separator must be one ASCII character, given {text:?}");
            section.fail(Code::E1002, "separator", message);
            None
        }
    }
}

pub(crate) fn duplicate(values: &[String]) -> Option<&String> {
    values
        .iter()
        .enumerate()
        .find(|(position, value)| values[..*position].contains(value))
        .map(|(_, value)| value)
}

fn read_label(section: Section<'_>) -> Option<LabelConfig> {
    let column = section.required_text("column", "\"salary\"");
    let positive = section.text("positive");
    let vocabulary = section.texts("vocabulary");
    if positive.is_some() && vocabulary.is_some() {
        section.fail(
            Code::E1006,
            "vocabulary",
            "label.positive and label.vocabulary cannot be both set",
        );
    }
    if let Some(classes) = &vocabulary {
        if classes.len() < 2 {
            let message = format!(
                "label.vocabulary must name at least 2 classes, given {}",
                classes.len()
            );
            section.fail(Code::E1002, "vocabulary", message);
        }
        if let Some(twice) = duplicate(classes) {
            section.fail(
                Code::E1002,
                "vocabulary",
                format!("label.vocabulary must be unique, `{twice}` is given twice"),
            );
        }
    }
    let separator = match section.node("separator") {
        Some(_) => separator(&section),
        None => Some(b'|'),
    };
    section.finish();
    Some(LabelConfig {
        column: column?,
        positive,
        vocabulary,
        separator: separator?,
    })
}

/// Reads further evaluations, each with an input of its own.
pub(crate) fn read_evaluations(root: &Section<'_>) -> Option<Vec<EvaluationConfig>> {
    let mut out = Vec::new();
    if root.node("evaluation").is_none() {
        return Some(out);
    }
    let mut complete = true;
    for section in root.sections("evaluation") {
        let name = section.required_text("name", "\"mobile\"");
        if let Some(name) = &name
            && !is_evaluation_name(name)
        {
            let message = format!(
                "evaluation.name must be letters, digits, `_`, `-` and `.`, at most {NAME_BYTES_MAX}, and not `train`, given `{}`",
                name.escape_default()
            );
            section.fail(Code::E1002, "name", message);
        }
        let steps = section.integer("steps", 1..=u64::MAX);
        match (name, read_part(section, 0, false)) {
            (Some(name), Some(input)) => out.push(EvaluationConfig { name, input, steps }),
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

/// Longest name of an evaluation, in bytes. It becomes a part of a folder's name.
const NAME_BYTES_MAX: usize = 64;

fn is_evaluation_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    // `eval_train` is the folder of evaluations of the training data.
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) && name != "train"
}

fn read_part(section: Section<'_>, shuffle_rows: u64, training: bool) -> Option<InputPart> {
    let files = section.texts("files");
    if section.node("files").is_none() {
        section.missing("files", "[\"train.csv\"]");
    }
    if files
        .as_ref()
        .is_some_and(|files| files.is_empty() || files.iter().any(String::is_empty))
    {
        section.fail(
            Code::E1002,
            "files",
            "files must name at least one file, and no name may be empty",
        );
    }
    let epochs = section.integer("epochs", 1..=u64::MAX);
    // The evaluator reads all records alone, and nothing ahead, so both keys are unknown there.
    let sharding = match training.then(|| section.node("sharding")).flatten() {
        Some(_) => section.choice("sharding", "sharding", &Sharding::NAMES),
        None if training => Some(Sharding::Dynamic),
        None => Some(Sharding::Row),
    };
    let prefetch_batches = training
        .then(|| section.integer("prefetch_batches", 1..=1_000_000))
        .flatten();
    let part = InputPart {
        files: files.unwrap_or_default(),
        batch_size: section.integer("batch_size", 1..=ROWS_MAX).unwrap_or(128) as usize,
        shuffle_rows: section
            .integer("shuffle_rows", 0..=ROWS_MAX)
            .unwrap_or(shuffle_rows) as usize,
        epochs: if training {
            epochs
        } else {
            Some(epochs.unwrap_or(1))
        },
        sharding: sharding?,
        prefetch_batches: prefetch_batches.unwrap_or(4) as usize,
    };
    section.finish();
    Some(part)
}
