//! Record fetcher: reads the raw records of data shards from the files.

use trainyard_storage::Storage;

use crate::record_format::Want;
use crate::record_reader::{RecordReader, names_columns};
use crate::{DataShard, Error, FileRange, InlineRecords, Options, Schema};

/// Number of files that stay open: about the files of one window of data shards.
const OPEN_FILES_MAX: usize = 4;

/// Reader of the records of data shards. Files stay open from one data shard to the next. Consecutive data shards are
/// fast.
///
/// To go back more than 32 MiB in a compressed file, the file is decompressed again from its start.
#[derive(Debug)]
pub struct RecordFetcher {
    options: Options,
    storage: Storage,
    /// Columns to read from files of a columnar format; absent = all.
    schema: Option<Schema>,
    /// Open files. The file that was used last is at the end.
    open: Vec<(u32, RecordReader)>,
    /// Columns of the files that were opened, if the files name them.
    columns: Vec<Option<Vec<String>>>,
}

impl RecordFetcher {
    /// Returns a fetcher. It opens no file yet. Of the options, files, format, compression and header are used.
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

    /// Restricts reading of columnar formats to the columns of a schema.
    pub(crate) fn with_schema(self, schema: Schema) -> Self {
        Self {
            schema: Some(schema),
            ..self
        }
    }

    /// Reads the records of a data shard into `inline_records`, whose content is replaced and whose memory is reused.
    ///
    /// # Errors
    /// A file cannot be read, or has changed since it was indexed; the data shard is inconsistent; its records have
    /// more than `bytes_max` bytes.
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

    /// Extends the list of files to at least `count`. A file that is known only by its place gets a placeholder name.
    pub(crate) fn name_files(&mut self, count: usize) {
        let known = self.options.files.len();
        self.options
            .files
            .extend((known..count).map(|file| format!("file {file} of the input").into()));
        self.columns.resize(self.options.files.len(), None);
    }

    /// Returns the columns that a file names; nothing if the file names none, or was not opened.
    pub(crate) fn columns(&self, file: u32) -> Option<&[String]> {
        self.columns.get(file as usize)?.as_deref()
    }

    /// Reads the records of a checked data shard, without the headers.
    pub(crate) fn load(
        &mut self,
        shard: &DataShard,
        bytes_max: u64,
        records: &mut InlineRecords,
    ) -> Result<(), Error> {
        records.clear();
        for range in &shard.ranges {
            self.read(range, records, |records| match records.bytes.len() as u64 {
                bytes if bytes > bytes_max => Err(Error::ShardBytes {
                    rows: records.lengths.len() as u64,
                    of: shard.rows,
                    bytes,
                    most: bytes_max,
                }),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        range: &FileRange,
        records: &mut InlineRecords,
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
            if !reader.next(file, Want::Content)? {
                let expected = range.rows;
                return changed(format!(
                    "expected {expected} records from byte {} on, found {row}",
                    range.offset
                ));
            }
            let record = reader.record(0);
            lost = record.fault.is_some();
            records.push(record);
            check(records)?;
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

    /// Makes a file the last of the open files. Opens it if needed, and closes the file that has gone unused for
    /// longest.
    fn select(&mut self, file: u32) -> Result<(), Error> {
        if let Some(place) = self.open.iter().position(|(open, _)| *open == file) {
            self.open[place..].rotate_left(1);
            return Ok(());
        }
        if self.open.len() == OPEN_FILES_MAX {
            self.open.remove(0);
        }
        let known = &mut self.columns[file as usize];
        let reader = if names_columns(&self.options) && known.is_none() {
            let (reader, columns) = RecordReader::open_after_header(
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

    /// Opens every file once, passes its columns to `each`, and closes it.
    pub(crate) fn check(
        &mut self,
        mut each: impl FnMut(u32, Option<&[String]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for file in 0..self.options.files.len() {
            let (_, columns) = RecordReader::open_after_header(
                &self.options,
                &self.storage,
                self.schema.as_ref(),
                file,
            )?;
            each(file as u32, columns.as_deref())?;
            self.columns[file] = columns;
        }
        Ok(())
    }
}
