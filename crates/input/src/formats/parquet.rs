//! Rows of typed columns in Parquet files.

#[cfg(not(feature = "parquet"))]
mod absent;
#[cfg(feature = "parquet")]
mod arrow_message;
#[cfg(feature = "parquet")]
mod arrow_schema;
#[cfg(feature = "parquet")]
mod column;
#[cfg(feature = "parquet")]
mod column_type;
#[cfg(feature = "parquet")]
mod copy;
#[cfg(feature = "parquet")]
mod kept;
#[cfg(feature = "parquet")]
mod merged;
#[cfg(feature = "parquet")]
mod pages;
mod parser;
#[cfg(feature = "parquet")]
mod raw;
#[cfg(feature = "parquet")]
mod rows;
#[cfg(feature = "parquet")]
mod writer;

#[cfg(not(feature = "parquet"))]
pub(crate) use self::absent::{ParquetCopier, column_types};
#[cfg(not(feature = "parquet"))]
use self::absent::{ParquetRows, ParquetWriter};
#[cfg(feature = "parquet")]
pub(crate) use self::copy::ParquetCopier;
#[cfg(feature = "parquet")]
pub(crate) use self::merged::column_types;
use self::parser::RowParser;
#[cfg(feature = "parquet")]
use self::rows::ParquetRows;
#[cfg(feature = "parquet")]
use self::writer::ParquetWriter;
use crate::record::Content;
use crate::record_format::{
    FileColumns, FileRecords, InputFile, RecordFormat, RecordParser, RowWriter, TableRow, Target,
};
use crate::record_unit::RecordUnit;
use crate::row::{Cell, RowCells};
use crate::{Error, Options, Schema, Value};

/// Fault of a row in its inline form.
const TOO_FEW: &str = "the row has fewer cells than its file has columns";

/// The format.
#[derive(Debug)]
pub(super) struct Parquet;

impl RecordFormat for Parquet {
    fn extensions(&self) -> &'static [&'static str] {
        &["parquet", "pq"]
    }

    fn unit(&self) -> RecordUnit {
        RecordUnit::Row
    }

    fn open(
        &self,
        file: &InputFile<'_>,
        schema: Option<&Schema>,
    ) -> Result<Box<dyn FileRecords>, Error> {
        Ok(Box::new(ParquetRows::open(file, schema)?))
    }

    fn names_columns(&self, _options: &Options) -> bool {
        true
    }

    fn parser(&self, columns: &FileColumns<'_>) -> Result<Box<dyn RecordParser>, Error> {
        Ok(Box::new(RowParser::new(columns)?))
    }

    fn cells(&self, content: Content<'_>, row: TableRow<'_>) -> Result<(), String> {
        match content {
            #[cfg(feature = "parquet")]
            Content::Row(rows, number) => table_cells(rows.cells(number), row),
            Content::Bytes(bytes) => table_cells(RowCells(bytes), row),
        }
    }

    fn writer(&self, target: Target<'_>) -> Result<Box<dyn RowWriter>, Error> {
        Ok(Box::new(ParquetWriter::new(target)?))
    }
}

/// Copies the cells of a row into a row of a table.
fn table_cells<'a>(
    mut cells: impl Iterator<Item = Cell<'a>>,
    row: TableRow<'_>,
) -> Result<(), String> {
    let mut next = || cells.next().ok_or_else(|| TOO_FEW.to_owned());
    for place in row.places {
        let Some(target) = row.cells.get_mut(*place) else {
            continue;
        };
        match next()? {
            Cell::List(count) => {
                target.list = true;
                for _ in 0..count {
                    target.values.push(value(next()?).unwrap_or(Value::Missing));
                }
            }
            Cell::Missing => target.list = false,
            one => target.values.extend(value(one)),
        }
    }
    Ok(())
}

fn value(cell: Cell<'_>) -> Option<Value> {
    match cell {
        Cell::Int(number) | Cell::Time(number, _) => Some(Value::Int(number)),
        Cell::Unsigned(number) => Some(match i64::try_from(number) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Text(number.to_string().into_bytes()),
        }),
        Cell::Float(number) => Some(Value::Float(number)),
        Cell::Text(text) => Some(Value::Text(text.to_vec())),
        Cell::Missing | Cell::List(_) => None,
    }
}
