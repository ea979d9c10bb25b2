//! `[input]`: the input of training and evaluation.

use std::collections::BTreeMap;

use serde::Serialize;
use trainyard_diagnostic::{Code, Section, Takes, section};

use crate::limit::{Limit, OfSome, of_some};
use crate::{
    BadRows, Compression, Decimal, Format, HeadKind, IndexBase, LabelConfig, MissingTexts,
    ModelConfig, NumberStyle, Sharding, TaskConfig, TextEncoding, TextStyle,
};

/// Most records in a batch or a shuffle buffer.
const ROWS_MAX: u64 = 100_000_000;
/// Most batches that are read ahead.
const PREFETCH_BATCHES_MAX: u64 = 1_000_000;

section! {
    /// Keys of `[input]`.
    #[derive(Debug)]
    pub(crate) struct InputKeys {
        /// `csv` (quotes, RFC 4180), `tsv` (no quotes), `tfrecord` (`tf.train.Example` messages), `parquet` or `libsvm`; see
        /// below
        format: Option<Format> = choice("input format", &Format::NAMES).or_invalid(Format::Csv);
        /// libsvm: the first index, 1 or 0
        index_base: u64 = integer(0..=1).or(1);
        /// compression of whole files: `none`, `gzip` or `zlib`
        compression: Option<Compression> = choice("compression", &Compression::NAMES)
            .optional_or_invalid("by the ending of each name: `.gz` and `.gzip`, `.zz` and `.zlib`, or none");
        /// names of the columns, for files without a header line
        columns: Option<Vec<String>> = texts().optional("the first line names them");
        /// csv: the character between fields, one ASCII character that is no letter and no digit: `;`, a tab. Fields may be quoted
        delimiter: Option<u8> = custom(delimiter_at, || Takes::Text, "").optional_or_invalid("`,`");
        /// csv, tsv: `utf-8`, `latin1` (Windows-1252), `windows-1250`, `windows-1251`, `gb18030` (GBK, too), `big5`, `shift-jis` or
        /// `euc-kr`. The model has the texts in UTF-8
        encoding: Option<TextEncoding> = choice("encoding", &TextEncoding::NAMES).or_invalid(TextEncoding::Utf8);
        /// csv, tsv: character between the whole part of a number and its fraction, `.` or `,`
        decimal: Option<Decimal> = choice("decimal character", &Decimal::NAMES).or_invalid(Decimal::Point);
        /// csv, tsv: character between groups of three digits of a number, `,` in `1,234.5`
        thousands: Option<char> = custom(thousands_at, || Takes::Text, "").optional_or_invalid("none");
        /// csv, tsv: texts before or after a number that are dropped: `["%"]` makes `12.5 %` 12.5
        units: Option<Vec<String>> = custom(units_at, || Takes::Texts, "").or_invalid(Vec::new()).said("none");
        /// column, classes and separator of the label, `{ column = "salary", positive = ">50K" }`
        label: Option<LabelConfig> = custom(read_label, label_takes, "")
            .optional_or_invalid("required, but for models of several tasks");
        /// column of the examples' weights ([below](#labels-weights-and-groups))
        weight_column: Option<String> = text().optional("none");
        /// removes spaces around fields and names
        trim: bool = flag().or(true);
        /// texts that mean a missing value, besides the empty text and, among numbers, `nan`. A number is
        /// missing if it equals one of them: `-999` is also -999.0. The same holds in every format and in
        /// requests. A list of any length leaves missing values out, also empty texts, which TensorFlow keeps
        /// in a TFRecord list. Beside `weights`, values and weights may be missing at its end only: others
        /// make the row bad
        missing: Vec<String> = texts().or(Vec::new()).said("none");
        /// the texts that mean a missing value in a column, which it has instead of those of `missing`:
        /// `{ country = [], age = ["-999"] }`, as pandas' `na_values`. It holds for features, labels and
        /// weights; a column of an empty list has no such text
        missing_of: Option<BTreeMap<String, Vec<String>>> =
            custom(read_missing_of, || Takes::TableOf(Box::new(Takes::Texts)), "").or_invalid(BTreeMap::new()).said("none");
        /// `fail` ends the task at the first bad row. `skip` leaves bad rows out and writes them to `model_dir/dead_letter`,
        /// one JSON object per line: `file`, `line` (for TFRecord `record`, for Parquet `row`), `offset`, `column`,
        /// `reason`, and `content`, which is the whole line of a text file. A row is bad if it cannot be parsed, or the model
        /// cannot use it: an id or label out of range, a missing value without default, another number of `weights` than
        /// of values
        bad_rows: Option<BadRows> = choice("policy", &BadRows::NAMES).or_invalid(BadRows::Fail);
        /// maximum number of bad rows of a task under `skip`
        bad_rows_max: u64 = integer(0..=u64::MAX).or(100);
        /// training input, [below](#inputtrain-and-inputeval)
        train: Option<InputPart> = custom(read_train, train_takes, "").required_by_caller();
        /// evaluation input, [below](#inputtrain-and-inputeval)
        eval: Option<InputPart> = custom(read_eval, eval_takes, "").optional_or_invalid("no evaluation");
    }
}

section! {
    /// Keys of `input.label`.
    #[derive(Debug)]
    pub(crate) struct LabelKeys {
        /// column of the label
        column: Option<String> = nonempty_text().required_or_invalid("\"salary\"");
        /// text of the positive class of a binary classifier; a trailing `*` matches any ending
        positive: Option<String> = text().optional("the label is 0 or 1");
        /// texts of the classes, in class order
        vocabulary: Option<Vec<String>> = texts().optional("the label is a class number");
        /// character between the labels of a record, for `multi_label` heads and labels of several numbers
        separator: Option<u8> = custom(separator_at, || Takes::Text, "\"|\"").or_invalid(SEPARATOR);
    }
}

section! {
    /// Keys of `[input.train]`, `[input.eval]` and `[[evaluation]]`.
    #[derive(Debug)]
    pub(crate) struct PartKeys {
        /// paths, URLs and patterns, each file once. A relative path is looked for beside the job file, and then in the
        /// working folder. If both have a match, the file beside the job counts, and `trainyard check` warns
        files: Option<Vec<String>> = paths().required_or_invalid("[\"train.csv\"]");
        /// records in a batch
        batch_size: usize = integer(1..=ROWS_MAX).or(128);
        /// records in the shuffle buffer, or, if the chief hands out the data, in each window that is shuffled; 0 = file
        /// order
        shuffle_rows: Option<usize> = integer(0..=ROWS_MAX).optional("10000; 0 for eval");
        /// passes over the data
        epochs: Option<u64> = integer(1..=u64::MAX).optional("for ever; 1 for eval");
    }
}

section! {
    /// Further keys of `[input.train]`. The evaluator reads all records alone, and nothing ahead.
    #[derive(Debug)]
    pub(crate) struct TrainPartKeys {
        /// `[input.train]` only. `dynamic`: the chief hands out data shards, and one pass reads every record once, for any
        /// number, speed and failures of the tasks. `row`: record i goes to task i mod n. `file`: whole files are divided in
        /// the same way. `none`: every task reads everything, so an epoch is one pass of each task
        /// ([training-modes.md](training-modes.md))
        sharding: Sharding = choice("sharding", &Sharding::NAMES).or(Sharding::Dynamic);
        /// `[input.train]` only: batches read ahead
        prefetch_batches: usize = integer(1..=PREFETCH_BATCHES_MAX).or(PREFETCH_BATCHES);
    }
}

/// Byte between the labels of a record by default.
pub(super) const SEPARATOR: u8 = b'|';
/// Batches that are read ahead by default.
const PREFETCH_BATCHES: usize = 4;
/// Records in the shuffle buffer of training by default.
const SHUFFLE_ROWS: usize = 10_000;

/// Input of training and evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputConfig {
    /// Record format; for libsvm files, with the base of their indices.
    #[serde(flatten)]
    pub format: Format,
    /// Compression of the files; absent = by the extension of each file's name.
    pub compression: Option<Compression>,
    /// Column names of files without a header line; absent = the first line of each file holds them.
    pub columns: Option<Vec<String>>,
    /// Style of the fields of CSV and TSV files.
    #[serde(flatten)]
    pub text: TextStyle,
    /// The label; in a model of several tasks that of the first.
    pub label: LabelConfig,
    /// Column with the weight of each example.
    pub weight_column: Option<String>,
    /// Spaces around fields are removed; true by default.
    pub trim: bool,
    /// Treatment of bad rows.
    pub bad_rows: BadRows,
    /// Most bad rows of a task under `skip`; 100 by default.
    pub bad_rows_max: u64,
    /// Texts that stand for a missing value, besides the empty text; none by default.
    #[serde(flatten)]
    pub missing: MissingTexts,
    /// Training input.
    pub train: InputPart,
    /// Evaluation input; absent = no evaluation.
    pub eval: Option<InputPart>,
}

/// One input: its files, and how they become batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputPart {
    /// Paths, URLs and patterns, as written; a relative path is relative to the job file, then to the working folder.
    pub files: Vec<String>,
    /// Records in a batch; 128 by default.
    pub batch_size: usize,
    /// Records in the shuffle buffer; 0 = file order. 10000 by default for training, 0 for evaluation.
    pub shuffle_rows: usize,
    /// Number of passes; absent = unlimited in training, one in evaluation.
    pub epochs: Option<u64>,
    /// Division of the records among the workers; `dynamic` by default in training.
    pub sharding: Sharding,
    /// Number of batches that are read ahead; 4 by default.
    pub prefetch_batches: usize,
}

impl InputConfig {
    /// Returns whether fields are read without the blanks around them.
    pub(crate) fn trims(&self) -> bool {
        self.trim && is_separated(self.format)
    }

    /// Returns whether fields are texts that a separator divides into values.
    pub(crate) fn are_divided(&self) -> bool {
        is_separated(self.format)
    }

    /// Returns the characters that the job names as parts of a number.
    pub(crate) fn characters_of_numbers(&self) -> Vec<u8> {
        let numbers = &self.text.numbers;
        let decimal = Some(numbers.decimal).filter(|decimal| *decimal != Decimal::default());
        let thousands = numbers.thousands.and_then(|one| u8::try_from(one).ok());
        let decimal = decimal.map(Decimal::byte);
        decimal.into_iter().chain(thousands).collect()
    }
}

/// Keys that have meaning for some formats only.
const OF_SOME_FORMATS: [OfSome<Format>; 9] = [
    ("delimiter", |format| format == Format::Csv),
    ("encoding", is_separated),
    ("decimal", is_separated),
    ("thousands", is_separated),
    ("units", is_separated),
    ("columns", is_separated),
    ("trim", is_separated),
    ("compression", |format| format != Format::Parquet),
    ("index_base", |format| matches!(format, Format::LibSvm(_))),
];

fn is_separated(format: Format) -> bool {
    matches!(format, Format::Csv | Format::Tsv)
}

/// Returns the limits of the keys by the format.
pub(crate) fn limits() -> Vec<Limit> {
    of_some("format", &Format::NAMES, &OF_SOME_FORMATS)
}

/// Refuses keys that have no meaning for files of this format.
fn check_keys(section: &Section<'_>, format: Format) {
    for (key, has_meaning) in OF_SOME_FORMATS {
        if has_meaning(format) || section.node(key).is_none() {
            continue;
        }
        let why = match format {
            _ if key == "index_base" => "is for format = \"libsvm\"",
            Format::Tsv if key == "delimiter" => {
                "is for format = \"csv\": tsv has tabs, and csv with delimiter = \"\\t\" has tabs and quotes"
            }
            Format::TfRecord => {
                "is for text: a TFRecord names its features and holds their values as they are"
            }
            Format::Parquet => {
                "is for other formats: a Parquet file names its columns, holds values as they are, and says how they are compressed"
            }
            Format::LibSvm(_) | Format::Csv | Format::Tsv => {
                "is for other formats: the columns of libsvm are label, qid, index and value"
            }
        };
        section.fail(Code::E1006, key, format!("{key} {why}"));
    }
}

/// Labels of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Labels<'a> {
    /// `input.label`.
    OfInput,
    /// Those of the tasks of the model; none if they cannot be read.
    OfTasks(&'a [TaskConfig]),
}

pub(crate) fn read(section: Section<'_>, labels: Labels<'_>) -> Option<InputConfig> {
    let keys = InputKeys::read_keys(&section)?;
    let label = match labels {
        Labels::OfInput => {
            if section.node("label").is_none() {
                section.missing("label", "{ column = \"salary\", positive = \">50K\" }");
            }
            keys.label
        }
        Labels::OfTasks(tasks) => {
            if section.node("label").is_some() {
                let message = "label has no meaning for a model of several tasks: each [[model.task]] has a label of its own";
                section.fail(Code::E1006, "label", message);
            }
            tasks.first().map(|task| task.label.clone())
        }
    };
    if section.node("train").is_none() {
        section.missing_section("train", "[input.train]", "files = [\"train.csv\"]");
    }
    let columns = &keys.columns;
    if let Some(twice) = columns.as_ref().and_then(|columns| duplicate(columns)) {
        section.fail(
            Code::E1002,
            "columns",
            format!("columns must be unique, `{twice}` is given twice"),
        );
    }
    if let Some(format) = keys.format {
        check_keys(&section, format);
    }
    let format = keys.format.map(|format| match format {
        Format::LibSvm(_) if keys.index_base == 0 => Format::LibSvm(IndexBase::Zero),
        other => other,
    });
    let invalid = |key: &'static str, found: bool| !found && section.node(key).is_some();
    let misread = invalid("compression", keys.compression.is_some())
        || invalid("eval", keys.eval.is_some())
        || invalid("delimiter", keys.delimiter.is_some())
        || invalid("thousands", keys.thousands.is_some());
    let decimal = keys.decimal.unwrap_or_default();
    if keys.thousands == Some(char::from(decimal.byte())) {
        let message = "thousands and decimal cannot be the same character";
        section.fail(Code::E1006, "thousands", message);
    }
    section.finish();
    if misread {
        return None;
    }
    Some(InputConfig {
        format: format?,
        compression: keys.compression,
        columns: keys.columns,
        text: TextStyle {
            delimiter: keys.delimiter.filter(|delimiter| *delimiter != b','),
            encoding: keys.encoding?,
            numbers: NumberStyle {
                decimal: keys.decimal?,
                thousands: keys.thousands,
                units: keys.units?,
            },
        },
        label: label?,
        weight_column: keys.weight_column,
        trim: keys.trim,
        bad_rows: keys.bad_rows?,
        bad_rows_max: keys.bad_rows_max,
        missing: MissingTexts {
            everywhere: keys.missing,
            of_columns: keys.missing_of?,
        },
        train: keys.train?,
        eval: keys.eval,
    })
}

/// Reads the delimiter of CSV: one ASCII character that is no part of a word.
fn delimiter_at(section: &Section<'_>, key: &'static str) -> Option<u8> {
    let text = section.text(key)?;
    match text.as_bytes() {
        [byte] if is_delimiter(*byte) => Some(*byte),
        _ => {
            let message = format!(
                "delimiter must be one ASCII character that is no letter, digit, quote or line end, given {text:?}"
            );
            section.fail(Code::E1002, key, message);
            None
        }
    }
}

/// Returns whether a byte may stand between fields.
fn is_delimiter(byte: u8) -> bool {
    byte.is_ascii()
        && !byte.is_ascii_alphanumeric()
        && !matches!(byte, 0 | b'\n' | b'\r' | b'"' | b'-' | b'+' | b'.' | b'_')
}

/// Reads the character between groups of digits.
fn thousands_at(section: &Section<'_>, key: &'static str) -> Option<char> {
    let text = section.text(key)?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(only), None) if !is_of_numbers(only) => Some(only),
        _ => {
            let message = format!(
                "thousands must be one character that is no digit, letter or sign, given {text:?}"
            );
            section.fail(Code::E1002, key, message);
            None
        }
    }
}

fn is_of_numbers(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '+')
}

/// Reads the units of numbers.
fn units_at(section: &Section<'_>, key: &'static str) -> Option<Vec<String>> {
    let units = section.texts(key)?;
    let ends_as_a_number = |unit: &String| {
        let ends = [unit.chars().next(), unit.chars().next_back()];
        let of_number = |end: &char| end.is_ascii_digit() || matches!(end, '-' | '+');
        unit.trim() != unit
            || matches!(unit.as_str(), "." | ",")
            || ends.iter().flatten().any(of_number)
    };
    if let Some(bad) = units
        .iter()
        .find(|unit| unit.is_empty() || ends_as_a_number(unit))
    {
        let message = format!(
            "units must be texts that neither begin nor end with a digit, a sign or a blank, given {bad:?}"
        );
        section.fail(Code::E1002, key, message);
        return None;
    }
    Some(units)
}

/// Reads the texts that mean a missing value in single columns.
fn read_missing_of(
    section: &Section<'_>,
    key: &'static str,
) -> Option<BTreeMap<String, Vec<String>>> {
    Some(section.texts_by_name(key)?.into_iter().collect())
}

/// Reads a separator, which is one ASCII character.
pub(crate) fn separator_at(section: &Section<'_>, key: &'static str) -> Option<u8> {
    let text = section.text(key)?;
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | b'"') => Some(*byte),
        _ => {
            let message = format!("separator must be one ASCII character, given {text:?}");
            section.fail(Code::E1002, key, message);
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

fn label_takes() -> Takes {
    Takes::Table(LabelKeys::keys())
}

fn read_label(section: &Section<'_>, key: &'static str) -> Option<LabelConfig> {
    let section = section.section(key)?;
    let keys = LabelKeys::read_keys(&section)?;
    check_texts(&section, keys.positive.as_ref(), keys.vocabulary.as_ref());
    section.finish();
    Some(LabelConfig {
        column: keys.column?,
        positive: keys.positive,
        vocabulary: keys.vocabulary,
        separator: keys.separator?,
    })
}

/// Checks that a label of the input may have the texts of its classes.
pub(crate) fn check_classes(root: &Section<'_>, model: &ModelConfig, input: &InputConfig) {
    if model.tasks.is_empty() {
        let section = root.section("input");
        let section = section.and_then(|input| input.section("label"));
        let is_list = model.head == HeadKind::MultiLabel;
        let label = &input.label;
        let of_numbers = !model.head.has_classes() && model.label_dimension > 1;
        if let Some(section) = section {
            let apart = label.separator;
            if of_numbers && input.are_divided() && input.characters_of_numbers().contains(&apart) {
                let message = format!(
                    "label.separator must be no character of a number, and `{}` is input.decimal or input.thousands",
                    char::from(apart)
                );
                section.fail(Code::E1006, "separator", message);
            }
            check_texts_of_label(&section, label, input, is_list);
        }
        return;
    }
    let sections = root
        .section("model")
        .map_or(Vec::new(), |model| model.sections("task"));
    for (section, task) in sections.iter().zip(&model.tasks) {
        if let Some(section) = section.section("label") {
            check_texts_of_label(&section, &task.label, input, false);
        }
    }
}

/// Refuses the texts of classes that no label can be: their records would be bad, or count as negative.
fn check_texts_of_label(
    section: &Section<'_>,
    label: &LabelConfig,
    input: &InputConfig,
    is_list: bool,
) {
    let separator = char::from(label.separator);
    let missing = input.missing.of(&label.column);
    let why = |text: &str| {
        let is_trimmed = text.trim_ascii().len() == text.len();
        if text.is_empty() {
            Some("must not be empty: a label without text is missing".to_owned())
        } else if missing.iter().any(|missing| missing == text) {
            Some(format!(
                "must not be in {}, by which such a label is missing, given `{text}`",
                input.missing.key_of(&label.column)
            ))
        } else if input.trims() && !is_list && !is_trimmed {
            Some(format!(
                "must not begin or end with a blank, because input.trim removes it from the fields, given `{}`",
                text.escape_debug()
            ))
        } else if is_list && input.are_divided() && text.contains(separator) {
            Some(format!(
                "must not hold label.separator `{separator}`, at which the labels of a record are divided, given `{text}`"
            ))
        } else {
            None
        }
    };
    let vocabulary = label.vocabulary.iter().flatten();
    let classes = vocabulary.map(|class| ("vocabulary", class));
    let positive = label.positive.iter().map(|class| ("positive", class));
    if let Some((key, why)) = classes
        .chain(positive)
        .find_map(|(key, class)| Some((key, why(class)?)))
    {
        let message = format!("a class of label.{key} {why}");
        let problem = section.reject(Code::E1002, key, message);
        section
            .problems()
            .push(problem.help("correct the class, or the key of [input] that the message names"));
    }
}

/// Checks the texts of the classes of a label.
pub(super) fn check_texts(
    section: &Section<'_>,
    positive: Option<&String>,
    vocabulary: Option<&Vec<String>>,
) {
    if positive.is_some() && vocabulary.is_some() {
        section.fail(
            Code::E1006,
            "vocabulary",
            "label.positive and label.vocabulary cannot be both set",
        );
    }
    if let Some(classes) = vocabulary {
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
}

fn train_takes() -> Takes {
    let mut keys = PartKeys::keys();
    keys.extend(TrainPartKeys::keys());
    Takes::Table(keys)
}

fn eval_takes() -> Takes {
    Takes::Table(PartKeys::keys())
}

impl PartKeys {
    fn read(section: &Section<'_>) -> Option<Self> {
        let keys = Self::read_keys(section)?;
        let is_incomplete =
            |files: &Vec<String>| files.is_empty() || files.iter().any(String::is_empty);
        if keys.files.as_ref().is_some_and(is_incomplete) {
            section.fail(
                Code::E1002,
                "files",
                "files must name at least one file, and no name may be empty",
            );
        }
        Some(keys)
    }
}

fn read_train(section: &Section<'_>, key: &'static str) -> Option<InputPart> {
    let section = section.section(key)?;
    let keys = PartKeys::read(&section)?;
    let further = TrainPartKeys::read_keys(&section);
    section.finish();
    let further = further?;
    Some(InputPart {
        files: keys.files.unwrap_or_default(),
        batch_size: keys.batch_size,
        shuffle_rows: keys.shuffle_rows.unwrap_or(SHUFFLE_ROWS),
        epochs: keys.epochs,
        sharding: further.sharding,
        prefetch_batches: further.prefetch_batches,
    })
}

fn read_eval(section: &Section<'_>, key: &'static str) -> Option<InputPart> {
    read_eval_part(section.section(key)?)
}

/// Reads an input of evaluations: one pass in file order, by default.
pub(crate) fn read_eval_part(section: Section<'_>) -> Option<InputPart> {
    let keys = PartKeys::read(&section)?;
    section.finish();
    Some(InputPart {
        files: keys.files.unwrap_or_default(),
        batch_size: keys.batch_size,
        shuffle_rows: keys.shuffle_rows.unwrap_or(0),
        epochs: Some(keys.epochs.unwrap_or(1)),
        sharding: Sharding::Row,
        prefetch_batches: PREFETCH_BATCHES,
    })
}
