//! Values of a vocabulary, from the job file or from a file beside it.

use std::path::Path;

use trainyard_diagnostic::{Code, Section, Value};

use super::BUCKETS_MAX;
use crate::FeatureKind;

/// Settings of a vocabulary, without its column.
pub(super) struct Said {
    values: Vec<String>,
    oov_buckets: u32,
    default: Option<u32>,
    integers: bool,
}

impl Said {
    pub(super) fn of(&self, column: String) -> FeatureKind {
        let Self {
            ref values,
            oov_buckets,
            default,
            integers,
        } = *self;
        FeatureKind::Vocabulary {
            column,
            values: values.clone(),
            oov_buckets,
            default,
            integers,
        }
    }
}

pub(super) fn read(path: &Path, section: &Section<'_>) -> Option<Said> {
    let oov_buckets = section.integer("oov_buckets", 0..=BUCKETS_MAX).unwrap_or(0) as u32;
    let default = section
        .integer("default", 0..=BUCKETS_MAX)
        .map(|id| id as u32);
    let size = section
        .integer("size", 1..=BUCKETS_MAX)
        .map(|size| size as usize);
    let listed = read_values(section);
    let file = section.text("file");
    let integers = section
        .flag("integers")
        .or(listed.as_ref().map(|(_, integers)| *integers));
    let integers = integers.unwrap_or(false);
    let (key, mut values) = match (listed, file) {
        (Some(_), Some(_)) => {
            section.fail(Code::E1006, "file", "values and file cannot be both set");
            return None;
        }
        (Some((values, _)), None) => ("values", values),
        (None, Some(file)) => ("file", read_file(path, section, &file)?),
        (None, None) => {
            if section.node("values").is_none() {
                section.missing("values", "[\"red\", \"green\"]");
            }
            return None;
        }
    };
    if let Some(size) = size {
        if size > values.len() {
            let message = format!(
                "size must be at most the {} values there are, given {size}",
                values.len()
            );
            section.fail(Code::E1002, "size", message);
            return None;
        }
        values.truncate(size);
    }
    if values.is_empty() {
        section.fail(
            Code::E1002,
            key,
            "a vocabulary must hold at least one value, given none",
        );
        return None;
    }
    if default.is_some() && oov_buckets > 0 {
        section.fail(
            Code::E1006,
            "default",
            "default and oov_buckets cannot be both set",
        );
    }
    if let Some(default) = default.filter(|default| *default as usize >= values.len()) {
        let message = format!(
            "default must be below the number of values ({}), given {default}",
            values.len()
        );
        section.fail(Code::E1002, "default", message);
    }
    check(section, key, &values, integers)?;
    Some(Said {
        values,
        oov_buckets,
        default,
        integers,
    })
}

fn check(
    section: &Section<'_>,
    key: &'static str,
    values: &[String],
    integers: bool,
) -> Option<()> {
    if let Some(bad) = values
        .iter()
        .find(|value| integers && value.parse::<i64>().is_err())
    {
        section.fail(
            Code::E1002,
            key,
            format!("values of integers must be whole numbers, given `{bad}`"),
        );
        return None;
    }
    let mut sorted: Vec<&String> = values.iter().collect();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        section.fail(
            Code::E1002,
            key,
            format!(
                "a vocabulary must not repeat a value, `{}` is given twice",
                pair[0]
            ),
        );
        return None;
    }
    Some(())
}

/// Reads the values: strings, or integers for a column of integers.
fn read_values(section: &Section<'_>) -> Option<(Vec<String>, bool)> {
    let node = section.node("values")?;
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => &[],
    };
    let numbers: Vec<String> = items
        .iter()
        .filter_map(|item| match item.value {
            Value::Integer(number) => Some(number.to_string()),
            _ => None,
        })
        .collect();
    if !items.is_empty() && numbers.len() == items.len() {
        return Some((numbers, true));
    }
    section.texts("values").map(|values| (values, false))
}

/// Reads a file with one value per line. Spaces are kept, and a carriage return at the end of a line is dropped
/// (TensorFlow's rules).
fn read_file(path: &Path, section: &Section<'_>, file: &str) -> Option<Vec<String>> {
    let full = path.parent().unwrap_or(Path::new("")).join(file);
    match std::fs::read_to_string(&full) {
        Ok(text) => {
            let values: Vec<String> = text.lines().map(str::to_owned).collect();
            if let Some(line) = values.iter().position(String::is_empty) {
                let message = format!(
                    "{}:{} is empty, a vocabulary file holds one value a line",
                    full.display(),
                    line + 1
                );
                section.fail(Code::E1002, "file", message);
                return None;
            }
            Some(values)
        }
        Err(error) => {
            let message = format!(
                "vocabulary file {} cannot be read: {}",
                full.display(),
                error.kind()
            );
            section.fail(Code::E1201, "file", message);
            None
        }
    }
}
