//! Values of a vocabulary, from the job file or from a file beside it.

use std::path::Path;

use trainyard_diagnostic::{Code, Section, Takes, Value, section};

use super::BUCKETS_MAX;
use crate::FeatureKind;

section! {
    /// Keys of `vocabulary` features alone.
    #[derive(Debug)]
    pub(crate) struct VocabularyKeys {
        /// the values
        values: Option<Listed> = custom(read_values, takes_values, "").optional_or_invalid("required, or `file`");
        /// file beside the job with one value per line
        file: Option<String> = text().optional("required, or `values`");
        /// use only this many of the values, the first ones
        size: Option<usize> = integer(1..=BUCKETS_MAX).optional("all");
        /// number of ids that all other values share; 0 = other values have no id
        oov_buckets: u32 = integer(0..=BUCKETS_MAX).or(0);
        /// id of the values that are not listed
        default: Option<u32> = integer(0..=BUCKETS_MAX).optional("none: such a value has no id");
        /// fields are whole numbers, and -1 means no value
        integers: Option<bool> = flag().optional("true if `values` are numbers, else false");
    }
}

/// Values as a job lists them.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    texts: Vec<String>,
    /// Whether the job lists whole numbers.
    integers: bool,
}

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

impl VocabularyKeys {
    /// Returns the values with the rules for all others.
    pub(super) fn listed(&self, path: &Path, section: &Section<'_>) -> Option<Said> {
        let oov_buckets = self.oov_buckets;
        let default = self.default;
        let listed = self.values.clone();
        let of_values = listed.as_ref().map(|listed| listed.integers);
        let integers = self.integers.or(of_values).unwrap_or(false);
        let (key, mut values) = match (listed, &self.file) {
            (Some(_), Some(_)) => {
                section.fail(Code::E1006, "file", "values and file cannot be both set");
                return None;
            }
            (Some(Listed { texts, .. }), None) => ("values", texts),
            (None, Some(file)) => ("file", read_file(path, section, file)?),
            (None, None) => {
                if section.node("values").is_none() {
                    section.missing("values", "[\"red\", \"green\"]");
                }
                return None;
            }
        };
        if let Some(size) = self.size {
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

fn takes_values() -> Takes {
    Takes::AnyOf(vec![Takes::Texts, Takes::Numbers])
}

/// Reads the values: strings, or integers for a column of integers.
fn read_values(section: &Section<'_>, key: &'static str) -> Option<Listed> {
    let items = match &section.node(key)?.value {
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
    let integers = !items.is_empty() && numbers.len() == items.len();
    let texts = if integers {
        numbers
    } else {
        section.texts(key)?
    };
    Some(Listed { texts, integers })
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
