//! Cells of a table, and its layout: the types of its columns, inferred from all rows.

/// A value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text, or arbitrary bytes.
    Text(Vec<u8>),
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

/// The columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The columns, in the order in which they appeared.
    pub columns: Vec<ColumnLayout>,
}

impl Layout {
    /// Extends the layout by a row.
    pub fn see(&mut self, names: &[String], row: &[Cell]) {
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
                    column.kind = column.kind.max(Some(kind(value)));
                }
            }
        }
    }
}

/// Returns the type of a value. A text of a number counts as a number, unless leading zeros show that it is a name.
pub(crate) fn kind(value: &Value) -> ColumnKind {
    match value {
        Value::Int(_) => ColumnKind::Int,
        Value::Float(_) => ColumnKind::Float,
        Value::Text(text) => {
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
    }
}

/// Appends a value as text. A float becomes the shortest decimal that parses to the same value: as an `f32` if the
/// float is exactly one, otherwise as an `f64`.
pub(crate) fn text(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Float(number) => {
            let short = *number as f32;
            let text = if f64::from(short) == *number {
                short.to_string()
            } else {
                number.to_string()
            };
            out.extend_from_slice(text.as_bytes());
        }
        Value::Text(text) => out.extend_from_slice(text),
    }
}
