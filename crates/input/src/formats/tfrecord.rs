//! `tf.train.Example` messages in TFRecord files.

mod cells;
mod example;
mod frames;
mod wire;
mod writer;

use self::example::ExampleParser;
use self::frames::TfRecords;
use self::writer::ExampleWriter;
use crate::record::Content;
use crate::record_format::{
    FileColumns, FileRecords, InputFile, RecordFormat, RecordParser, RowWriter, TableRow, Target,
};
use crate::record_unit::RecordUnit;
use crate::{Error, Schema};

/// The format.
#[derive(Debug)]
pub(super) struct TfRecord;

impl RecordFormat for TfRecord {
    fn extensions(&self) -> &'static [&'static str] {
        &["tfrecord", "tfrecords"]
    }

    fn unit(&self) -> RecordUnit {
        RecordUnit::Record
    }

    fn open(
        &self,
        file: &InputFile<'_>,
        _schema: Option<&Schema>,
    ) -> Result<Box<dyn FileRecords>, Error> {
        Ok(Box::new(TfRecords::open(file)?))
    }

    fn parser(&self, columns: &FileColumns<'_>) -> Result<Box<dyn RecordParser>, Error> {
        let parser = ExampleParser::new(columns.schema, &columns.options.missing);
        Ok(Box::new(parser))
    }

    fn cells(&self, content: Content<'_>, row: TableRow<'_>) -> Result<(), String> {
        cells::cells(content.as_bytes(), row.columns, row.cells)
    }

    fn writer(&self, target: Target<'_>) -> Result<Box<dyn RowWriter>, Error> {
        Ok(Box::new(ExampleWriter::new(target)))
    }
}
