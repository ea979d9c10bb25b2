//! Column of a Parquet file: its type, and a cursor that decodes its values.

use std::collections::HashMap;

use half::f16;
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::arrow_schema::{ArrowColumn, ArrowColumns};
use super::column_type::{arrow_name, arrow_path, arrow_type, is_in_list};
use crate::column_names::{Place, places};
use crate::columnar::{Arity, Texts, ValueColumn, Values as Decoded};
use crate::error::ONE_VALUE;
use crate::row::Ticks;
use crate::{FieldKind, Schema, TypeKind};

/// Most bytes of a decimal of fixed length: those of 76 digits, the most that writers have.
const DECIMAL_BYTES_MAX: i32 = 32;
/// Most digits of a decimal whose whole numbers always have 64 bits.
const INT64_DIGITS: i32 = 18;
/// Bytes of a UUID.
const UUID_BYTES: i32 = 16;
// Canonical extension types whose values this program knows (<https://arrow.apache.org/docs/format/CanonicalExtensions.html>).
const BOOL8_EXTENSION: &str = "arrow.bool8";
const JSON_EXTENSION: &str = "arrow.json";
const UUID_EXTENSION: &str = "arrow.uuid";
/// Up to here, a float of 64 bits has each whole number.
const EXACT_IN_FLOAT: u128 = 1 << f64::MANTISSA_DIGITS;

/// Type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Values {
    /// Whole numbers; booleans as 0 and 1.
    Int,
    /// Whole numbers of 32 bits without a sign.
    Unsigned,
    /// Whole numbers of 64 bits without a sign.
    Unsigned64,
    /// Timestamps, dates and times of the day. A timestamp without a time zone is taken as UTC.
    Time(Ticks),
    /// Floats.
    Float,
    /// Floats of 16 bits, as their bytes.
    Float16,
    /// Decimal numbers: whole numbers, and the power of ten that divides them.
    Decimal(i32),
    /// Whole numbers as decimal ones of at most 18 digits, as their bytes.
    WholeDecimal,
    /// Texts or arbitrary bytes.
    Text,
    /// UUIDs as their 16 bytes.
    Uuid,
    /// Booleans as whole numbers, of which 0 is false.
    Boolean8,
}

impl Values {
    fn is_whole(self) -> bool {
        match self {
            Self::Int
            | Self::Unsigned
            | Self::Unsigned64
            | Self::WholeDecimal
            | Self::Boolean8
            | Self::Time(_) => true,
            Self::Float | Self::Float16 | Self::Decimal(_) | Self::Text | Self::Uuid => false,
        }
    }

    fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Uuid)
    }
}

/// A column that can be read.
#[derive(Debug, Clone)]
pub(super) struct ParquetColumn {
    /// Name of the column in jobs: the path from the root, joined by dots, without the groups that hold the values of a list. A repeated
    /// field that the file does not call a list, and that is the only leaf of its root field, has the name of that field.
    pub(super) name: String,
    /// Place of the column among the leaves.
    pub(super) leaf: usize,
    /// Type of the values; absent = the values cannot be used.
    pub(super) values: Option<Values>,
    /// What the values are for other formats.
    pub(super) kind: TypeKind,
    /// A row holds several values.
    pub(super) list: bool,
    /// Definition level of a value that is present.
    pub(super) defined: i16,
    /// Least definition level of a place in a list: of lower ones, the list is empty or absent.
    pub(super) listed: i16,
    /// Type of the column in the words of Arrow; of one that cannot be read, that of its root field.
    pub(super) type_name: String,
    /// The file says that the column has no values, and so no type of them.
    pub(super) is_untyped: bool,
    /// Decimal numbers that a float would round are texts of all their digits: what is written elsewhere must be what was read.
    pub(super) keeps_digits: bool,
}

impl ParquetColumn {
    fn arity(&self) -> Arity {
        if self.list {
            Arity::List
        } else {
            Arity::Optional
        }
    }
}

/// Returns the columns of a file, of which Arrow may say more.
pub(super) fn columns(schema: &SchemaDescriptor, arrow: &ArrowColumns) -> Vec<ParquetColumn> {
    let leaves = schema.columns();
    let root = |leaf: &ColumnDescriptor| leaf.path().parts().first().cloned().unwrap_or_default();
    let mut leaves_of_roots = HashMap::<String, usize>::new();
    for leaf in leaves {
        *leaves_of_roots.entry(root(leaf)).or_default() += 1;
    }
    let column = |(place, leaf): (usize, &std::sync::Arc<ColumnDescriptor>)| {
        let alone = leaves_of_roots.get(&root(leaf)) == Some(&1);
        let list = leaf.max_rep_level() > 0;
        let readable = leaf.max_rep_level() == 0 || leaf.max_rep_level() == 1 && alone;
        let path = arrow_path(schema, leaf);
        let arrow = arrow.get(&path);
        let inner = arrow_name(leaf.self_type(), arrow);
        let values = values(leaf, arrow).filter(|_| readable);
        ParquetColumn {
            name: if list && alone && !is_in_list(schema, leaf) {
                root(leaf)
            } else {
                path
            },
            leaf: place,
            kind: values.map_or(TypeKind::Other, |values| kind(leaf, values, arrow)),
            values,
            list,
            defined: leaf.max_def_level(),
            listed: listed_level(schema, leaf),
            type_name: match (readable, list) {
                (false, _) => arrow_type(schema.get_column_root(place)),
                (true, true) => format!("list<{inner}>"),
                (true, false) => inner,
            },
            is_untyped: matches!(leaf.logical_type_ref(), Some(LogicalType::Unknown)),
            keeps_digits: false,
        }
    };
    leaves.iter().enumerate().map(column).collect()
}

/// Returns the definition level at which a repeated field of a leaf has a place; 0 without one.
fn listed_level(schema: &SchemaDescriptor, leaf: &ColumnDescriptor) -> i16 {
    let mut node = schema.root_schema();
    let mut level = 0;
    for part in leaf.path().parts() {
        let Some(field) = node.get_fields().iter().find(|field| field.name() == part) else {
            return 0;
        };
        match field.get_basic_info().repetition() {
            Repetition::REQUIRED => {}
            Repetition::OPTIONAL => level += 1,
            Repetition::REPEATED => return level + 1,
        }
        if field.is_primitive() {
            return 0;
        }
        node = field;
    }
    0
}

/// Returns what the values of a leaf are for other formats.
fn kind(leaf: &ColumnDescriptor, values: Values, arrow: Option<&ArrowColumn>) -> TypeKind {
    let duration = arrow.and_then(|arrow| arrow.duration);
    match values {
        Values::Time(unit) if is_time_of_day(leaf) => TypeKind::TimeOfDay(unit),
        Values::Time(unit) => TypeKind::Time(unit),
        Values::Unsigned64 => TypeKind::Unsigned64,
        Values::Uuid => TypeKind::Uuid,
        Values::Boolean8 => TypeKind::Boolean,
        _ if leaf.physical_type() == Physical::BOOLEAN => TypeKind::Boolean,
        _ if is_decimal(leaf) => TypeKind::Decimal,
        _ if let Some(unit) = duration => TypeKind::Duration(unit),
        Values::Text => kind_of_bytes(leaf, arrow),
        _ if is_extension(arrow) => TypeKind::Extension,
        _ => TypeKind::Other,
    }
}

/// Returns what the values of a leaf of texts or bytes are. Early writers did not mark texts: without Arrow's schema, unmarked values of any
/// length are taken for texts.
fn kind_of_bytes(leaf: &ColumnDescriptor, arrow: Option<&ArrowColumn>) -> TypeKind {
    let is_extension = is_extension(arrow);
    match (leaf.logical_type_ref(), leaf.converted_type()) {
        (Some(LogicalType::Bson | LogicalType::Geometry(_) | LogicalType::Geography(_)), _)
        | (_, ConvertedType::BSON | ConvertedType::INTERVAL) => TypeKind::EncodedBytes,
        (Some(LogicalType::String | LogicalType::Json | LogicalType::Enum), _)
        | (_, ConvertedType::UTF8 | ConvertedType::JSON | ConvertedType::ENUM) => {
            match is_extension {
                true => TypeKind::Extension,
                false => TypeKind::Text,
            }
        }
        _ if is_extension => TypeKind::EncodedBytes,
        _ if leaf.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY => TypeKind::Bytes,
        _ if arrow.is_some_and(|arrow| arrow.holds_bytes) => TypeKind::Bytes,
        _ => TypeKind::Text,
    }
}

/// Returns whether a column has an extension type that says more of its values than other types do.
fn is_extension(arrow: Option<&ArrowColumn>) -> bool {
    let name = arrow.and_then(|arrow| arrow.extension.as_deref());
    name.is_some_and(|name| ![JSON_EXTENSION, UUID_EXTENSION, BOOL8_EXTENSION].contains(&name))
}

fn has_extension(arrow: Option<&ArrowColumn>, name: &str) -> bool {
    arrow.is_some_and(|arrow| arrow.extension.as_deref() == Some(name))
}

fn is_decimal(leaf: &ColumnDescriptor) -> bool {
    leaf.converted_type() == ConvertedType::DECIMAL
        || matches!(leaf.logical_type_ref(), Some(LogicalType::Decimal { .. }))
}

fn values(leaf: &ColumnDescriptor, arrow: Option<&ArrowColumn>) -> Option<Values> {
    let decimal = is_decimal(leaf);
    let unsigned = match (leaf.logical_type_ref(), leaf.converted_type()) {
        (Some(LogicalType::Integer(kind)), _) => !kind.is_signed,
        (_, converted) => matches!(converted, ConvertedType::UINT_32 | ConvertedType::UINT_64),
    };
    if let Some(ticks) = ticks(leaf) {
        return Some(Values::Time(ticks));
    }
    match leaf.physical_type() {
        Physical::INT32 | Physical::INT64 if decimal && leaf.type_scale() != 0 => {
            Some(Values::Decimal(leaf.type_scale()))
        }
        Physical::INT32 if has_extension(arrow, BOOL8_EXTENSION) => Some(Values::Boolean8),
        Physical::INT32 if unsigned => Some(Values::Unsigned),
        Physical::INT64 if unsigned => Some(Values::Unsigned64),
        Physical::BOOLEAN | Physical::INT32 | Physical::INT64 => Some(Values::Int),
        Physical::FLOAT | Physical::DOUBLE => Some(Values::Float),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY if decimal => {
            let is_whole = leaf.type_scale() == 0 && leaf.type_precision() <= INT64_DIGITS;
            let values = match is_whole {
                true => Values::WholeDecimal,
                false => Values::Decimal(leaf.type_scale()),
            };
            (leaf.type_length() <= DECIMAL_BYTES_MAX).then_some(values)
        }
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => match leaf.logical_type_ref() {
            Some(LogicalType::Float16) => (leaf.type_length() == 2).then_some(Values::Float16),
            logical
                if leaf.type_length() == UUID_BYTES
                    && (matches!(logical, Some(LogicalType::Uuid))
                        || has_extension(arrow, UUID_EXTENSION)) =>
            {
                Some(Values::Uuid)
            }
            _ => Some(Values::Text),
        },
        Physical::INT96 => None,
    }
}

fn is_time_of_day(leaf: &ColumnDescriptor) -> bool {
    matches!(
        (leaf.logical_type_ref(), leaf.converted_type()),
        (Some(LogicalType::Time(_)), _)
            | (
                None,
                ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS
            )
    )
}

/// Returns the unit of a column of times.
fn ticks(leaf: &ColumnDescriptor) -> Option<Ticks> {
    let of = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => Ticks::Milliseconds,
        TimeUnit::MICROS => Ticks::Microseconds,
        TimeUnit::NANOS => Ticks::Nanoseconds,
    };
    match (leaf.logical_type_ref(), leaf.converted_type()) {
        // Microseconds hold all dates of four digits, which nanoseconds in 64 bits do not.
        _ if leaf.physical_type() == Physical::INT96 => Some(Ticks::Microseconds),
        (Some(LogicalType::Timestamp(time)), _) => Some(of(&time.unit)),
        (Some(LogicalType::Time(time)), _) => Some(of(&time.unit)),
        (Some(LogicalType::Date), _) | (_, ConvertedType::DATE) => Some(Ticks::Days),
        (_, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIME_MILLIS) => {
            Some(Ticks::Milliseconds)
        }
        (_, ConvertedType::TIMESTAMP_MICROS | ConvertedType::TIME_MICROS) => {
            Some(Ticks::Microseconds)
        }
        _ => None,
    }
}

/// A wanted column that does not fit.
pub(super) struct Misfit {
    pub(super) column: String,
    pub(super) why: Why,
}

/// Reason why a wanted column does not fit.
pub(super) enum Why {
    /// The file does not have it.
    Missing,
    /// Several columns of the file have its name.
    Twice,
    /// The file has another type than the one that is wanted.
    Type { found: String, wanted: &'static str },
    /// The column is to be kept, and has a type that cannot be.
    Kept { found: String },
}

/// Returns the type of a root field that is no column, but holds some: a structure or a map.
pub(super) fn type_of_root(schema: &SchemaDescriptor, name: &str) -> Option<String> {
    let mut fields = schema.root_schema().get_fields().iter();
    let field = fields.find(|field| field.name() == name)?;
    Some(arrow_type(field))
}

/// Returns the columns within another one that can be read.
pub(super) fn columns_within(columns: &[ParquetColumn], outer: &str) -> Vec<String> {
    let is_within = |name: &str| {
        let inner = name.strip_prefix(outer);
        inner.is_some_and(|inner| inner.starts_with('.'))
    };
    let readable = columns.iter().filter(|column| column.values.is_some());
    let names = readable.map(|column| column.name.clone());
    names.filter(|name| is_within(name)).collect()
}

/// Returns the columns that a schema wants, in file order. The error is the first wanted column that does not fit.
pub(super) fn project(
    columns: &[ParquetColumn],
    schema: &Schema,
) -> std::result::Result<Vec<ParquetColumn>, Misfit> {
    let mut wanted = vec![false; columns.len()];
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let places = places(&names);
    for field in &schema.fields {
        let misfit = |why| Misfit {
            column: field.name.clone(),
            why,
        };
        let place = match places.get(field.name.as_str()) {
            Some(Place::Once(place)) => *place,
            Some(Place::Twice) => return Err(misfit(Why::Twice)),
            None => return Err(misfit(Why::Missing)),
        };
        let column = &columns[place];
        if schema.kept.contains(&field.name) {
            if column.values.is_none() {
                let found = column.type_name.clone();
                return Err(misfit(Why::Kept { found }));
            }
            wanted[place] = true;
            continue;
        }
        let (fits, wants) = match (&field.kind, column.values) {
            (FieldKind::Float { .. } | FieldKind::Floats { .. }, values) => {
                (values.is_some_and(|values| !values.is_text()), "numbers")
            }
            (FieldKind::Int { fraction, .. }, values) if fraction.is_dropped() => {
                (values.is_some_and(|values| !values.is_text()), "numbers")
            }
            (FieldKind::Int { .. }, values) => {
                (values.is_some_and(Values::is_whole), "whole numbers")
            }
            (FieldKind::Bytes { .. }, values) => (
                values.is_some_and(|values| values.is_text() || values.is_whole()),
                "texts or whole numbers",
            ),
        };
        if !fits {
            let found = column.type_name.clone();
            return Err(misfit(Why::Type {
                found,
                wanted: wants,
            }));
        }
        let takes_several = match &field.kind {
            FieldKind::Float { width, .. } => *width > 1,
            kind => kind.is_ragged(),
        };
        if column.list && !takes_several {
            let found = column.type_name.clone();
            return Err(misfit(Why::Type {
                found,
                wanted: ONE_VALUE,
            }));
        }
        wanted[place] = true;
    }
    Ok(columns
        .iter()
        .zip(wanted)
        .filter(|(_, wanted)| *wanted)
        .map(|(column, _)| ParquetColumn {
            keeps_digits: [&schema.kept, &schema.kept_beside]
                .iter()
                .any(|kept| kept.contains(&column.name)),
            ..column.clone()
        })
        .collect())
}

/// Decoded values of one physical type.
#[derive(Debug)]
pub(super) enum Buffer {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Int96(Vec<Int96>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

/// Reader of the values of one column of a row group, in order.
pub(super) struct ColumnCursor {
    reader: ColumnReader,
    column: ParquetColumn,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    buffer: Buffer,
}

impl ColumnCursor {
    /// Returns a cursor at the first row.
    pub(super) fn new(column: &ParquetColumn, reader: ColumnReader) -> Self {
        let buffer = match &reader {
            ColumnReader::BoolColumnReader(_) => Buffer::Bool(Vec::new()),
            ColumnReader::Int32ColumnReader(_) => Buffer::Int32(Vec::new()),
            ColumnReader::Int64ColumnReader(_) => Buffer::Int64(Vec::new()),
            ColumnReader::FloatColumnReader(_) => Buffer::Float(Vec::new()),
            ColumnReader::DoubleColumnReader(_) => Buffer::Double(Vec::new()),
            ColumnReader::ByteArrayColumnReader(_) => Buffer::Bytes(Vec::new()),
            ColumnReader::FixedLenByteArrayColumnReader(_) => Buffer::Fixed(Vec::new()),
            ColumnReader::Int96ColumnReader(_) => Buffer::Int96(Vec::new()),
        };
        let definitions = Vec::new();
        let repetitions = Vec::new();
        Self {
            reader,
            column: column.clone(),
            definitions,
            repetitions,
            buffer,
        }
    }

    /// Returns the name of the column.
    pub(super) fn name(&self) -> &str {
        &self.column.name
    }

    /// Returns the definition level of a value that is present.
    pub(super) fn defined(&self) -> i16 {
        self.column.defined
    }

    /// Returns the rows in the buffer as the file holds them: their definition and repetition levels, of which a column of
    /// required values has none, and the values that are there.
    pub(super) fn raw(&self) -> (&[i16], &[i16], &Buffer) {
        (&self.definitions, &self.repetitions, &self.buffer)
    }

    /// Skips rows. Returns the number of rows that were skipped.
    pub(super) fn skip(&mut self, rows: usize) -> Result<usize> {
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
    pub(super) fn read(&mut self, rows: usize) -> Result<usize> {
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
            (ColumnReader::Int96ColumnReader(reader), Buffer::Int96(values)) => {
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

    /// Returns the rows in the buffer, of which there are `rows`.
    ///
    /// # Errors
    /// The levels name other values than there are.
    pub(super) fn take(&mut self, rows: usize) -> Result<ValueColumn> {
        let mut gaps = None;
        let begins = match self.column.arity() {
            Arity::List => {
                gaps = self.gaps_of_lists();
                Some(self.begins_of_lists(rows))
            }
            Arity::Optional if self.is_full() => None,
            Arity::Optional => Some(self.begins_of_options(rows)),
        };
        let named = match &begins {
            None => rows,
            Some(begins) if begins.len() == rows + 1 => match &gaps {
                None => begins[rows],
                Some(gaps) => gaps.iter().flatten().count(),
            },
            Some(begins) => {
                let column = &self.column.name;
                let levels = begins.len() - 1;
                let message = format!("column `{column}` has levels of {levels} rows, not {rows}");
                return Err(ParquetError::General(message));
            }
        };
        if named != self.buffer.len() {
            let column = &self.column.name;
            let given = self.buffer.len();
            let message =
                format!("column `{column}` has {given} values, and levels of {named} values");
            return Err(ParquetError::General(message));
        }
        let absent = self.absent_lists();
        let values = self.values();
        Ok(match (begins, gaps) {
            (None, _) => ValueColumn::full(values),
            (Some(begins), None) => {
                ValueColumn::ragged(self.column.arity(), values, begins).without_lists(absent)
            }
            (Some(begins), Some(gaps)) => {
                ValueColumn::with_gaps(values, begins, gaps).without_lists(absent)
            }
        })
    }

    /// Returns for each row whether it has no list, if there is such a row. An empty list has one level less than a place in a list.
    fn absent_lists(&self) -> Option<Vec<bool>> {
        let is_absent = |level: &i16| *level < self.column.listed - 1;
        if !self.column.list || !self.definitions.iter().any(is_absent) {
            return None;
        }
        let levels = self.definitions.iter().zip(&self.repetitions);
        let rows = levels.filter(|(_, repetition)| **repetition == 0);
        Some(rows.map(|(level, _)| is_absent(level)).collect())
    }

    /// Returns whether each row has a value.
    fn is_full(&self) -> bool {
        self.column.defined == 0 || self.definitions.len() == self.buffer.len()
    }

    /// Returns the places at which the values of rows begin that have one value or none.
    fn begins_of_options(&self, rows: usize) -> Vec<usize> {
        let mut begins = Vec::with_capacity(rows + 1);
        let mut end = 0;
        begins.push(end);
        for level in &self.definitions {
            end += usize::from(*level == self.column.defined);
            begins.push(end);
        }
        begins
    }

    /// Returns the place of the value of each place in the lists, if some places have none.
    fn gaps_of_lists(&self) -> Option<Vec<Option<usize>>> {
        let is_place = |level: &&i16| **level >= self.column.listed;
        let is_gap = |level: &i16| *level >= self.column.listed && *level < self.column.defined;
        if !self.definitions.iter().any(is_gap) {
            return None;
        }
        let mut next = 0;
        let places = self.definitions.iter().filter(is_place).map(|level| {
            let is_there = *level == self.column.defined;
            next += usize::from(is_there);
            is_there.then(|| next - 1)
        });
        Some(places.collect())
    }

    /// Returns the places at which lists begin. A list that is absent, and a list that is empty, has a level without a place.
    fn begins_of_lists(&self, rows: usize) -> Vec<usize> {
        let mut begins = Vec::with_capacity(rows + 1);
        let mut end = 0;
        for (nth, repetition) in self.repetitions.iter().enumerate() {
            if *repetition == 0 {
                begins.push(end);
            }
            // Without definition levels, each level has a value.
            let level = self.definitions.get(nth);
            end += usize::from(level.is_none_or(|level| *level >= self.column.listed));
        }
        begins.push(end);
        begins
    }

    /// Moves the values out of the buffer, in the type that rows have.
    fn values(&mut self) -> Decoded {
        let kind = self.column.values;
        let keeps_digits = self.column.keeps_digits;
        match (&mut self.buffer, kind) {
            (Buffer::Bool(values), _) => {
                Decoded::Int32(values.iter().map(|value| i32::from(*value)).collect())
            }
            (Buffer::Int32(values), Some(Values::Unsigned)) => {
                let unsigned = values.iter().map(|value| i64::from(value.cast_unsigned()));
                Decoded::Int64(unsigned.collect())
            }
            (Buffer::Int32(values), Some(Values::Time(ticks))) => {
                let times = values.iter().map(|value| i64::from(*value));
                Decoded::Time(times.collect(), ticks)
            }
            (Buffer::Int32(values), Some(Values::Decimal(scale))) => {
                let whole = values.iter().map(|value| Whole::Short(i128::from(*value)));
                decimals(whole, scale, keeps_digits)
            }
            (Buffer::Int32(values), Some(Values::Boolean8)) => {
                Decoded::Int32(values.iter().map(|value| i32::from(*value != 0)).collect())
            }
            (Buffer::Int32(values), _) => Decoded::Int32(std::mem::take(values)),
            (Buffer::Int64(values), Some(Values::Unsigned64)) => {
                let unsigned = values.iter().map(|value| value.cast_unsigned());
                Decoded::Unsigned(unsigned.collect())
            }
            (Buffer::Int64(values), Some(Values::Time(ticks))) => {
                Decoded::Time(std::mem::take(values), ticks)
            }
            (Buffer::Int64(values), Some(Values::Decimal(scale))) => {
                let whole = values.iter().map(|value| Whole::Short(i128::from(*value)));
                decimals(whole, scale, keeps_digits)
            }
            (Buffer::Int64(values), _) => Decoded::Int64(std::mem::take(values)),
            (Buffer::Int96(values), _) => {
                let times = values.iter().map(Int96::to_micros);
                Decoded::Time(times.collect(), Ticks::Microseconds)
            }
            (Buffer::Float(values), _) => Decoded::Float(std::mem::take(values)),
            (Buffer::Double(values), _) => Decoded::Double(std::mem::take(values)),
            (Buffer::Bytes(values), Some(Values::Decimal(scale))) => {
                let whole = values.iter().map(|value| Whole::of(value.data()));
                decimals(whole, scale, keeps_digits)
            }
            (Buffer::Bytes(values), Some(Values::WholeDecimal)) => {
                whole_decimals(values.iter().map(ByteArray::data))
            }
            (Buffer::Bytes(values), _) => texts(values.iter().map(ByteArray::data)),
            (Buffer::Fixed(values), Some(Values::Float16)) => {
                let floats = values.iter().map(|value| match value.data() {
                    &[low, high] => f16::from_le_bytes([low, high]).to_f32(),
                    // The column has two bytes for each.
                    _ => f32::NAN,
                });
                Decoded::Float(floats.collect())
            }
            (Buffer::Fixed(values), Some(Values::Decimal(scale))) => {
                let whole = values.iter().map(|value| Whole::of(value.data()));
                decimals(whole, scale, keeps_digits)
            }
            (Buffer::Fixed(values), Some(Values::WholeDecimal)) => {
                whole_decimals(values.iter().map(|value| value.data()))
            }
            (Buffer::Fixed(values), Some(Values::Uuid)) => {
                let mut texts = Texts::default();
                for value in values.iter() {
                    texts.push(uuid(value.data()).as_bytes());
                }
                Decoded::Text(texts)
            }
            (Buffer::Fixed(values), _) => texts(values.iter().map(|value| value.data())),
        }
    }
}

impl Buffer {
    /// Returns a buffer without values of a type.
    pub(super) fn of(physical: Physical) -> Self {
        match physical {
            Physical::BOOLEAN => Self::Bool(Vec::new()),
            Physical::INT32 => Self::Int32(Vec::new()),
            Physical::INT64 => Self::Int64(Vec::new()),
            Physical::INT96 => Self::Int96(Vec::new()),
            Physical::FLOAT => Self::Float(Vec::new()),
            Physical::DOUBLE => Self::Double(Vec::new()),
            Physical::BYTE_ARRAY => Self::Bytes(Vec::new()),
            Physical::FIXED_LEN_BYTE_ARRAY => Self::Fixed(Vec::new()),
        }
    }

    /// Returns a buffer without values of the same type.
    pub(super) fn of_this_type(&self) -> Self {
        match self {
            Self::Bool(_) => Self::Bool(Vec::new()),
            Self::Int32(_) => Self::Int32(Vec::new()),
            Self::Int64(_) => Self::Int64(Vec::new()),
            Self::Int96(_) => Self::Int96(Vec::new()),
            Self::Float(_) => Self::Float(Vec::new()),
            Self::Double(_) => Self::Double(Vec::new()),
            Self::Bytes(_) => Self::Bytes(Vec::new()),
            Self::Fixed(_) => Self::Fixed(Vec::new()),
        }
    }

    /// Appends a value of another buffer of this type. Returns whether the other one has it.
    pub(super) fn push_from(&mut self, other: &Self, nth: usize) -> bool {
        fn push<T: Clone>(to: &mut Vec<T>, from: &[T], nth: usize) -> bool {
            let value = from.get(nth);
            to.extend(value.cloned());
            value.is_some()
        }
        match (self, other) {
            (Self::Bool(to), Self::Bool(from)) => push(to, from, nth),
            (Self::Int32(to), Self::Int32(from)) => push(to, from, nth),
            (Self::Int64(to), Self::Int64(from)) => push(to, from, nth),
            (Self::Int96(to), Self::Int96(from)) => push(to, from, nth),
            (Self::Float(to), Self::Float(from)) => push(to, from, nth),
            (Self::Double(to), Self::Double(from)) => push(to, from, nth),
            (Self::Bytes(to), Self::Bytes(from)) => push(to, from, nth),
            (Self::Fixed(to), Self::Fixed(from)) => push(to, from, nth),
            _ => false,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Bool(values) => values.len(),
            Self::Int32(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::Int96(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Bytes(values) => values.len(),
            Self::Fixed(values) => values.len(),
        }
    }
}

/// A whole number of a decimal one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whole {
    Short(i128),
    /// The digits, with the sign, of a number beyond 128 bits.
    Long(String),
}

impl Whole {
    /// Returns the number of a big-endian two's complement.
    fn of(bytes: &[u8]) -> Self {
        whole(bytes).map_or_else(|| Self::Long(digits(bytes)), Self::Short)
    }

    fn is_rounded(&self) -> bool {
        match self {
            Self::Short(value) => value.unsigned_abs() > EXACT_IN_FLOAT,
            Self::Long(_) => true,
        }
    }

    fn float(&self) -> f64 {
        match self {
            Self::Short(value) => *value as f64,
            Self::Long(digits) => digits.parse().unwrap_or(f64::NAN),
        }
    }
}

/// Returns the digits of a big-endian two's complement of any length, with the sign.
fn digits(bytes: &[u8]) -> String {
    const CHUNK: u64 = 1_000_000_000;
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let mut left = bytes.to_vec();
    if is_negative {
        // The complement and one more.
        let mut carry = true;
        for byte in left.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let mut chunks = Vec::new();
    while left.iter().any(|byte| *byte != 0) {
        let mut rest = 0;
        for byte in &mut left {
            let value = rest * 256 + u64::from(*byte);
            // A quotient of a rest below the chunk is below 256.
            (*byte, rest) = ((value / CHUNK) as u8, value % CHUNK);
        }
        chunks.push(rest);
    }
    let mut text = String::from(if is_negative { "-" } else { "" });
    text += &chunks.pop().unwrap_or_default().to_string();
    for chunk in chunks.iter().rev() {
        text += &format!("{chunk:09}");
    }
    text
}

/// Returns decimal numbers of a scale, given their whole numbers: as floats, or as texts if one of them is to keep digits that a
/// float does not have.
fn decimals(
    values: impl Iterator<Item = Whole> + Clone,
    scale: i32,
    keeps_digits: bool,
) -> Decoded {
    if keeps_digits && values.clone().any(|value| value.is_rounded()) {
        let mut texts = Texts::default();
        for value in values {
            texts.push(decimal(&value, scale).as_bytes());
        }
        return Decoded::Text(texts);
    }
    let unit = 10_f64.powi(scale);
    Decoded::Double(values.map(|value| value.float() / unit).collect())
}

/// Returns all digits of a decimal number.
fn decimal(value: &Whole, scale: i32) -> String {
    let text = match value {
        Whole::Short(value) => value.to_string(),
        Whole::Long(digits) => digits.clone(),
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let scale = usize::try_from(scale).unwrap_or(0);
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

/// Returns whole numbers of at most 18 digits, or floats, which are refused as whole ones, where a broken file has more.
fn whole_decimals<'a>(values: impl Iterator<Item = &'a [u8]> + Clone) -> Decoded {
    let of_64_bits = |bytes: &[u8]| whole(bytes).and_then(|value| i64::try_from(value).ok());
    match values.clone().map(of_64_bits).collect() {
        Some(whole) => Decoded::Int64(whole),
        None => decimals(values.map(Whole::of), 0, false),
    }
}

/// Returns a big-endian two's complement; none if it is beyond 128 bits.
fn whole(bytes: &[u8]) -> Option<i128> {
    let sign = match bytes.first() {
        Some(first) if *first >= 0x80 => 0xff,
        _ => 0,
    };
    let mut wide = [sign; 16];
    // Bytes before the last 16 repeat the sign.
    let (head, tail) = bytes.split_at(bytes.len().saturating_sub(wide.len()));
    if head.iter().any(|byte| *byte != sign) {
        return None;
    }
    wide[16 - tail.len()..].copy_from_slice(tail);
    Some(i128::from_be_bytes(wide))
}

/// Returns the text of a UUID: its digits in groups of 8, 4, 4, 4 and 12.
fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (nth, byte) in bytes.iter().enumerate() {
        if matches!(nth, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

fn texts<'a>(values: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut texts = Texts::default();
    values.for_each(|text| texts.push(text));
    Decoded::Text(texts)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_decimal_are_a_big_endian_twos_complement() {
        for (bytes, number) in [
            (&[][..], 0),
            (&[0x7f], 127),
            (&[0xff], -1),
            (&[0x80, 0x00], -32768),
            (&[0x00, 0xff, 0xff], 65535),
            (&[0xff; 20], -1),
        ] {
            assert_eq!(whole(bytes), Some(number), "{bytes:?}");
        }
        assert_eq!(whole(&[1; 20]), None, "beyond 128 bits");
    }

    #[test]
    fn a_decimal_beyond_128_bits_is_read_and_keeps_its_digits() {
        let mut bytes = [0; 32];
        bytes[15] = 1;
        let power = "340282366920938463463374607431768211456";
        assert_eq!(digits(&bytes), power);
        let negative: Vec<u8> = [&[0xff; 16][..], &[0; 16]].concat();
        assert_eq!(digits(&negative), format!("-{power}"));
        let of = |keeps_digits| {
            decimals(
                [Whole::of(&bytes), Whole::of(&[7])].into_iter(),
                2,
                keeps_digits,
            )
        };
        match of(true) {
            Decoded::Text(texts) => {
                assert_eq!(texts.get(0), b"3402823669209384634633746074317682114.56");
                assert_eq!(texts.get(1), b"0.07");
            }
            other => panic!("{other:?}"),
        }
        match of(false) {
            Decoded::Double(values) => {
                assert!(
                    (values[0] / 2_f64.powi(128) - 0.01).abs() < 1e-15,
                    "{values:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn decimals_without_a_fraction_are_whole_numbers() {
        let of = |bytes: &[&[u8]]| whole_decimals(bytes.iter().copied());
        let found = of(&[&[0xff], &[0x01, 0x00]]);
        assert!(
            matches!(&found, Decoded::Int64(values) if values == &[-1, 256]),
            "{found:?}"
        );
        let broken = of(&[&[0x01; 9]]);
        assert!(matches!(broken, Decoded::Double(_)), "{broken:?}");
    }

    #[test]
    fn a_decimal_that_a_float_rounds_keeps_its_digits_where_it_is_written_elsewhere() {
        let of = |values: &[i128], scale, keeps_digits| {
            decimals(
                values.iter().map(|value| Whole::Short(*value)),
                scale,
                keeps_digits,
            )
        };
        let texts = |decoded: Decoded, count: usize| match decoded {
            Decoded::Text(texts) => (0..count)
                .map(|place| String::from_utf8_lossy(texts.get(place)).into_owned())
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        let big = 123_456_789_012_345_678_901_i128;
        assert_eq!(
            texts(of(&[big, -big, 5, -5, 100, 0], 2, true), 6),
            [
                "1234567890123456789.01",
                "-1234567890123456789.01",
                "0.05",
                "-0.05",
                "1",
                "0"
            ]
        );
        assert_eq!(
            texts(of(&[big, 1], 0, true), 2),
            ["123456789012345678901", "1"]
        );
        for exact in [of(&[big], 2, false), of(&[1_250], 2, true)] {
            assert!(matches!(exact, Decoded::Double(_)), "{exact:?}");
        }
    }
}
