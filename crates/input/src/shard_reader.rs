//! Shard reader: reads the batches of data shards, from files or from inline records.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::batch_reader::{BatchReader, Current, Frame, RecordOrder, Statistics};
use crate::parser::Parser;
use crate::record::{Content, Place, Record};
use crate::record_fetcher::RecordFetcher;
use crate::record_reader::names_columns;
use crate::{Batch, DataShard, Error, InlineRecords, Options, Position, Schema};

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
    reader: BatchReader<ShardOrder>,
}

/// The order of data shards: the records of each in a permutation, cut into batches.
#[derive(Debug)]
struct ShardOrder {
    schema: Schema,
    fetcher: RecordFetcher,
    shard: DataShard,
    /// Remaining batches, and the end from which they are read.
    batches: Range<u32>,
    direction: Direction,
    /// True if `records` holds the shard's records.
    loaded: bool,
    records: InlineRecords,
    entries: Vec<Entry>,
    order: Vec<u32>,
    /// Parsers by columns. Files with the same columns share a parser.
    parsers: Vec<(Vec<String>, Parser)>,
    parser_of: Vec<Option<u32>>,
    /// Records of the batch that are left, and the current record, as places in `order`.
    rows: Range<usize>,
    row: usize,
    statistics: Arc<Statistics>,
}

/// Offset of a record in the bytes, its file and its parser.
#[derive(Debug, Clone, Copy)]
struct Entry {
    begin: usize,
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
        reader.reader.order.check_files()?;
        Ok(reader)
    }

    /// Returns a reader for inline records. It opens files only for data shards that begin without inline records.
    pub fn new(options: Options, schema: Schema) -> Self {
        let statistics = Arc::<Statistics>::default();
        let order = ShardOrder {
            schema: schema.clone(),
            shard: DataShard::default(),
            batches: 0..0,
            direction: Direction::Forward,
            loaded: false,
            records: InlineRecords::default(),
            entries: Vec::new(),
            order: Vec::new(),
            parsers: Vec::new(),
            parser_of: vec![None; options.files.len()],
            rows: 0..0,
            row: 0,
            statistics: Arc::clone(&statistics),
            fetcher: RecordFetcher::new(options.clone()).with_schema(schema.clone()),
        };
        Self {
            reader: BatchReader::new(order, &options, schema, statistics),
        }
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Arc<Statistics> {
        self.reader.statistics()
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
        self.reader.order.begin(shard, batches, direction)
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
        let order = &mut self.reader.order;
        order.begin_inline(shard, inline_records, direction)?;
        order.select(batches);
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
        let outcome = self.reader.read(batch);
        if outcome.is_err() {
            self.reader.order.select(0..0);
        }
        outcome
    }
}

impl ShardOrder {
    /// Opens every file once, and finds its parser.
    fn check_files(&mut self) -> Result<(), Error> {
        let Self {
            fetcher,
            parsers,
            schema,
            parser_of,
            ..
        } = self;
        let options = fetcher.options().clone();
        fetcher.check(|file, columns| {
            let parser = parser_for(parsers, &options, schema, file, columns)?;
            parser_of[file as usize] = Some(parser);
            Ok(())
        })
    }

    fn begin(
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
        self.shard = shard;
        self.loaded = false;
        self.direction = direction;
        self.select(batches);
        Ok(())
    }

    /// Selects batches by their number in the data shard.
    fn select(&mut self, batches: Range<u32>) {
        let end = batches.end.min(self.shard.batches);
        self.batches = batches.start.min(end)..end;
    }

    /// Begins a data shard with its records, and selects no batch.
    fn begin_inline(
        &mut self,
        shard: DataShard,
        inline_records: InlineRecords,
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
        self.records = inline_records;
        self.prepare()
    }

    fn load(&mut self) -> Result<(), Error> {
        if !self.loaded {
            self.fetcher
                .load(&self.shard, SHARD_BYTES_MAX, &mut self.records)?;
            self.prepare()?;
        }
        Ok(())
    }

    /// Finds the places and the parsers of the records, and the order in which they are read.
    fn prepare(&mut self) -> Result<(), Error> {
        self.entries.clear();
        let mut lengths = self.records.lengths.iter();
        let mut begin = 0;
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
            for length in lengths.by_ref().take(range.rows as usize) {
                self.entries.push(Entry {
                    begin,
                    file: range.file,
                    parser,
                });
                begin += *length as usize;
            }
        }
        self.shard.order(&mut self.order);
        self.loaded = true;
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

impl RecordOrder for ShardOrder {
    fn begin_batch(&mut self) -> Result<Option<Frame>, Error> {
        let next = match self.direction {
            Direction::Forward => self.batches.next(),
            Direction::Backward => self.batches.next_back(),
        };
        let Some(nth) = next else { return Ok(None) };
        self.load()?;
        let rows = self.shard.rows_of(nth);
        // The rows of a data shard are counted in 32 bits.
        self.rows = rows.start as usize..rows.end as usize;
        Ok(Some(Frame {
            position: Position {
                pass: self.shard.pass,
                shard: 0,
                batch: self.shard.batch(nth),
            },
            rows: self.rows.len(),
        }))
    }

    fn advance(&mut self) -> Result<bool, Error> {
        match self.rows.next() {
            Some(row) => {
                self.row = row;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn current(&mut self) -> Option<Current<'_>> {
        let nth = *self.order.get(self.row)? as usize;
        let Entry {
            begin,
            file,
            parser,
        } = *self.entries.get(nth)?;
        let records = &self.records;
        let length = records.lengths[nth] as usize;
        let record = Record {
            content: Content::Bytes(&records.bytes[begin..begin + length]),
            place: Place {
                file: file as usize,
                line: records.lines[nth],
                offset: records.offsets[nth],
                pass: self.shard.pass,
            },
            // A data shard has fewer than 2^32 rows.
            fault: records.fault(nth as u32),
        };
        Some(Current {
            record,
            parser: &mut self.parsers.get_mut(parser as usize)?.1,
            options: self.fetcher.options(),
        })
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
