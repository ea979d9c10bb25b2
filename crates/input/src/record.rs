//! Records of a file: raw bytes with their place, before their fields are looked at.

use std::io::ErrorKind;
use std::path::Path;

use trainyard_storage::Storage;

use crate::lines::Lines;
#[cfg(not(feature = "parquet"))]
use crate::parquet_absent::ParquetRows;
#[cfg(feature = "parquet")]
use crate::parquet_rows::ParquetRows;
use crate::tfrecord::TfRecords;
use crate::{Error, Format, Options, Schema};

/// Where a record comes from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) file: usize,
    /// Line on which it begins, or its number in a TFRecord or Parquet file, from 1.
    pub(crate) line: u64,
    /// Byte at which it begins, of the decompressed content; of Parquet, its number, from 0.
    pub(crate) offset: u64,
    pub(crate) pass: u64,
}

/// A record where it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) place: Place,
    /// What is wrong with it as a whole.
    pub(crate) fault: Option<&'a str>,
}

/// Reads the records of one file.
#[derive(Debug)]
pub(crate) struct RecordReader {
    records: Records,
    place: Place,
}

#[derive(Debug)]
enum Records {
    Text(Lines),
    TfRecord(TfRecords),
    Parquet(Box<ParquetRows>),
}

/// Says that the system, or decompression, failed.
pub(crate) fn failed(file: &Path, error: &std::io::Error) -> Error {
    if let Some(error) = trainyard_storage::Error::of(error) {
        return Error::Remote(Box::new(error.clone()));
    }
    let message = match error.kind() {
        // The words of [`crate::compression`].
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => error.to_string(),
        kind => kind.to_string(),
    };
    Error::File {
        file: file.to_owned(),
        message,
    }
}

impl RecordReader {
    /// Opens file `number` of the input. Of a Parquet file, the columns that the schema wants are read, or all.
    pub(crate) fn open(
        options: &Options,
        storage: &Storage,
        schema: Option<&Schema>,
        number: usize,
    ) -> Result<Self, Error> {
        let file = options.files[number].as_path();
        let compression = || {
            options
                .compression
                .unwrap_or_else(|| crate::Compression::of(file))
        };
        let records = match options.format {
            Format::Csv | Format::Tsv | Format::LibSvm(_) => {
                Records::Text(Lines::open(storage, file, compression(), options.format)?)
            }
            Format::TfRecord => Records::TfRecord(TfRecords::open(storage, file, compression())?),
            Format::Parquet => {
                Records::Parquet(Box::new(ParquetRows::open(storage, file, schema)?))
            }
        };
        Ok(Self {
            records,
            place: Place {
                file: number,
                ..Place::default()
            },
        })
    }

    /// Returns the columns of its records, where the file names them itself.
    pub(crate) fn columns(&self) -> Option<Vec<String>> {
        match &self.records {
            Records::Parquet(rows) => Some(rows.columns()),
            Records::Text(_) | Records::TfRecord(_) => None,
        }
    }

    /// Goes to the next record; `false` at the end of the file. One that is not `wanted` is passed over.
    pub(crate) fn next(&mut self, file: &Path, wanted: bool) -> Result<bool, Error> {
        match &mut self.records {
            Records::Text(lines) => lines.next(file, &mut self.place),
            Records::TfRecord(records) => records.next(file, &mut self.place, wanted),
            Records::Parquet(rows) => rows.next(file, &mut self.place, wanted),
        }
    }

    /// Goes to the record that begins at byte `offset` of the content and has the number `line` in [`Place::line`]'s
    /// sense. What lies at `until` and behind it is not wanted.
    pub(crate) fn seek(
        &mut self,
        file: &Path,
        offset: u64,
        line: u64,
        until: u64,
    ) -> Result<(), Error> {
        let outcome = match &mut self.records {
            Records::Text(lines) => lines.seek(offset, line, until),
            Records::TfRecord(records) => records.seek(offset, line, until),
            Records::Parquet(rows) => {
                rows.seek(offset);
                Ok(())
            }
        };
        outcome.map_err(|error| failed(file, &error))
    }

    /// Returns the byte of the content behind the record.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        match &self.records {
            Records::Text(lines) => lines.offset(),
            Records::TfRecord(records) => records.offset(),
            Records::Parquet(rows) => rows.number(),
        }
    }

    /// Returns where the record is.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Returns the record.
    #[inline]
    pub(crate) fn record(&self, pass: u64) -> Record<'_> {
        let place = Place { pass, ..self.place };
        match &self.records {
            Records::Text(lines) => Record {
                bytes: lines.bytes(),
                place,
                fault: None,
            },
            Records::TfRecord(records) => Record {
                bytes: records.bytes(),
                place,
                fault: records.fault(),
            },
            Records::Parquet(rows) => Record {
                bytes: rows.bytes(),
                place,
                fault: None,
            },
        }
    }
}
