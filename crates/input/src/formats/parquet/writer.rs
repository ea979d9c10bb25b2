//! Writer of Parquet files. Columns are buffered, and written as a row group when the buffer is full.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result as Outcome;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::kept::KeptColumns;
use crate::layout::{float, int, text};
use crate::output::{Unwritten, sync};
use crate::record_format::{RowWriter, Target};
use crate::{Cell, ColumnKind, ColumnLayout, Error, Value};

/// Most rows of a row group.
const GROUP_ROWS: usize = 1 << 17;
/// Size at which a row group is written, in bytes: 8 for each value, plus the bytes of the texts.
const GROUP_BYTES: usize = 64 << 20;

/// Buffered values of a column.
enum Gathered {
    Boolean(Vec<bool>),
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<ByteArray>),
}

struct Column {
    list: bool,
    gathered: Gathered,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

/// Writer of a file with the columns of a layout. Any column may have missing values.
pub(super) struct ParquetWriter {
    writer: SerializedFileWriter<BufWriter<File>>,
    /// Columns that are copied from other files, before the others.
    kept: Option<KeptColumns>,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
}

impl ParquetWriter {
    /// Returns a writer before its first row.
    ///
    /// # Errors
    /// The layout is no schema of the format.
    pub(super) fn new(target: Target<'_>) -> Result<Self, Error> {
        let Target {
            path,
            file,
            layout,
            kept,
            ..
        } = target;
        let kept = kept.map(|kept| KeptColumns::open(&kept.files, &kept.columns));
        let kept = kept.transpose()?;
        let build = || -> Outcome<_> {
            let mut fields = kept.as_ref().map(KeptColumns::fields).unwrap_or_default();
            for column in &layout.columns {
                fields.push(field(column)?);
            }
            let schema = Arc::new(
                Type::group_type_builder("schema")
                    .with_fields(fields)
                    .build()?,
            );
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_key_value_metadata(
                    kept.as_ref()
                        .and_then(|kept| kept.metadata(&layout.columns)),
                )
                .build();
            SerializedFileWriter::new(file, schema, Arc::new(properties))
        };
        let writer = build().map_err(|error| Unwritten::from(error).of(path))?;
        let column = |column: &ColumnLayout| Column {
            list: column.list,
            gathered: match column.kind {
                Some(ColumnKind::Boolean) => Gathered::Boolean(Vec::new()),
                Some(ColumnKind::Int) => Gathered::Int(Vec::new()),
                Some(ColumnKind::Float) => Gathered::Float(Vec::new()),
                Some(ColumnKind::Text) | None => Gathered::Text(Vec::new()),
            },
            definitions: Vec::new(),
            repetitions: Vec::new(),
        };
        Ok(Self {
            writer,
            kept,
            columns: layout.columns.iter().map(column).collect(),
            rows: 0,
            bytes: 0,
        })
    }

    fn flush(&mut self) -> Outcome<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        if let Some(kept) = &mut self.kept {
            for nth in 0..kept.fields().len() {
                let Some(mut writer) = group.next_column()? else {
                    continue;
                };
                kept.write(nth, self.rows, &mut writer)?;
                writer.close()?;
            }
        }
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else {
                continue;
            };
            let definitions = Some(column.definitions.as_slice());
            let repetitions = column.list.then_some(column.repetitions.as_slice());
            match &column.gathered {
                Gathered::Boolean(values) => {
                    writer
                        .typed::<BoolType>()
                        .write_batch(values, definitions, repetitions)?;
                }
                Gathered::Int(values) => {
                    writer
                        .typed::<Int64Type>()
                        .write_batch(values, definitions, repetitions)?;
                }
                Gathered::Float(values) => {
                    writer
                        .typed::<DoubleType>()
                        .write_batch(values, definitions, repetitions)?;
                }
                Gathered::Text(values) => {
                    writer.typed::<ByteArrayType>().write_batch(
                        values,
                        definitions,
                        repetitions,
                    )?;
                }
            }
            writer.close()?;
            column.clear();
        }
        group.close()?;
        self.rows = 0;
        self.bytes = 0;
        Ok(())
    }
}

impl RowWriter for ParquetWriter {
    fn write(&mut self, row: &[Cell]) -> Result<(), Unwritten> {
        let empty = Cell::default();
        for (place, column) in self.columns.iter_mut().enumerate() {
            let cell = row.get(place).unwrap_or(&empty);
            self.bytes += column.take(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the buffered rows and the footer.
    fn finish(mut self: Box<Self>) -> Result<(), Unwritten> {
        self.flush()?;
        Ok(sync(self.writer.into_inner()?)?)
    }
}

impl Column {
    /// Buffers a cell, and returns its size in bytes.
    fn take(&mut self, cell: &Cell) -> usize {
        // Definition level of a present value: 1 for an optional value, 3 for an element of a list. See `field`.
        let defined = if self.list { 3 } else { 1 };
        if cell.values.is_empty() {
            self.definitions.push(0);
            self.repetitions.push(0);
            return 8;
        }
        let mut bytes = 0;
        for (nth, value) in cell.values.iter().enumerate() {
            self.repetitions.push(i16::from(nth > 0));
            bytes += 8;
            if *value == Value::Missing {
                self.definitions.push(defined - 1);
                continue;
            }
            self.definitions.push(defined);
            match &mut self.gathered {
                Gathered::Boolean(values) => values.push(int(value) != 0),
                Gathered::Int(values) => values.push(int(value)),
                Gathered::Float(values) => values.push(float(value).unwrap_or(f64::NAN)),
                Gathered::Text(values) => {
                    let mut bytes_of = Vec::new();
                    text(value, &mut bytes_of);
                    bytes += bytes_of.len();
                    values.push(bytes_of.into());
                }
            }
        }
        bytes
    }

    fn clear(&mut self) {
        self.definitions.clear();
        self.repetitions.clear();
        match &mut self.gathered {
            Gathered::Boolean(values) => values.clear(),
            Gathered::Int(values) => values.clear(),
            Gathered::Float(values) => values.clear(),
            Gathered::Text(values) => values.clear(),
        }
    }
}

/// Returns the type of a column; a list is `optional group name (LIST) { repeated group list { optional element } }`
/// (<https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists>).
fn field(column: &ColumnLayout) -> Outcome<TypePtr> {
    let primitive = |name: &str, repetition| {
        let (physical, converted) = match column.kind {
            Some(ColumnKind::Boolean) => (Physical::BOOLEAN, ConvertedType::NONE),
            Some(ColumnKind::Int) => (Physical::INT64, ConvertedType::NONE),
            Some(ColumnKind::Float) => (Physical::DOUBLE, ConvertedType::NONE),
            Some(ColumnKind::Text) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            // Bytes of no known type: readers refuse a text that is no UTF-8.
            None => (Physical::BYTE_ARRAY, ConvertedType::NONE),
        };
        let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        builder.with_converted_type(converted).build().map(Arc::new)
    };
    if !column.list {
        return primitive(&column.name, Repetition::OPTIONAL);
    }
    let element = primitive("element", Repetition::OPTIONAL)?;
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![element]);
    let list = Type::group_type_builder(&column.name)
        .with_repetition(Repetition::OPTIONAL)
        .with_converted_type(ConvertedType::LIST)
        .with_fields(vec![Arc::new(list.build()?)]);
    list.build().map(Arc::new)
}
