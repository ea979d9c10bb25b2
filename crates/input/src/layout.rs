//! Cells of a table, and its layout: the types of its columns, inferred from all rows.

use serde::{Deserialize, Serialize};

use crate::Ticks;

/// A value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text, or arbitrary bytes.
    Text(Vec<u8>),
    /// A place in a list that has no value.
    Missing,
}

/// The values of a row in a column. A cell without values is missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// The values.
    pub values: Vec<Value>,
    /// The column may hold several values.
    pub list: bool,
}

/// Separator of the values of a list in text.
pub(crate) const LIST_SEPARATOR: u8 = b'|';

/// The narrowest type that holds all values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnKind {
    /// Booleans, which are whole numbers 0 and 1. Only Parquet has a type for them.
    Boolean,
    /// Whole numbers of 64 bits.
    Int,
    /// Floats of 64 bits.
    Float,
    /// Texts.
    Text,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnLayout {
    /// Name of the column.
    pub name: String,
    /// Type of the column; absent until a row has a value.
    pub kind: Option<ColumnKind>,
    /// Rows hold several values.
    pub list: bool,
}

/// Type of a column of Parquet files, as far as other formats say it in other ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeKind {
    /// Booleans, which are read as 0 and 1.
    Boolean,
    /// Times since 1970, or dates, which are read as whole numbers in a unit.
    Time(Ticks),
    /// Times of the day, which are read as whole numbers in a unit.
    TimeOfDay(Ticks),
    /// Durations, which are read as whole numbers in a unit.
    Duration(Ticks),
    /// Decimals, which are read as floats, or as texts of their digits.
    Decimal,
    /// Whole numbers of 64 bits without a sign, of which those from 2^63 are read as texts of their digits.
    Unsigned64,
    /// UUIDs, which are read as their texts (RFC 9562).
    Uuid,
    /// Bytes that are no texts.
    Bytes,
    /// Values of a type that this program does not know as bytes: extension types of Arrow, BSON, intervals and geometries.
    EncodedBytes,
    /// Numbers or texts of an extension type of Arrow that this program does not know.
    Extension,
    /// Texts.
    Text,
    /// Another type.
    Other,
}

impl TypeKind {
    /// Returns the unit of times and durations.
    pub fn unit(self) -> Option<Ticks> {
        match self {
            Self::Time(unit) | Self::TimeOfDay(unit) | Self::Duration(unit) => Some(unit),
            _ => None,
        }
    }

    /// Returns whether the values are bytes, which may be texts by chance alone.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::EncodedBytes)
    }

    /// Returns what the values mean, of a type that is read as other numbers or texts than the same values of another type.
    pub fn meaning(self) -> Option<Meaning> {
        match self {
            Self::Time(unit) => Some(Meaning::Time(unit)),
            Self::TimeOfDay(unit) => Some(Meaning::TimeOfDay(unit)),
            Self::Duration(unit) => Some(Meaning::Duration(unit)),
            Self::Boolean => Some(Meaning::Boolean),
            Self::Text => Some(Meaning::Text),
            _ => None,
        }
    }
}

/// What the values of a column mean, where the numbers or texts that they are read as do not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// Times since 1970, or dates.
    Time(Ticks),
    /// Times of the day.
    TimeOfDay(Ticks),
    /// Durations.
    Duration(Ticks),
    /// Booleans, whose ids are those of 0 and 1.
    Boolean,
    /// Texts.
    Text,
}

impl Meaning {
    /// Says what a column holds.
    pub fn told(meaning: Option<Self>) -> String {
        meaning.map_or_else(|| "plain values".to_owned(), |meaning| meaning.to_string())
    }

    /// Returns whether the values are times or durations.
    pub fn is_of_time(self) -> bool {
        matches!(self, Self::Time(_) | Self::TimeOfDay(_) | Self::Duration(_))
    }

    /// Returns whether one value has other numbers or texts in a column of `one` than in a column of `other`: a time in other units, and
    /// a boolean among texts. Whole numbers have the texts of their digits, and those of booleans are 0 and 1.
    pub fn differ(one: Option<Self>, other: Option<Self>) -> bool {
        let of_time = |meaning: Option<Self>| meaning.filter(|meaning| meaning.is_of_time());
        let is_among_texts = matches!(
            (one, other),
            (Some(Self::Boolean), Some(Self::Text)) | (Some(Self::Text), Some(Self::Boolean))
        );
        is_among_texts || of_time(one) != of_time(other)
    }
}

impl std::fmt::Display for Meaning {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Time(unit) => write!(formatter, "times in {}", unit.name()),
            Self::TimeOfDay(unit) => write!(formatter, "times of the day in {}", unit.name()),
            Self::Duration(unit) => write!(formatter, "durations in {}", unit.name()),
            Self::Boolean => formatter.write_str("booleans"),
            Self::Text => formatter.write_str("texts"),
        }
    }
}

/// A column of Parquet files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnType {
    /// Name of the column.
    pub name: String,
    /// What its values are.
    pub kind: TypeKind,
    /// Its type in the words of Arrow.
    pub type_name: String,
}

/// The columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The columns, in the order in which they appeared.
    pub columns: Vec<ColumnLayout>,
}

impl Layout {
    /// Extends the layout by a row. Texts of numbers are numbers.
    pub fn see(&mut self, names: &[String], row: &[Cell]) {
        self.see_as(names, row, kind);
    }

    /// Extends the layout by a row of a format with types: a text stays one, also that of a number.
    pub fn see_typed(&mut self, names: &[String], row: &[Cell]) {
        self.see_as(names, row, Value::kind);
    }

    /// Extends the layout by a row as [`Layout::see_typed`], except that texts of numbers in these columns are numbers.
    pub fn see_typed_except(&mut self, numbers: &[String], names: &[String], row: &[Cell]) {
        if numbers.is_empty() {
            return self.see_typed(names, row);
        }
        let are_numbers = names.iter().map(|name| numbers.contains(name));
        let are_numbers: Vec<bool> = are_numbers.collect();
        let of = |wanted: bool| -> Vec<Cell> {
            let cells = row.iter().zip(&are_numbers);
            let cells = cells.map(|(cell, is)| {
                if *is == wanted {
                    cell.clone()
                } else {
                    Cell::default()
                }
            });
            cells.collect()
        };
        self.see(names, &of(true));
        self.see_typed(names, &of(false));
    }

    fn see_as(
        &mut self,
        names: &[String],
        row: &[Cell],
        kind: impl Fn(&Value) -> Option<ColumnKind>,
    ) {
        for name in names.iter().skip(self.columns.len()) {
            self.columns.push(ColumnLayout {
                name: name.clone(),
                kind: None,
                list: false,
            });
        }
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.list |= cell.list;
            for value in &cell.values {
                if column.kind != Some(ColumnKind::Text) {
                    column.kind = column.kind.max(kind(value));
                }
            }
        }
    }
}

/// Returns the type of a value. A text of a number counts as a number, unless leading zeros show that it is a name.
pub(crate) fn kind(value: &Value) -> Option<ColumnKind> {
    match value {
        Value::Text(text) => Some(kind_of_text(text)),
        typed => typed.kind(),
    }
}

fn kind_of_text(text: &[u8]) -> ColumnKind {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    // `.5` is a number, and `.` is none.
    let first = digits.strip_prefix(b".").unwrap_or(digits);
    let number = first.first().is_some_and(u8::is_ascii_digit);
    if !number || digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit() {
        return ColumnKind::Text;
    }
    let text = std::str::from_utf8(text).unwrap_or_default();
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(_), _) => ColumnKind::Int,
        // As a float, an unsigned id of 64 bits would be another id.
        _ if text.parse::<u64>().is_ok() => ColumnKind::Text,
        (_, Ok(number)) if number.is_finite() => ColumnKind::Float,
        _ => ColumnKind::Text,
    }
}

/// Returns a value of a column of whole numbers.
pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Float(number) => *number as i64,
        Value::Text(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        Value::Missing => 0,
    }
}

/// Returns a value as a float, if it is a number.
pub(crate) fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::Text(text) => std::str::from_utf8(text)
            .ok()?
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite()),
        Value::Missing => None,
    }
}

/// Floats from here on are written with an exponent, which says that they are no whole numbers of all their digits.
const EXPONENT_FROM: f64 = 1e16;
/// Floats below this one are written with an exponent.
const EXPONENT_BELOW: f64 = 1e-5;

/// Up to here, the shortest decimal that parses to an `f32` has the same whole part as it.
const WHOLE_IN_SHORT: f64 = 16_777_216.0;

/// Appends a value as text. A float becomes the shortest decimal that parses to the same value: as an `f32` if the
/// float is exactly one of at most 2^24, otherwise as an `f64`: the shortest decimal of the `f32` 1728000128 is 1728000100. Very large and very small ones have an exponent (`repr` of Python), so that they are not
/// taken for whole numbers beyond 64 bits.
pub(crate) fn text(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Float(number) => {
            let short = *number as f32;
            let far = number.abs();
            let is_short = f64::from(short) == *number && far <= WHOLE_IN_SHORT;
            let has_exponent = far >= EXPONENT_FROM || far < EXPONENT_BELOW && far > 0.0;
            let text = match (is_short, has_exponent && number.is_finite()) {
                (true, true) => format!("{short:e}"),
                (true, false) => short.to_string(),
                (false, true) => format!("{number:e}"),
                (false, false) => number.to_string(),
            };
            out.extend_from_slice(text.as_bytes());
        }
        Value::Text(text) => out.extend_from_slice(text),
        Value::Missing => {}
    }
}

/// Returns a number for a message, by the fewest digits that mean it.
pub(crate) fn told(number: f64) -> String {
    String::from_utf8_lossy(&Value::Float(number).to_text()).into_owned()
}

impl Value {
    /// Returns the type of the value; absent without one.
    pub fn kind(&self) -> Option<ColumnKind> {
        match self {
            Self::Int(_) => Some(ColumnKind::Int),
            Self::Float(_) => Some(ColumnKind::Float),
            Self::Text(_) => Some(ColumnKind::Text),
            Self::Missing => None,
        }
    }

    /// Returns the value as the writers of text write it.
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        text(self, &mut out);
        out
    }
}
