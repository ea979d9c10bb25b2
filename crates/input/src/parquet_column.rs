//! Column of a Parquet file: its type, and a cursor that decodes its values into rows.

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::Result;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use crate::row_writer::{put_float, put_int, put_list, put_missing, put_text};
use crate::{FieldKind, Schema};

/// Type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Values {
    /// Whole numbers, dates and times, in the file's units; booleans as 0 and 1.
    Int,
    /// Whole numbers of 32 bits without a sign.
    Unsigned,
    /// Floats.
    Float,
    /// Decimal fractions: whole numbers, with the factor that scales them.
    Decimal(f64),
    /// Texts or arbitrary bytes.
    Text,
}

/// A column that can be read.
#[derive(Debug, Clone)]
pub(crate) struct ParquetColumn {
    /// Name of the column in jobs: the path from the root, joined by dots. A list that is the only
    /// leaf of its root field has the name of that field.
    pub(crate) name: String,
    /// Place of the column among the leaves.
    pub(crate) leaf: usize,
    /// Type of the values; absent = the values cannot be used.
    pub(crate) values: Option<Values>,
    /// Whether a row holds several values.
    pub(crate) list: bool,
    /// Definition level of a value that is present.
    pub(crate) defined: i16,
    /// Type of the column in the words of the format.
    pub(crate) type_name: String,
}

/// Returns the columns of a file.
pub(crate) fn columns(schema: &SchemaDescriptor) -> Vec<ParquetColumn> {
    let leaves = schema.columns();
    let root = |leaf: &ColumnDescriptor| leaf.path().parts().first().cloned().unwrap_or_default();
    let column = |(place, leaf): (usize, &std::sync::Arc<ColumnDescriptor>)| {
        let alone = leaves
            .iter()
            .filter(|other| root(other) == root(leaf))
            .count()
            == 1;
        let list = leaf.max_rep_level() > 0;
        let readable = leaf.max_rep_level() == 0 || leaf.max_rep_level() == 1 && alone;
        let name = if list && alone {
            root(leaf)
        } else {
            leaf.path().string()
        };
        let inner = match leaf.logical_type_ref() {
            Some(logical) => format!("{:?} ({logical:?})", leaf.physical_type()),
            None => format!("{:?}", leaf.physical_type()),
        };
        ParquetColumn {
            name,
            leaf: place,
            values: values(leaf).filter(|_| readable),
            list,
            defined: leaf.max_def_level(),
            type_name: if list {
                format!("a list of {inner}")
            } else {
                inner
            },
        }
    };
    leaves.iter().enumerate().map(column).collect()
}

fn values(leaf: &ColumnDescriptor) -> Option<Values> {
    let decimal = leaf.converted_type() == ConvertedType::DECIMAL
        || matches!(leaf.logical_type_ref(), Some(LogicalType::Decimal { .. }));
    let unsigned = leaf.converted_type() == ConvertedType::UINT_32;
    match leaf.physical_type() {
        Physical::INT32 | Physical::INT64 if decimal => {
            Some(Values::Decimal(0.1_f64.powi(leaf.type_scale())))
        }
        Physical::INT32 if unsigned => Some(Values::Unsigned),
        Physical::BOOLEAN | Physical::INT32 | Physical::INT64 => Some(Values::Int),
        Physical::FLOAT | Physical::DOUBLE => Some(Values::Float),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY if !decimal => {
            (!matches!(leaf.logical_type_ref(), Some(LogicalType::Float16))).then_some(Values::Text)
        }
        _ => None,
    }
}

/// A wanted column that does not fit; if the file has it, also its type and the type that is wanted.
type Misfit = (String, Option<(String, &'static str)>);

/// Returns the columns that a schema wants, in file order. The error is the first wanted column that is missing or has
/// another type.
pub(crate) fn project(
    columns: &[ParquetColumn],
    schema: &Schema,
) -> std::result::Result<Vec<ParquetColumn>, Misfit> {
    let mut wanted = vec![false; columns.len()];
    for field in &schema.fields {
        let place = columns.iter().position(|column| column.name == field.name);
        let place = place.ok_or_else(|| (field.name.clone(), None))?;
        let column = &columns[place];
        let (fits, wants) = match (&field.kind, column.values) {
            (FieldKind::Float { .. } | FieldKind::Floats { .. }, values) => (
                values.is_some_and(|values| values != Values::Text),
                "numbers",
            ),
            (FieldKind::Int { truncate: true, .. }, values) => (
                values.is_some_and(|values| values != Values::Text),
                "numbers",
            ),
            (FieldKind::Int { .. }, values) => (
                matches!(values, Some(Values::Int | Values::Unsigned)),
                "whole numbers",
            ),
            (FieldKind::Bytes { .. }, values) => (
                matches!(values, Some(Values::Text | Values::Int | Values::Unsigned)),
                "texts or whole numbers",
            ),
        };
        if !fits {
            return Err((field.name.clone(), Some((column.type_name.clone(), wants))));
        }
        let takes_several = match &field.kind {
            FieldKind::Float { width, .. } => *width > 1,
            kind => kind.is_ragged(),
        };
        if column.list && !takes_several {
            return Err((
                field.name.clone(),
                Some((column.type_name.clone(), "one value a row")),
            ));
        }
        wanted[place] = true;
    }
    Ok(columns
        .iter()
        .zip(wanted)
        .filter(|(_, wanted)| *wanted)
        .map(|(column, _)| column.clone())
        .collect())
}

/// Decoded values of one physical type.
#[derive(Debug)]
enum Buffer {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

/// Reader of the values of one column of a row group, in order.
pub(crate) struct ColumnCursor {
    reader: ColumnReader,
    column: ParquetColumn,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    buffer: Buffer,
    /// Number of values and of levels that were consumed.
    taken: usize,
    level: usize,
}

impl ColumnCursor {
    /// Returns a cursor at the first row; nothing if the physical type is not supported.
    pub(crate) fn new(column: &ParquetColumn, reader: ColumnReader) -> Option<Self> {
        let buffer = match &reader {
            ColumnReader::BoolColumnReader(_) => Buffer::Bool(Vec::new()),
            ColumnReader::Int32ColumnReader(_) => Buffer::Int32(Vec::new()),
            ColumnReader::Int64ColumnReader(_) => Buffer::Int64(Vec::new()),
            ColumnReader::FloatColumnReader(_) => Buffer::Float(Vec::new()),
            ColumnReader::DoubleColumnReader(_) => Buffer::Double(Vec::new()),
            ColumnReader::ByteArrayColumnReader(_) => Buffer::Bytes(Vec::new()),
            ColumnReader::FixedLenByteArrayColumnReader(_) => Buffer::Fixed(Vec::new()),
            ColumnReader::Int96ColumnReader(_) => return None,
        };
        let definitions = Vec::new();
        let repetitions = Vec::new();
        Some(Self {
            reader,
            column: column.clone(),
            definitions,
            repetitions,
            buffer,
            taken: 0,
            level: 0,
        })
    }

    /// Skips rows. Returns the number of rows that were skipped.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<usize> {
        match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::Int96ColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::FloatColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::DoubleColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => reader.skip_records(rows),
        }
    }

    /// Reads the next rows into the buffer and replaces the rows before. Returns the number of rows read.
    pub(crate) fn read(&mut self, rows: usize) -> Result<usize> {
        (self.taken, self.level) = (0, 0);
        self.definitions.clear();
        self.repetitions.clear();
        let levels = (&mut self.definitions, &mut self.repetitions);
        match (&mut self.reader, &mut self.buffer) {
            (ColumnReader::BoolColumnReader(reader), Buffer::Bool(values)) => {
                fill(reader, rows, levels, values)
            }
            (ColumnReader::Int32ColumnReader(reader), Buffer::Int32(values)) => {
                fill(reader, rows, levels, values)
            }
            (ColumnReader::Int64ColumnReader(reader), Buffer::Int64(values)) => {
                fill(reader, rows, levels, values)
            }
            (ColumnReader::FloatColumnReader(reader), Buffer::Float(values)) => {
                fill(reader, rows, levels, values)
            }
            (ColumnReader::DoubleColumnReader(reader), Buffer::Double(values)) => {
                fill(reader, rows, levels, values)
            }
            (ColumnReader::ByteArrayColumnReader(reader), Buffer::Bytes(values)) => {
                fill(reader, rows, levels, values)
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), Buffer::Fixed(values)) => {
                fill(reader, rows, levels, values)
            }
            // `new` chose the buffer by the reader, so the types match.
            _ => Ok(0),
        }
    }

    /// Appends the cell of the next row in the buffer to `row`.
    #[inline]
    pub(crate) fn put(&mut self, row: &mut Vec<u8>) {
        if self.column.list {
            self.put_list(row);
        } else if self.column.defined == 0
            || self.definitions.get(self.level) == Some(&self.column.defined)
        {
            self.level += 1;
            self.put_value(row);
        } else {
            self.level += 1;
            put_missing(row);
        }
    }

    fn put_list(&mut self, row: &mut Vec<u8>) {
        let begin = self.level;
        self.level += 1;
        while self
            .repetitions
            .get(self.level)
            .is_some_and(|level| *level > 0)
        {
            self.level += 1;
        }
        // A list that is absent, a list that is empty, and an absent value in a list each have a level without a value.
        let levels = self.definitions.get(begin..self.level).unwrap_or_default();
        let values = levels
            .iter()
            .filter(|level| **level == self.column.defined)
            .count();
        put_list(row, values);
        for _ in 0..values {
            self.put_value(row);
        }
    }

    #[inline]
    fn put_value(&mut self, row: &mut Vec<u8>) {
        let nth = self.taken;
        let kind = self.column.values;
        self.taken += 1;
        let int = |row: &mut Vec<u8>, number: i64| match kind {
            Some(Values::Decimal(unit)) => put_float(row, number as f64 * unit),
            _ => put_int(row, number),
        };
        match &self.buffer {
            Buffer::Bool(values) => put_int(row, i64::from(values[nth])),
            Buffer::Int32(values) if kind == Some(Values::Unsigned) => {
                put_int(row, i64::from(values[nth] as u32))
            }
            Buffer::Int32(values) => int(row, i64::from(values[nth])),
            Buffer::Int64(values) => int(row, values[nth]),
            Buffer::Float(values) => put_float(row, f64::from(values[nth])),
            Buffer::Double(values) => put_float(row, values[nth]),
            Buffer::Bytes(values) => put_text(row, values[nth].data()),
            Buffer::Fixed(values) => put_text(row, values[nth].data()),
        }
    }
}

fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    (definitions, repetitions): (&mut Vec<i16>, &mut Vec<i16>),
    values: &mut Vec<T::T>,
) -> Result<usize> {
    values.clear();
    reader
        .read_records(rows, Some(definitions), Some(repetitions), values)
        .map(|(records, _, _)| records)
}
