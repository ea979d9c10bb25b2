//! What the columns of the input hold beyond the types of their values.

use std::path::PathBuf;

use trainyard_diagnostic::{Code, Diagnostic, listed};
use trainyard_input::{Cell, ColumnKind, ColumnType, Format, Layout, TableReader, TypeKind, Value};

use super::fit::shown;

/// Refuses files of which one has a column that another has not: its values would be missing in the rows of the other. A file that
/// cannot be read is told when its rows are.
///
/// # Errors
/// The columns of two files differ.
pub(crate) fn same_columns(
    files: &[PathBuf],
    open: impl Fn(&PathBuf) -> TableReader,
) -> Result<(), Diagnostic> {
    let mut first = Vec::new();
    for (place, file) in files.iter().enumerate() {
        let mut reader = open(file);
        // A bad row is told when the rows are read. The columns are known before the first.
        let read = reader.read(&mut Vec::new());
        let here = reader.columns();
        if place == 0 {
            first = here.to_vec();
        } else if read.is_ok() || !here.is_empty() {
            compare((&files[0], &first), (file, here))?;
        }
    }
    Ok(())
}

/// Checks that two files have the same columns.
fn compare(
    (first, first_columns): (&PathBuf, &[String]),
    (other, other_columns): (&PathBuf, &[String]),
) -> Result<(), Diagnostic> {
    if first_columns.is_empty() {
        return Ok(());
    }
    let lacks = |columns: &[String], of: &[String]| {
        let lacking = of.iter().find(|name| !columns.contains(name));
        lacking.cloned()
    };
    let (column, without, with, known) = match (
        lacks(other_columns, first_columns),
        lacks(first_columns, other_columns),
    ) {
        (Some(column), _) => (column, other, first, other_columns),
        (None, Some(column)) => (column, first, other, first_columns),
        (None, None) => return Ok(()),
    };
    let message = format!(
        "column `{column}` of {} is not in {}: files that become one must have the same columns, in any order",
        with.display(),
        without.display()
    );
    Err(Diagnostic::error(Code::E4003, message)
        .note(format!("columns: {}", listed(known)))
        .help("correct the file, or take files with other columns on their own"))
}

/// Tells the columns that have no value in any row, for which a TFRecord file has no place.
pub(super) fn told_of_empty(layout: &Layout, to: Format) -> Option<Diagnostic> {
    let empty = layout.columns.iter().filter(|column| column.kind.is_none());
    let names: Vec<String> = empty.map(|column| format!("`{}`", column.name)).collect();
    (to == Format::TfRecord && !names.is_empty()).then(|| {
        let message = format!(
            "{} no value in any row, and a tfrecord holds values alone: the result does not name {}",
            match names.as_slice() {
                [only] => format!("the column {only} has"),
                all => format!("the columns {} have", listed(all)),
            },
            if names.len() == 1 { "it" } else { "them" }
        );
        Diagnostic::warning(Code::E4005, message)
            .help("write csv, tsv or parquet where a job reads the column")
    })
}

/// Refuses columns whose values the result could not have.
///
/// # Errors
/// There is such a column.
pub(super) fn refuse_unreadable(unreadable: &[(String, String)]) -> Result<(), Diagnostic> {
    if unreadable.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = unreadable
        .iter()
        .map(|(name, kind)| format!("`{name}` ({kind})"))
        .collect();
    let message = format!(
        "the input has columns of types that cannot be converted: {}",
        told.join(", ")
    );
    Err(Diagnostic::error(Code::E4003, message).help(
        "write the files without these columns, or with lists of single values in their place: lists in lists, maps and lists of \
         structures have no place in the result",
    ))
}

/// Tells the columns of Parquet files whose values the output says in another way.
pub(super) fn of_other_types(types: &[ColumnType], layout: &Layout, to: Format) -> Vec<Diagnostic> {
    let has_types = matches!(to, Format::Parquet | Format::TfRecord);
    let told = types.iter().filter_map(|found| {
        let name = &found.name;
        let mut columns = layout.columns.iter();
        let column = columns.find(|column| column.name == *name)?;
        let written = match column.kind? {
            kind if has_types => Written::Typed(kind),
            _ => Written::Fields,
        };
        let other = other_type(found, written)?;
        Some(other.told(&format!("the column `{name}`"), to.name()))
    });
    told.collect()
}

/// Refuses columns of bytes, for which a format of texts has no place. Bytes that happen to be a text are none: the next file would be
/// refused.
///
/// # Errors
/// There is such a column. `what` says how it is asked for.
pub(crate) fn refuse_bytes<'a>(
    types: impl IntoIterator<Item = &'a ColumnType>,
    what: impl Fn(&str) -> String,
    to: &str,
) -> Result<(), Diagnostic> {
    let mut types = types.into_iter();
    let Some(ColumnType {
        name, type_name, ..
    }) = types.find(|found| found.kind.is_bytes())
    else {
        return Ok(());
    };
    let message = format!(
        "{} holds bytes ({type_name}), and {to} holds texts alone",
        what(name)
    );
    Err(Diagnostic::error(Code::E4003, message).help(
        "write tfrecord or parquet, which hold any bytes, or leave the column out; where the bytes are texts, write them as such, as \
         `pyarrow.Table.cast` does",
    ))
}

/// How a file holds the values of a column of another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// As texts of csv, tsv or libsvm.
    Fields,
    /// As values of JSON, which has booleans and whole numbers without a sign.
    Json,
    /// As values of a type of parquet or tfrecord.
    Typed(ColumnKind),
}

/// What the values of a column are, and become.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherType {
    holds: String,
    becomes: &'static str,
    help: String,
}

/// Returns what the values of a column become where they are not what they were.
pub(crate) fn other_type(column: &ColumnType, written: Written) -> Option<OtherType> {
    let kind = column.kind;
    let is_text = written == Written::Typed(ColumnKind::Text);
    let (holds, becomes) = match (kind, written) {
        (TypeKind::Boolean, Written::Fields | Written::Typed(_)) => {
            ("booleans".to_owned(), "the whole numbers 0 and 1")
        }
        (TypeKind::Time(_) | TypeKind::TimeOfDay(_) | TypeKind::Duration(_), _) => (
            kind.meaning()?.to_string(),
            "plain whole numbers in that unit",
        ),
        (TypeKind::Decimal, Written::Typed(ColumnKind::Text)) => (
            "decimals with more digits than a float keeps".to_owned(),
            "texts",
        ),
        (TypeKind::Decimal, Written::Typed(ColumnKind::Float)) => ("decimals".to_owned(), "floats"),
        (TypeKind::Decimal, Written::Json) => (
            "decimals".to_owned(),
            "numbers, and as texts where a float would round their digits",
        ),
        (TypeKind::Decimal, Written::Typed(ColumnKind::Int)) => {
            ("decimals".to_owned(), "whole numbers of 64 bits")
        }
        (TypeKind::Unsigned64, _) if is_text => (
            "whole numbers from 2^63, which 64 bits with a sign do not hold".to_owned(),
            "texts of their digits",
        ),
        (TypeKind::Uuid, Written::Typed(_)) => ("UUIDs".to_owned(), "their texts"),
        (TypeKind::EncodedBytes, Written::Typed(_)) => {
            (format!("values of {}", column.type_name), "their bytes")
        }
        (TypeKind::Extension, _) => (
            format!("values of {}", column.type_name),
            "the plain numbers or texts that they are made of",
        ),
        _ => return None,
    };
    let help = match kind {
        TypeKind::Time(unit) | TypeKind::TimeOfDay(unit) => match unit.time_unit() {
            Some(unit) => format!(
                "where a feature or label takes it with `time`, give it time_unit = {:?}; without, a job takes the numbers for seconds",
                unit.name()
            ),
            None => {
                "no time_unit of a job is days: read the input itself where a feature takes the column with `time`".to_owned()
            }
        },
        TypeKind::Duration(_) => "say the unit where the numbers are read".to_owned(),
        TypeKind::EncodedBytes | TypeKind::Extension => {
            "a job reads the same from both; parquet from parquet keeps the type for other programs".to_owned()
        }
        _ => "a job reads the same from both; parquet keeps the type for other programs".to_owned(),
    };
    Some(OtherType {
        holds,
        becomes,
        help,
    })
}

impl OtherType {
    /// Tells that the values are written to a format in another way.
    pub(crate) fn told(self, column: &str, to: &str) -> Diagnostic {
        let Self {
            holds,
            becomes,
            help,
        } = self;
        let message = format!("{column} holds {holds}, and is written to {to} as {becomes}");
        Diagnostic::warning(Code::E4005, message).help(help)
    }
}

/// The types of the lists of a TFRecord's columns: each record says for itself which it has.
#[derive(Debug, Default)]
pub(crate) struct TypedLists(Vec<Option<TypedList>>);

/// The first list of a column.
#[derive(Debug)]
struct TypedList {
    kind: ColumnKind,
    file: PathBuf,
    row: u64,
}

impl TypedLists {
    /// Looks at the latest row of the reader. `is_refused` says whether a column may not have two types, given whether one of them is
    /// that of texts.
    ///
    /// # Errors
    /// A column has another type than in an earlier record.
    pub(crate) fn see(
        &mut self,
        reader: &TableReader,
        row: &[Cell],
        is_refused: impl Fn(&String, bool) -> bool,
    ) -> Result<(), Diagnostic> {
        self.0.resize_with(row.len().max(self.0.len()), || None);
        let columns = self.0.iter_mut().zip(row).zip(reader.columns());
        for ((known, cell), name) in columns {
            let Some(kind) = cell.values.first().and_then(Value::kind) else {
                continue;
            };
            let here = || TypedList {
                kind,
                file: reader.file().map(PathBuf::from).unwrap_or_default(),
                row: reader.row(),
            };
            let first = known.get_or_insert_with(here);
            let has_text = [first.kind, kind].contains(&ColumnKind::Text);
            if first.kind != kind && is_refused(name, has_text) {
                return Err(two_types(name, &here(), first));
            }
        }
        Ok(())
    }
}

fn two_types(column: &str, found: &TypedList, first: &TypedList) -> Diagnostic {
    let told = |list: &TypedList| {
        let kind = match list.kind {
            ColumnKind::Boolean | ColumnKind::Int => "an int64_list",
            ColumnKind::Float => "a float_list",
            ColumnKind::Text => "a bytes_list",
        };
        format!("{kind} in record {} of {}", list.row, list.file.display())
    };
    let message = format!(
        "the column `{column}` has {}, and {}: records that become one file must have one type in each column",
        told(first),
        told(found)
    );
    let is_text = found.kind == ColumnKind::Text || first.kind == ColumnKind::Text;
    let help = if is_text {
        "write the records with one type in each column; where the texts are numbers, --numbers names the column"
    } else {
        "write the records with one type in each column, as `tf.train.FloatList` for numbers of which one has a fraction"
    };
    Diagnostic::error(Code::E4003, message).help(help)
}

/// What the texts of a column are.
#[derive(Debug, Clone, Copy, Default)]
struct Texts {
    /// One is a whole number that is written otherwise than numbers are, as `-0`: written as a number, it would become another
    /// text.
    is_other_text: bool,
    /// One is a whole number beyond 64 bits.
    is_beyond: bool,
    /// One has whole digits that a float of 64 bits rounds.
    is_rounded: bool,
    /// A value is no whole number.
    has_fraction: bool,
    /// One is no UTF-8.
    has_bytes: bool,
    /// The first row with a text that blanks surround, from 1.
    blanks: Option<u64>,
}

/// The columns of a format with types that stay texts, or are bytes.
#[derive(Debug)]
pub(super) struct TextColumns {
    from: Format,
    to: Format,
    /// Names of the columns that are bytes by their type.
    bytes: Vec<String>,
    columns: Vec<Texts>,
}

impl TextColumns {
    /// Returns those of files with these types.
    pub(super) fn new(from: Format, to: Format, types: &[ColumnType]) -> Self {
        let bytes = types.iter().filter(|found| found.kind.is_bytes());
        Self {
            from,
            to,
            bytes: bytes.map(|found| found.name.clone()).collect(),
            columns: Vec::new(),
        }
    }

    /// Looks at a row of the first pass. `number` is its number in the input, from 1.
    ///
    /// # Errors
    /// A text is no UTF-8, and the output cannot say that it is none.
    pub(super) fn see(
        &mut self,
        number: u64,
        names: &[String],
        row: &[Cell],
    ) -> Result<(), Diagnostic> {
        self.columns
            .resize_with(row.len().max(self.columns.len()), Texts::default);
        if matches!(self.to, Format::Csv | Format::Tsv | Format::LibSvm(_)) {
            for (cell, name) in row.iter().zip(names) {
                let is_bytes = |value: &&Value| matches!(value, Value::Text(text) if std::str::from_utf8(text).is_err());
                if let Some(Value::Text(text)) = cell.values.iter().find(is_bytes) {
                    return Err(no_utf8(number, name, text, (self.from, self.to)));
                }
            }
            for (column, cell) in self.columns.iter_mut().zip(row) {
                let is_surrounded = |value: &Value| match value {
                    Value::Text(text) => are_surrounded(text),
                    _ => false,
                };
                if column.blanks.is_none() && cell.values.iter().any(is_surrounded) {
                    column.blanks = Some(number);
                }
            }
        }
        if !matches!(self.to, Format::Parquet | Format::TfRecord) {
            return Ok(());
        }
        // The texts of tfrecord and the binary columns of Parquet are any bytes.
        let may_be_bytes = matches!(self.from, Format::Parquet | Format::TfRecord);
        for ((column, cell), name) in self.columns.iter_mut().zip(row).zip(names) {
            for value in &cell.values {
                column.see(value);
                if let Value::Text(text) = value
                    && self.to == Format::Parquet
                    && std::str::from_utf8(text).is_err()
                {
                    if !may_be_bytes {
                        return Err(no_utf8(number, name, text, (self.from, self.to)));
                    }
                    column.has_bytes = true;
                }
            }
        }
        Ok(())
    }

    /// Returns a note for each column, by name or content, that a job reads without its blanks unless it is told to keep them.
    pub(super) fn notes(&self, layout: &Layout) -> Vec<Diagnostic> {
        if !matches!(self.to, Format::Csv | Format::Tsv) {
            return Vec::new();
        }
        let note = |(column, texts): (&trainyard_input::ColumnLayout, &Texts)| {
            let name = &column.name;
            let what = if are_surrounded(name.as_bytes()) {
                format!("the name of the column `{name}` begins or ends with blanks")
            } else {
                let row = texts.blanks?;
                format!(
                    "the column `{name}` has texts that begin or end with blanks, first in row {row} of the input"
                )
            };
            let message = format!("{what}: from {} a job drops them", self.to.name());
            Some(Diagnostic::warning(Code::E4005, message).help(
                "give the job input.trim = false where they mean something, or write tfrecord or parquet",
            ))
        };
        layout
            .columns
            .iter()
            .zip(&self.columns)
            .filter_map(note)
            .collect()
    }

    /// Gives the columns the types that the output has for them.
    pub(super) fn settle(&self, layout: &mut Layout) {
        for (column, texts) in layout.columns.iter_mut().zip(&self.columns) {
            let stays = match column.kind {
                Some(ColumnKind::Boolean | ColumnKind::Int) => texts.is_other_text,
                Some(ColumnKind::Float) => {
                    texts.is_beyond && !texts.has_fraction || texts.is_rounded
                }
                Some(ColumnKind::Text) | None => true,
            };
            if stays {
                column.kind = Some(ColumnKind::Text);
            }
            // The writer of Parquet takes a column of no known type for one of bytes.
            if texts.has_bytes || self.to == Format::Parquet && self.bytes.contains(&column.name) {
                column.kind = None;
            }
        }
    }
}

impl Texts {
    fn see(&mut self, value: &Value) {
        let text = match value {
            Value::Int(_) | Value::Missing => return,
            Value::Float(_) => return self.has_fraction = true,
            Value::Text(text) => text,
        };
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        self.is_rounded |= is_rounded(digits) || is_gone(text);
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            self.has_fraction = true;
            return;
        }
        let has_zero = digits[0] == b'0' && text.len() > 1;
        let number = std::str::from_utf8(text).map(str::parse::<i64>);
        self.is_other_text |= has_zero;
        self.is_beyond |= !matches!(number, Ok(Ok(_)));
    }
}

/// Returns whether blanks surround a text, which readers of text drop.
fn are_surrounded(text: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    is_blank(text.first()) || is_blank(text.last())
}

/// Returns whether a text is a number other than 0 that a float of 64 bits takes for 0, such as `1e-400`.
fn is_gone(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    text.parse() == Ok(0.0) && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Returns whether a number has whole digits that a float of 64 bits would replace by others: an identifier, or an amount that
/// the result could not have. A number with an exponent says itself that it is rounded.
fn is_rounded(digits: &[u8]) -> bool {
    let (whole, rest) = match digits.iter().position(|byte| *byte == b'.') {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &digits[digits.len()..]),
    };
    let are_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if whole.is_empty() || !are_digits(whole) || !are_digits(rest) {
        return false;
    }
    let text = std::str::from_utf8(whole).unwrap_or_default();
    match (text.parse::<u128>(), text.parse::<f64>()) {
        (Ok(number), Ok(float)) => float as u128 != number,
        _ => true,
    }
}

fn no_utf8(row: u64, column: &str, text: &[u8], (from, to): (Format, Format)) -> Diagnostic {
    let message = format!(
        "row {row} of the input, column `{column}`: {} is no UTF-8, which the texts of {} are",
        shown(text),
        to.name()
    );
    let help = match (from, to) {
        (Format::Csv | Format::Tsv, Format::Parquet) => {
            "say with --encoding how the files are written, as latin1; or correct the text, or write tfrecord"
        }
        (Format::Csv | Format::Tsv, _) => {
            "say with --encoding how the files are written, as latin1; or correct the text"
        }
        _ => {
            "write tfrecord or parquet, which hold any bytes; or leave the column out of the input"
        }
    };
    Diagnostic::error(Code::E4005, message).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the type of a column of these texts.
    fn kind(to: Format, texts: &[&[u8]]) -> Option<ColumnKind> {
        let names = ["x".to_owned()];
        let mut layout = Layout::default();
        let mut columns = TextColumns::new(Format::TfRecord, to, &[]);
        for text in texts {
            let row = [Cell {
                values: vec![Value::Text(text.to_vec())],
                list: false,
            }];
            layout.see(&names, &row);
            columns.see(1, &names, &row).expect("it may be bytes");
        }
        columns.settle(&mut layout);
        layout.columns[0].kind
    }

    #[test]
    fn whole_numbers_that_would_become_others_stay_texts() {
        let (int, float, text) = (
            Some(ColumnKind::Int),
            Some(ColumnKind::Float),
            Some(ColumnKind::Text),
        );
        for (texts, expected) in [
            (&[&b"1"[..], b"-20", b"0"][..], int),
            (&[b"0.5", b"9007199254740992"], float),
            (&[b"0.5", b"9007199254740993"], text),
            (&[b"12345678901234567890.5"], text),
            (&[b"0.12345678901234567890", b"1e30"], float),
            (&[b"1", b"-0"], text),
            (&[b"1", b"+5"], text),
            (&[b"1", b"007"], text),
            (&[b"-007"], text),
            (&[b"1", b"9223372036854775808"], text),
            (&[b"1", b"-9223372036854775809"], text),
            (&[b"1", b"123456789012345678901234567890"], text),
            (&[b"9223372036854775807", b"-9223372036854775808"], int),
            (&[b"1.5", b"-0"], float),
            (&[b"1.5", b"1e-400"], text),
            (&[b"1.5", b"0e-400"], float),
            (&[b"1", b"2.5"], float),
        ] {
            for to in [Format::Parquet, Format::TfRecord] {
                assert_eq!(kind(to, texts), expected, "{texts:?}");
            }
        }
    }

    #[test]
    fn blanks_that_a_job_drops_are_told() {
        let told = |to: Format, name: &str, texts: &[&str]| {
            let names = [name.to_owned()];
            let mut layout = Layout::default();
            let mut columns = TextColumns::new(Format::Parquet, to, &[]);
            for (number, text) in (1..).zip(texts) {
                let row = [Cell {
                    values: vec![Value::Text(text.as_bytes().to_vec())],
                    list: false,
                }];
                layout.see(&names, &row);
                columns.see(number, &names, &row).expect("texts");
            }
            let notes = columns.notes(&layout);
            notes.iter().map(Diagnostic::render).collect::<String>()
        };
        for to in [Format::Csv, Format::Tsv] {
            let of_text = told(to, "x", &["a", "b ", " c"]);
            for part in ["`x`", "row 2", "input.trim = false"] {
                assert!(of_text.contains(part), "{part}: {of_text}");
            }
            assert!(told(to, " x", &["a"]).contains("the name of the column ` x`"));
            assert_eq!(told(to, "x", &["a b"]), "");
        }
        assert_eq!(told(Format::TfRecord, " x ", &[" a "]), "");
    }

    #[test]
    fn bytes_are_no_texts_of_parquet() {
        assert_eq!(kind(Format::Parquet, &[b"a", b"\xff"]), None);
        assert_eq!(
            kind(Format::TfRecord, &[b"a", b"\xff"]),
            Some(ColumnKind::Text)
        );
        let row = [Cell {
            values: vec![Value::Text(b"\xff".to_vec())],
            list: false,
        }];
        let mut columns = TextColumns::new(Format::Csv, Format::Parquet, &[]);
        let told = columns.see(3, &["x".to_owned()], &row);
        let told = told.expect_err("no text").render();
        for part in ["row 3", "`x`", "\\xff", "--encoding"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn columns_that_one_file_lacks_are_refused() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let told = |left: &[&str], right: &[&str]| {
            let (left, right): (Vec<String>, Vec<String>) = (names(left), names(right));
            let (first, other) = (PathBuf::from("a.csv"), PathBuf::from("b.csv"));
            compare((&first, &left), (&other, &right)).map_err(|problem| problem.render())
        };
        assert_eq!(told(&["a", "b"], &["b", "a"]), Ok(()));
        let lacks = told(&["a", "b"], &["a"]).expect_err("no b");
        assert!(lacks.contains("`b` of a.csv is not in b.csv"), "{lacks}");
        let lacks = told(&["a"], &["a", "b"]).expect_err("no b");
        assert!(lacks.contains("`b` of b.csv is not in a.csv"), "{lacks}");
    }
}
