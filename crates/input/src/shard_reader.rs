//! Shard reader: reads the batches of data shards, from files or from inline records.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cells::clear;
use crate::dataset::{BATCH_BYTES_MAX, bad_row};
use crate::dead_letter::DeadLetter;
use crate::held_records::HeldRecords;
use crate::parser::Parser;
use crate::record_fetcher::RecordFetcher;
use crate::record_reader::names_columns;
use crate::{
    BadRows, Batch, DataShard, Error, InlineRecords, Options, Position, Schema, Statistics,
};

/// Most bytes of the records of a data shard. All of them are in memory at once.
const SHARD_BYTES_MAX: u64 = 4 << 30;

/// Most files of an input from which inline records come.
const FILES_MAX: usize = 1 << 20;

/// Order in which the batches of a data shard are read. The content of a batch does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// First to last.
    #[default]
    Forward,
    /// Last to first. A worker that helps another worker begins at the last batch.
    Backward,
}

/// Reader of the batches of one data shard after the other. The same data shard gives the same batches in every
/// process.
///
/// Files stay open and memory is reused from one data shard to the next.
#[derive(Debug)]
pub struct ShardReader {
    schema: Schema,
    fetcher: RecordFetcher,
    shard: DataShard,
    /// Remaining batches, and the end from which they are read.
    batches: Range<u32>,
    direction: Direction,
    /// Whether `records` holds the shard's records.
    loaded: bool,
    records: HeldRecords,
    entries: Vec<Entry>,
    order: Vec<u32>,
    /// Parsers by columns. Files with the same columns share a parser.
    parsers: Vec<(Vec<String>, Parser)>,
    parser_of: Vec<Option<u32>>,
    dead_letter: DeadLetter,
    statistics: Arc<Statistics>,
}

/// File and parser of a record.
#[derive(Debug, Clone, Copy)]
struct Entry {
    file: u32,
    parser: u32,
}

impl ShardReader {
    /// Returns a reader of files, and checks that every file can be opened and holds the wanted columns.
    ///
    /// Of the options, the format of records and the treatment of bad rows are used. The data shards determine batches,
    /// order and passes.
    ///
    /// # Errors
    /// A file or a column is missing.
    pub fn open(options: Options, schema: Schema) -> Result<Self, Error> {
        let mut reader = Self::new(options, schema);
        let Self {
            fetcher,
            parsers,
            schema,
            ..
        } = &mut reader;
        let options = fetcher.options().clone();
        let mut parser_of = vec![None; options.files.len()];
        fetcher.check(|file, columns| {
            parser_of[file as usize] = Some(parser_for(parsers, &options, schema, file, columns)?);
            Ok(())
        })?;
        reader.parser_of = parser_of;
        Ok(reader)
    }

    /// Returns a reader for inline records. It opens files only for data shards that begin without inline records.
    pub fn new(options: Options, schema: Schema) -> Self {
        let fetcher = RecordFetcher::new(options.clone()).with_schema(schema.clone());
        Self {
            schema,
            shard: DataShard::default(),
            batches: 0..0,
            direction: Direction::Forward,
            loaded: false,
            records: HeldRecords::default(),
            entries: Vec::new(),
            order: Vec::new(),
            parsers: Vec::new(),
            parser_of: vec![None; options.files.len()],
            dead_letter: DeadLetter::new(options.dead_letter.clone(), options.bad_rows_max),
            statistics: Arc::default(),
            fetcher,
        }
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(&self.statistics)
    }

    /// Begins a data shard whose records are read from the files. `batches` selects batches by their number in the
    /// shard. Unread batches of the data shard before are dropped.
    ///
    /// # Errors
    /// [`Error::Shard`] if the data shard is inconsistent.
    pub fn begin(
        &mut self,
        shard: DataShard,
        batches: Range<u32>,
        direction: Direction,
    ) -> Result<(), Error> {
        self.batches = 0..0;
        shard.check(self.fetcher.options().files.len())?;
        if shard.pass > self.shard.pass {
            self.warn_unseen();
        }
        self.statistics
            .passes
            .fetch_max(shard.pass, Ordering::Relaxed);
        let end = batches.end.min(shard.batches);
        (self.batches, self.direction) = (batches.start.min(end)..end, direction);
        (self.shard, self.loaded) = (shard, false);
        Ok(())
    }

    /// Begins a data shard like [`ShardReader::begin`], but with inline records instead of files. The sender may know
    /// more files than the options name: a pattern in the options may match no file on this machine.
    ///
    /// # Errors
    /// [`Error::Shard`] if the data shard or the inline records are inconsistent. A wanted column is missing in a file.
    pub fn begin_inline(
        &mut self,
        shard: DataShard,
        inline_records: InlineRecords,
        batches: Range<u32>,
        direction: Direction,
    ) -> Result<(), Error> {
        let files = shard
            .ranges
            .iter()
            .map(|range| range.file as usize + 1)
            .max()
            .unwrap_or(0);
        if files > FILES_MAX {
            return Err(shard.error(format!(
                "it names {files} files, of which there are at most {FILES_MAX}"
            )));
        }
        self.fetcher.name_files(files);
        self.parser_of
            .resize(self.fetcher.options().files.len(), None);
        self.begin(shard, 0..0, direction)?;
        if let Some(flaw) = inline_records.flaw(self.shard.rows) {
            return Err(self.shard.error(flaw));
        }
        for header in &inline_records.headers {
            if let Some(place @ None) = self.parser_of.get_mut(header.file as usize) {
                let options = self.fetcher.options();
                let columns = Some(header.columns.as_slice());
                *place = Some(parser_for(
                    &mut self.parsers,
                    options,
                    &self.schema,
                    header.file,
                    columns,
                )?);
            }
        }
        self.records.set_inline(inline_records);
        self.prepare()?;
        let end = batches.end.min(self.shard.batches);
        self.batches = batches.start.min(end)..end;
        Ok(())
    }

    /// Reads the next batch into `batch`, whose content is replaced and whose memory is reused. Returns `false` at the
    /// end of the data shard. The batch number of its position counts over all passes, and the shard is 0. A batch has
    /// no row if all its rows are bad.
    ///
    /// # Errors
    /// A file cannot be read, or has changed since it was indexed; or a record is bad and the options do not skip bad
    /// records. No batch of the data shard follows an error.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        let next = match self.direction {
            Direction::Forward => self.batches.next(),
            Direction::Backward => self.batches.next_back(),
        };
        let Some(nth) = next else { return Ok(false) };
        let outcome = self.load().and_then(|()| self.read_batch(nth, batch));
        if outcome.is_err() {
            self.batches = 0..0;
        }
        outcome.map(|()| true)
    }

    fn load(&mut self) -> Result<(), Error> {
        if !self.loaded {
            self.fetcher
                .load(&self.shard, SHARD_BYTES_MAX, &mut self.records)?;
            self.prepare()?;
        }
        Ok(())
    }

    /// Finds the parsers of the records, and the order in which they are read.
    fn prepare(&mut self) -> Result<(), Error> {
        self.entries.clear();
        for range in &self.shard.ranges {
            let place = &mut self.parser_of[range.file as usize];
            let parser = match *place {
                Some(parser) => parser,
                None => {
                    let options = self.fetcher.options();
                    let columns = self.fetcher.columns(range.file);
                    if names_columns(options) && columns.is_none() {
                        let reason = format!(
                            "its inline records do not name the columns of file {}",
                            range.file
                        );
                        return Err(self.shard.error(reason));
                    }
                    let parser = parser_for(
                        &mut self.parsers,
                        options,
                        &self.schema,
                        range.file,
                        columns,
                    )?;
                    *place.insert(parser)
                }
            };
            let entry = Entry {
                file: range.file,
                parser,
            };
            self.entries
                .extend(std::iter::repeat_n(entry, range.rows as usize));
        }
        self.shard.order(&mut self.order);
        self.loaded = true;
        Ok(())
    }

    fn read_batch(&mut self, nth: u32, batch: &mut Batch) -> Result<(), Error> {
        let position = Position {
            pass: self.shard.pass,
            shard: 0,
            batch: self.shard.batch(nth),
        };
        let rows = self.shard.rows_of(nth);
        let rows = rows.start as usize..rows.end as usize;
        clear(batch, &self.schema, rows.len(), position);
        let mut bytes = 0;
        for row in rows {
            let nth = self.order[row] as usize;
            let Entry { file, parser } = self.entries[nth];
            let record = self.records.record(nth, file, position.pass);
            let length = record.content.len() as u64;
            bytes += length;
            if bytes > BATCH_BYTES_MAX {
                return Err(Error::Batch {
                    rows: batch.rows,
                    bytes,
                    most: BATCH_BYTES_MAX,
                });
            }
            self.statistics
                .bytes_read
                .fetch_add(length, Ordering::Relaxed);
            let read = self.statistics.rows_read.fetch_add(1, Ordering::Relaxed) + 1;
            let parser = &mut self.parsers[parser as usize].1;
            if let Err(bad) = parser.append(record, &self.schema, batch) {
                let options = self.fetcher.options();
                let row = bad_row(options, &self.schema, record.place, bad);
                if options.bad_rows == BadRows::Fail {
                    return Err(Error::Row(Box::new(row)));
                }
                if self.dead_letter.add(row, &record.content.bytes(), read)? {
                    self.statistics.rows_skipped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Logs after the first pass which wanted features no record held, if records name their features.
    fn warn_unseen(&self) {
        for feature in self
            .parsers
            .iter()
            .filter(|_| self.shard.pass == 0)
            .flat_map(|(_, parser)| parser.unseen())
        {
            tracing::warn!(
                feature,
                "no record that was read here holds the feature: it counts as missing"
            );
        }
    }
}

/// Returns the place of the parser for a file with these columns. Adds a parser if there is none.
fn parser_for(
    parsers: &mut Vec<(Vec<String>, Parser)>,
    options: &Options,
    schema: &Schema,
    file: u32,
    columns: Option<&[String]>,
) -> Result<u32, Error> {
    let named = columns.unwrap_or_default();
    if let Some(place) = parsers.iter().position(|(columns, _)| columns == named) {
        return Ok(place as u32);
    }
    let parser = Parser::new(options, schema, file as usize, columns)?;
    parsers.push((named.to_vec(), parser));
    Ok(parsers.len() as u32 - 1)
}
