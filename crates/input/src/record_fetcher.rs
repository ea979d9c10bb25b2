//! Reads the raw records of data shards from the files.

use trainyard_storage::Storage;

use crate::record::RecordReader;
use crate::source::{has_header, open_records};
use crate::{DataShard, Error, FileRange, InlineRecords, Options, Schema};

/// Files that stay open: those that data shards of one window are likely to be in.
const OPEN_FILES_MAX: usize = 4;

/// Reads the records of data shards. Files stay open from one to the next, and it is fast where they follow each other.
///
/// Within a compressed file, what lies more than 32 MiB behind the furthest byte read is decompressed again from the
/// start.
#[derive(Debug)]
pub struct RecordFetcher {
    options: Options,
    storage: Storage,
    /// What is read of files that hold columns apart; absent = all.
    schema: Option<Schema>,
    /// The one used last is at the end.
    open: Vec<(u32, RecordReader)>,
    /// Columns of the files that were opened, if their headers name them.
    columns: Vec<Option<Vec<String>>>,
}

impl RecordFetcher {
    /// Prepares to read. The options say what the records are: files, format, compression, and whether a header comes
    /// first; nothing is opened yet.
    pub fn new(options: Options) -> Self {
        let columns = vec![None; options.files.len()];
        Self {
            options,
            storage: Storage::default(),
            schema: None,
            open: Vec::new(),
            columns,
        }
    }

    /// Reads no more than the columns of a schema, from files that hold columns apart.
    pub(crate) fn with_schema(self, schema: Schema) -> Self {
        Self {
            schema: Some(schema),
            ..self
        }
    }

    /// Reads the records of a data shard into `inline_records`, whose memory is used again, whatever it held.
    ///
    /// # Errors
    /// A file cannot be read, or is not the one that was indexed; the data shard makes no sense; its records are more
    /// than `bytes_max` bytes.
    pub fn fetch(
        &mut self,
        shard: &DataShard,
        bytes_max: u64,
        inline_records: &mut InlineRecords,
    ) -> Result<(), Error> {
        shard.check(self.options.files.len())?;
        self.load(shard, bytes_max, inline_records)?;
        for range in &shard.ranges {
            let known = inline_records
                .headers
                .last()
                .is_some_and(|header| header.file == range.file);
            if let (false, Some(columns)) = (known, self.columns(range.file)) {
                inline_records.headers.push(crate::Header {
                    file: range.file,
                    columns: columns.to_vec(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Gives names to files that are known by their place only, so that there are at least `count`.
    pub(crate) fn name_files(&mut self, count: usize) {
        let known = self.options.files.len();
        self.options
            .files
            .extend((known..count).map(|file| format!("file {file} of the input").into()));
        self.columns.resize(self.options.files.len(), None);
    }

    /// Returns the columns that the header of a file names; nothing where it has none, or was not opened.
    pub(crate) fn columns(&self, file: u32) -> Option<&[String]> {
        self.columns.get(file as usize)?.as_deref()
    }

    /// Reads the records of a data shard that was checked, without the headers.
    pub(crate) fn load(
        &mut self,
        shard: &DataShard,
        bytes_max: u64,
        inline_records: &mut InlineRecords,
    ) -> Result<(), Error> {
        inline_records.clear();
        for range in &shard.ranges {
            self.read(range, inline_records, |inline_records| {
                match inline_records.bytes.len() as u64 {
                    bytes if bytes > bytes_max => {
                        let rows = inline_records.lengths.len() as u64;
                        Err(Error::ShardBytes {
                            rows,
                            of: shard.rows,
                            bytes,
                            most: bytes_max,
                        })
                    }
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        range: &FileRange,
        inline_records: &mut InlineRecords,
        check: impl Fn(&InlineRecords) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.select(range.file)?;
        let file = self.options.files[range.file as usize].as_path();
        let Some((_, reader)) = self.open.last_mut() else {
            return Ok(());
        };
        reader.seek(file, range.offset, range.line, range.end())?;
        let changed = |what: String| {
            Err(Error::Changed {
                file: file.to_owned(),
                what,
            })
        };
        let mut lost = false;
        for row in 0..range.rows {
            if !reader.next(file, true)? {
                let expected = range.rows;
                return changed(format!(
                    "expected {expected} records from byte {} on, found {row}",
                    range.offset
                ));
            }
            let record = reader.record(0);
            lost = record.fault.is_some();
            inline_records.push(record);
            check(inline_records)?;
        }
        if reader.end() == range.end() || lost {
            Ok(())
        } else {
            changed(format!(
                "expected a record to end at byte {}, found {}",
                range.end(),
                reader.end()
            ))
        }
    }

    /// Makes a file the last of those that are open.
    fn select(&mut self, file: u32) -> Result<(), Error> {
        if let Some(place) = self.open.iter().position(|(open, _)| *open == file) {
            self.open[place..].rotate_left(1);
            return Ok(());
        }
        if self.open.len() == OPEN_FILES_MAX {
            self.open.remove(0);
        }
        let known = &mut self.columns[file as usize];
        let reader = if has_header(&self.options) && known.is_none() {
            let (reader, columns) = open_records(
                &self.options,
                &self.storage,
                self.schema.as_ref(),
                file as usize,
            )?;
            *known = columns;
            reader
        } else {
            RecordReader::open(
                &self.options,
                &self.storage,
                self.schema.as_ref(),
                file as usize,
            )?
        };
        self.open.push((file, reader));
        Ok(())
    }

    /// Opens every file past its header once, and closes it again.
    pub(crate) fn check(
        &mut self,
        mut each: impl FnMut(u32, Option<&[String]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for file in 0..self.options.files.len() {
            let (_, columns) =
                open_records(&self.options, &self.storage, self.schema.as_ref(), file)?;
            each(file as u32, columns.as_deref())?;
            self.columns[file] = columns;
        }
        Ok(())
    }
}
