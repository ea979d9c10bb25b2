//! Values of a vocabulary, from the job file or from a file beside it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic, Node, Section, Takes, Value, section};
use trainyard_storage::read_regular_text;
use trainyard_vocabulary::{Error, Texts, Words};

use super::BUCKETS_MAX;
use super::files::{FeatureFiles, MADE_BY};
use crate::analysis::{AnalysisRule, FilesNeeded};
use crate::{FeatureKind, MissingTexts};

/// Character at the start of a file that some editors write.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Longest vocabulary file, in bytes.
const FILE_BYTES_MAX: u64 = 2 << 30;

section! {
    /// Keys of `vocabulary` features alone.
    #[derive(Debug)]
    pub(crate) struct VocabularyKeys {
        /// the values
        values: Option<Listed> = custom(read_values, takes_values, "").optional_or_invalid("required, or `file`");
        /// file beside the job with one value per line. Where `input.trim` removes the blanks around a field, no value may have
        /// them
        file: Option<String> = path().optional("required, or `values`");
        /// for `trainyard analyze`, which makes `file`: number of occurrences in the training data that a value must have to be
        /// listed. The rarer ones share the ids of `oov_buckets`
        min_count: Option<u64> = integer(1..=u64::MAX).optional("the file is yours");
        /// use only this many of the values, the first ones
        size: Option<usize> = integer(1..=BUCKETS_MAX).optional("all");
        /// number of ids that all other values share; 0 = other values have no id
        oov_buckets: Option<u32> = integer(0..=BUCKETS_MAX).optional("0, or 1 with `min_count` and no `default`");
        /// id of the values that are not listed
        default: Option<u32> = integer(0..=BUCKETS_MAX).optional("none: such a value has no id");
        /// fields are whole numbers, and -1 means no value
        integers: Option<bool> = flag().optional("true if `values` are numbers, else false");
    }
}

/// Values as a job lists them.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    texts: Texts,
    /// Whether the job lists whole numbers.
    integers: bool,
}

/// Settings of a vocabulary, without its column.
pub(super) struct Said {
    values: Words,
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

/// Values of a feature.
enum Values {
    /// Values that have been checked, and have ids.
    Known(Words),
    New(Texts),
}

impl Values {
    fn texts(&self) -> &Texts {
        match self {
            Self::Known(words) => words.texts(),
            Self::New(texts) => texts,
        }
    }
}

/// Source of values, for messages.
struct Source {
    key: &'static str,
    file: Option<PathBuf>,
}

impl VocabularyKeys {
    /// Returns the values with the rules for all others.
    pub(super) fn listed(&self, files: &mut FeatureFiles, section: &Section<'_>) -> Option<Said> {
        let default = self.default;
        let oov_buckets = self.oov_buckets.unwrap_or_else(|| {
            let is_shared = self.min_count.is_some() && default.is_none();
            u32::from(is_shared)
        });
        let of_values = self.values.as_ref().map(|listed| listed.integers);
        let integers = self.integers.or(of_values).unwrap_or(false);
        if let Some(min_count) = self.min_count {
            let Some(file) = &self.file else {
                section.fail(
                    Code::E1006,
                    "min_count",
                    "min_count is of a file that `trainyard analyze` makes: it needs the key `file`",
                );
                return None;
            };
            let file = files.folder.join(file);
            files
                .made
                .push((file, AnalysisRule::Vocabulary { min_count }));
            if files.needs == FilesNeeded::NotYet {
                return Some(Said {
                    values: Words::new(std::iter::once("0").collect()).ok()?,
                    oov_buckets,
                    default: None,
                    integers,
                });
            }
        }
        let (source, mut values) = self.values(files, section)?;
        let key = source.key;
        if let Some(size) = self.size {
            let count = values.texts().len();
            if size > count {
                let message =
                    format!("size must be at most the {count} values there are, given {size}");
                section.fail(Code::E1002, "size", message);
                return None;
            }
            if let Values::New(texts) = &mut values {
                texts.truncate(size);
            }
        }
        let count = values.texts().len();
        if count == 0 {
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
        if let Some(default) = default.filter(|default| *default as usize >= count) {
            let message =
                format!("default must be below the number of values ({count}), given {default}");
            section.fail(Code::E1002, "default", message);
        }
        if count as u64 + u64::from(oov_buckets) > BUCKETS_MAX {
            let message = format!(
                "oov_buckets and the {count} values must be at most {BUCKETS_MAX} ids, given {oov_buckets}"
            );
            section.fail(Code::E1002, "oov_buckets", message);
        }
        if integers {
            source.check_integers(section, values.texts())?;
        }
        source.check_separator(section, files.are_divided, values.texts())?;
        // The values of a list are read with the blanks around them.
        if files.trims && section.node("separator").is_none() {
            source.check_blanks(section, values.texts())?;
        }
        let values = match values {
            Values::Known(words) => words,
            Values::New(texts) => source.words(section, texts)?,
        };
        source.warn_of_missing(section, &files.missing, &values, integers);
        if let Some(file) = source.file {
            files.read.insert((file, self.size), values.clone());
        }
        Some(Said {
            values,
            oov_buckets,
            default,
            integers,
        })
    }

    /// Returns the values of the job or of its file, before `size` has cut them.
    fn values(&self, files: &FeatureFiles, section: &Section<'_>) -> Option<(Source, Values)> {
        match (&self.values, &self.file) {
            (Some(_), Some(_)) => {
                section.fail(Code::E1006, "file", "values and file cannot be both set");
                None
            }
            (Some(Listed { texts, .. }), None) => {
                let source = Source {
                    key: "values",
                    file: None,
                };
                Some((source, Values::New(texts.clone())))
            }
            (None, Some(file)) => {
                let file = files.folder.join(file);
                let values = match files.read.get(&(file.clone(), self.size)) {
                    Some(words) => Values::Known(words.clone()),
                    None => Values::New(read_file(section, &file, self.min_count.is_some())?),
                };
                let source = Source {
                    key: "file",
                    file: Some(file),
                };
                Some((source, values))
            }
            (None, None) => {
                if section.node("values").is_none() {
                    section.missing("values", "[\"red\", \"green\"]");
                }
                None
            }
        }
    }
}

impl Source {
    fn check_integers(&self, section: &Section<'_>, texts: &Texts) -> Option<()> {
        let is_integer = |text: &str| text.parse::<i64>().is_ok();
        let Some(bad) = texts.iter().position(|text| !is_integer(text)) else {
            return Some(());
        };
        let value = texts.get(bad);
        let line = self.line(bad);
        section.fail(
            Code::E1002,
            self.key,
            format!("values of integers must be whole numbers, given `{value}`{line}"),
        );
        None
    }

    /// Refuses values that no field can have, because fields are trimmed.
    fn check_blanks(&self, section: &Section<'_>, texts: &Texts) -> Option<()> {
        let is_trimmed = |text: &str| text.trim_ascii().len() == text.len();
        let Some(bad) = texts.iter().position(|text| !is_trimmed(text)) else {
            return Some(());
        };
        let message = format!(
            "a value must not begin or end with a blank, because input.trim removes it from the fields, given `{}`{}",
            texts.get(bad).escape_debug(),
            self.line(bad)
        );
        let problem = section.reject(Code::E1002, self.key, message);
        section
            .problems()
            .push(problem.help("remove the blank, or set input.trim = false"));
        None
    }

    /// Refuses values that no list can have, because a field is divided at the separator.
    fn check_separator(
        &self,
        section: &Section<'_>,
        are_divided: bool,
        texts: &Texts,
    ) -> Option<()> {
        let separator = match section.node("separator").map(|node| &node.value) {
            Some(Value::Text(text)) if are_divided && text.len() == 1 => text,
            _ => return Some(()),
        };
        let Some(bad) = texts.iter().position(|text| text.contains(separator)) else {
            return Some(());
        };
        let message = format!(
            "a value must not hold the feature's separator `{separator}`, at which its fields are divided, given `{}`{}",
            texts.get(bad),
            self.line(bad)
        );
        let problem = section.reject(Code::E1002, self.key, message);
        section.problems().push(problem.help(
            "list the values between the separators, or choose a separator that no value holds",
        ));
        None
    }

    /// Warns of values that a field cannot have, because such a text, or -1 among integers, means a missing value.
    fn warn_of_missing(
        &self,
        section: &Section<'_>,
        missing: &MissingTexts,
        values: &Words,
        integers: bool,
    ) {
        let columns = columns_of(section);
        let texts = |column: &&str| -> BTreeSet<&str> {
            let texts = missing.of(column).iter();
            texts.map(String::as_str).collect()
        };
        let keys: BTreeSet<&str> = columns
            .iter()
            .map(|column| missing.key_of(column))
            .collect();
        let key = keys.into_iter().collect::<Vec<_>>().join(" and ");
        // A value that is missing in one of the columns occurs in another.
        let missing = columns.iter().map(texts);
        let missing = missing
            .reduce(|one, other| &one & &other)
            .unwrap_or_default();
        let is_listed = |text: &str| match text.parse() {
            Ok(number) if integers => values.id_of_int(number).is_some(),
            _ => !integers && values.id(text.as_bytes()).is_some(),
        };
        let mut found: Vec<(&str, &str)> = missing
            .iter()
            .filter(|text| is_listed(text))
            .map(|text| (*text, key.as_str()))
            .collect();
        if is_listed("") {
            found.push(("", "a field without text"));
        }
        if integers && is_listed("-1") && !missing.contains("-1") {
            found.push(("-1", "-1 among integers"));
        }
        for (text, rule) in found {
            let message = format!(
                "the value `{text}` of {} never occurs: {rule} means a missing value",
                section.title()
            );
            let warning = Diagnostic::warning(Code::E1006, message)
                .help("leave it out of one of them, or write another text for it into the files");
            section.problems().warn(match section.place(self.key) {
                Some(place) => warning.at(place),
                None => warning,
            });
        }
    }

    /// Gives each text its id.
    fn words(&self, section: &Section<'_>, texts: Texts) -> Option<Words> {
        let refused = match Words::new(texts) {
            Ok(words) => return Some(words),
            Err(refused) => refused,
        };
        let lines = match (&refused, &self.file) {
            (Error::Repeated { first, second, .. }, Some(file)) => format!(
                ", in lines {} and {} of {}",
                first + 1,
                second + 1,
                file.display()
            ),
            _ => String::new(),
        };
        section.fail(Code::E1002, self.key, format!("{refused}{lines}"));
        None
    }

    /// Returns the line of a value, if it is one of a file.
    fn line(&self, index: usize) -> String {
        self.file.as_ref().map_or_else(String::new, |file| {
            format!(" in line {} of {}", index + 1, file.display())
        })
    }
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
    Some(Listed {
        texts: texts.iter().collect(),
        integers,
    })
}

/// Reads a file with one value per line. Spaces are kept, and a carriage return at the end of a line is dropped
/// (TensorFlow's rules). A byte order mark is dropped, as in the files of the input.
fn read_file(section: &Section<'_>, file: &Path, is_made: bool) -> Option<Texts> {
    match read_regular_text(file, FILE_BYTES_MAX) {
        Ok(mut text) => {
            if text.starts_with(BYTE_ORDER_MARK) {
                text.drain(..BYTE_ORDER_MARK.len_utf8());
            }
            let texts = Texts::of_lines(text);
            if let Some(line) = texts.iter().position(str::is_empty) {
                let message = format!(
                    "{}:{} is empty, a vocabulary file holds one value a line",
                    file.display(),
                    line + 1
                );
                section.fail(Code::E1002, "file", message);
                return None;
            }
            Some(texts)
        }
        Err(error) => {
            let message = format!("vocabulary file {} cannot be read: {error}", file.display());
            let problem = section.reject(Code::E1201, "file", message);
            section.problems().push(if is_made {
                problem.help(MADE_BY)
            } else {
                problem
            });
            None
        }
    }
}

/// Returns the columns that the features of a section read.
fn columns_of<'a>(section: &Section<'a>) -> Vec<&'a str> {
    let text = |node: &'a Node| match &node.value {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let one = section.node("column").and_then(text);
    let several = section.node("columns").map(|node| &node.value);
    let several = match several {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    one.into_iter()
        .chain(several.iter().filter_map(text))
        .collect()
}
