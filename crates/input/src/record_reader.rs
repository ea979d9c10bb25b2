//! Reader of the records of a file, in any format.

use std::path::Path;

use trainyard_storage::Storage;

use crate::formats;
use crate::record::{Place, Record, failed};
use crate::record_format::{FileRecords, InputFile, Want};
use crate::{Error, Options, Schema, TypeKind};

/// Reader of the records of one file.
#[derive(Debug)]
pub(crate) struct RecordReader {
    records: Box<dyn FileRecords>,
    place: Place,
}

impl RecordReader {
    /// Opens file `number` of the input. The reader of a columnar file reads the columns that the schema wants; without
    /// a schema, all columns.
    ///
    /// # Errors
    /// The file cannot be read, or a wanted column is missing or has another type.
    pub(crate) fn open(
        options: &Options,
        storage: &Storage,
        schema: Option<&Schema>,
        number: usize,
    ) -> Result<Self, Error> {
        let file = InputFile {
            storage,
            path: &options.files[number],
            compression: options.compression,
            trim: options.trim,
            delimiter: options.text.delimiter,
            #[cfg(feature = "parquet")]
            keeps_digits: options.keeps_digits,
        };
        let records = formats::format(options.format).open(&file, schema)?;
        Ok(Self {
            records,
            place: Place {
                file: number,
                ..Place::default()
            },
        })
    }

    /// Opens a file after its header, if it has one. Returns the columns that the file names.
    ///
    /// # Errors
    /// As [`RecordReader::open`], or the file has no header.
    pub(crate) fn open_after_header(
        options: &Options,
        storage: &Storage,
        schema: Option<&Schema>,
        number: usize,
    ) -> Result<(Self, Option<Vec<String>>), Error> {
        let mut reader = Self::open(options, storage, schema, number)?;
        let columns = match reader.records.columns() {
            None if names_columns(options) => Some(reader.header(options)?),
            columns => columns,
        };
        Ok((reader, columns))
    }

    /// Reads the header.
    fn header(&mut self, options: &Options) -> Result<Vec<String>, Error> {
        let file = &options.files[self.place.file];
        if self.next(file, Want::Content)? {
            let record = self.records.content().bytes();
            let names = formats::format(options.format).header(&record, options);
            // Such a line would be the whole file.
            if names.iter().any(|name| name.contains('\r')) {
                return Err(Error::CarriageReturns { file: file.clone() });
            }
            Ok(names)
        } else {
            Err(Error::Empty {
                files: vec![file.clone()],
            })
        }
    }

    /// Returns the columns of the file whose values no job can read, with their types.
    pub(crate) fn unreadable(&self) -> &[(String, String)] {
        self.records.unreadable()
    }

    /// Returns the columns of the file, as [`FileRecords::kinds`].
    pub(crate) fn kinds(&self) -> Vec<(String, TypeKind)> {
        self.records.kinds()
    }

    /// Moves to the next record. Returns `false` at the end of the file. Of a record whose place alone is wanted, Parquet
    /// decodes nothing, and TFRecord does not check the data.
    #[inline]
    pub(crate) fn next(&mut self, file: &Path, want: Want) -> Result<bool, Error> {
        self.records.next(file, &mut self.place, want)
    }

    /// Moves to the record that begins at `offset` of the content. `line` is its [`Place::line`]. The caller reads
    /// nothing from `until` on.
    pub(crate) fn seek(
        &mut self,
        file: &Path,
        offset: u64,
        line: u64,
        until: u64,
    ) -> Result<(), Error> {
        let outcome = self.records.seek(offset, line, until);
        outcome.map_err(|error| failed(file, &error))
    }

    /// Returns the offset in the content of the first byte after the record; for Parquet, the number of the next row.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.records.end()
    }

    /// Returns the place of the record.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Returns the record.
    #[inline]
    pub(crate) fn record(&self, pass: u64) -> Record<'_> {
        Record {
            content: self.records.content(),
            place: Place { pass, ..self.place },
            fault: self.records.fault(),
        }
    }
}

/// Returns whether each file names its columns, in its first record or in a schema.
pub(crate) fn names_columns(options: &Options) -> bool {
    formats::format(options.format).names_columns(options)
}
