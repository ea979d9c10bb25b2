//! Parser of records into the wanted columns, for all formats.

use trainyard_storage::Storage;

use crate::cells::{Bad, truncate};
use crate::formats;
use crate::record::Record;
use crate::record_format::{FileColumns, RecordParser};
use crate::record_reader::RecordReader;
use crate::{Batch, Error, Options, Schema};

/// Parser of the records of one file, or of all files whose records name their features.
#[derive(Debug)]
pub(crate) struct Parser(Box<dyn RecordParser>);

impl Parser {
    /// Returns the parser for a file with these columns, or with the columns of the options.
    ///
    /// # Errors
    /// A wanted column is missing, or has another type.
    pub(crate) fn new(
        options: &Options,
        schema: &Schema,
        file: usize,
        named: Option<&[String]>,
    ) -> Result<Self, Error> {
        let names = named.or(options.columns.as_deref()).unwrap_or_default();
        formats::format(options.format)
            .parser(&FileColumns {
                names,
                schema,
                options,
                file,
            })
            .map(Self)
    }

    /// Opens a file after its header, and returns a parser for its columns. `before` is the parser of an earlier file,
    /// which is returned if it serves every file.
    ///
    /// # Errors
    /// The file cannot be read, or a wanted column is missing or has another type.
    pub(crate) fn open(
        options: &Options,
        storage: &Storage,
        schema: &Schema,
        file: usize,
        before: Option<Self>,
    ) -> Result<(RecordReader, Self), Error> {
        let (reader, columns) =
            RecordReader::open_after_header(options, storage, Some(schema), file)?;
        let parser = match before.filter(Self::serves_every_file) {
            Some(parser) => parser,
            None => Self::new(options, schema, file, columns.as_deref())?,
        };
        Ok((reader, parser))
    }

    /// Appends a record to the batch: all wanted columns, or none if the record is bad, because it cannot be parsed or
    /// breaks a rule of the schema.
    pub(crate) fn append(
        &mut self,
        record: Record<'_>,
        schema: &Schema,
        batch: &mut Batch,
    ) -> Result<(), Bad> {
        if let Some(fault) = record.fault {
            return Err((None, fault.to_owned()));
        }
        let rows = batch.rows;
        let outcome = self.0.append(record.content, batch).and_then(|()| {
            batch.rows += 1;
            let broken = |(field, reason)| (Some(field), reason);
            schema.check(batch, rows).map_err(broken)
        });
        if outcome.is_err() {
            batch.rows = rows;
            for (column, field) in batch.columns.iter_mut().zip(&schema.fields) {
                truncate(column, &field.kind, rows);
            }
        }
        outcome
    }

    /// Returns whether each record names its features, so that the parser serves every file.
    pub(crate) fn serves_every_file(&self) -> bool {
        self.0.serves_every_file()
    }

    /// Returns the wanted features that no record has held so far, if records name their features.
    pub(crate) fn unseen(&self) -> Vec<&str> {
        self.0.unseen()
    }

    /// Returns the features of the latest record, if records name their features.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

#[cfg(test)]
mod golden;
