//! Reader of the records of a file, in any format.

use std::path::Path;

use trainyard_storage::Storage;

use crate::lines::Lines;
#[cfg(not(feature = "parquet"))]
use crate::parquet_absent::ParquetRows;
#[cfg(feature = "parquet")]
use crate::parquet_rows::ParquetRows;
use crate::record::{Place, Record, failed};
use crate::tfrecord::TfRecords;
use crate::{Error, Format, Options, Schema};

/// Reader of the records of one file.
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

impl RecordReader {
    /// Opens file `number` of the input. The reader of a Parquet file reads the columns that the schema wants; without
    /// a schema, all columns.
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

    /// Returns the columns of the records, if the format stores their names.
    pub(crate) fn columns(&self) -> Option<Vec<String>> {
        match &self.records {
            Records::Parquet(rows) => Some(rows.columns()),
            Records::Text(_) | Records::TfRecord(_) => None,
        }
    }

    /// Moves to the next record. Returns `false` at the end of the file. Of a record that is not `wanted`, Parquet
    /// decodes nothing, and TFRecord does not check the data.
    pub(crate) fn next(&mut self, file: &Path, wanted: bool) -> Result<bool, Error> {
        match &mut self.records {
            Records::Text(lines) => lines.next(file, &mut self.place),
            Records::TfRecord(records) => records.next(file, &mut self.place, wanted),
            Records::Parquet(rows) => rows.next(file, &mut self.place, wanted),
        }
    }

    /// Moves to the record that begins at byte `offset` of the content. `line` is its [`Place::line`]. The caller reads
    /// no bytes from `until` on.
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

    /// Returns the offset in the content of the first byte after the record; for Parquet, the number of the next row.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        match &self.records {
            Records::Text(lines) => lines.offset(),
            Records::TfRecord(records) => records.offset(),
            Records::Parquet(rows) => rows.number(),
        }
    }

    /// Returns the place of the record.
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
