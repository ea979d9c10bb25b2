//! The pipeline of one worker: an iterator over batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::dead_letter::DeadLetter;
use crate::parser::{Bad, Parser, header};
use crate::record::{Record, RecordReader};
use crate::shuffle::Shuffle;
use crate::{BadRow, BadRows, Batch, Error, Options, Position, Schema, Sharding};

/// What an input has read so far, for telemetry.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Records of this shard that were parsed.
    pub rows_read: AtomicU64,
    /// Records left out as bad, each once.
    pub rows_skipped: AtomicU64,
    /// Bytes of the records parsed.
    pub bytes_read: AtomicU64,
    /// Passes finished.
    pub passes: AtomicU64,
}

/// Reads batches. The same options give the same batches.
#[derive(Debug)]
pub struct Dataset {
    options: Options,
    schema: Schema,
    source: Source,
    shuffle: Shuffle,
    record: Record,
    batch_number: u64,
    dead_letter: DeadLetter,
    statistics: Arc<Statistics>,
    failed: bool,
}

impl Dataset {
    /// Checks that every file can be opened and holds the wanted columns, and starts at the first batch.
    ///
    /// # Errors
    /// A file is missing, or a column is.
    pub fn open(options: Options, schema: Schema) -> Result<Self, Error> {
        for file in &options.files {
            open_file(&options, &schema, file)?;
        }
        Ok(Self {
            source: Source::default(),
            shuffle: Shuffle::new(options.shuffle_rows),
            record: Record::default(),
            batch_number: 0,
            dead_letter: DeadLetter::new(options.dead_letter.clone(), options.bad_rows_max),
            statistics: Arc::default(),
            failed: false,
            options,
            schema,
        })
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(&self.statistics)
    }

    /// Draws the next record of the endless or bounded stream of passes.
    fn draw(&mut self) -> Result<bool, Error> {
        loop {
            while !self.shuffle.is_full()
                && self.source.next(&self.options, &self.schema, &mut self.record)?
            {
                self.shuffle.put(&mut self.record);
            }
            if self.shuffle.draw(&mut self.record) {
                return Ok(true);
            }
            if !self.next_pass()? {
                return Ok(false);
            }
        }
    }

    /// Starts the next pass; `false` after the last.
    fn next_pass(&mut self) -> Result<bool, Error> {
        if self.source.started {
            if self.source.records == 0 {
                return match self.options.sharding {
                    // Another shard may hold them all.
                    Sharding::File | Sharding::Row if self.options.shard_count > 1 => Ok(false),
                    _ => Err(Error::Empty { files: self.options.files.clone() }),
                };
            }
            self.source.pass += 1;
            self.statistics.passes.store(self.source.pass, Ordering::Relaxed);
        }
        if self.options.epochs.is_some_and(|epochs| self.source.pass >= epochs) {
            return Ok(false);
        }
        self.source.start(&self.options);
        self.shuffle.start(self.options.seed, self.source.pass, self.options.shard_index as u64);
        Ok(true)
    }

    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        let position = Position { pass: 0, shard: self.options.shard_index as u64, batch: self.batch_number };
        let mut batch = Parser::empty(&self.schema, position, self.options.batch_size);
        while batch.rows < self.options.batch_size && self.draw()? {
            let Some(parser) = self.source.parsers.get_mut(self.record.file).and_then(Option::as_mut) else {
                continue;
            };
            self.statistics.bytes_read.fetch_add(self.record.bytes.len() as u64, Ordering::Relaxed);
            let read = self.statistics.rows_read.fetch_add(1, Ordering::Relaxed) + 1;
            match parser.append(&self.record.bytes, &mut batch) {
                Ok(()) if batch.rows == 1 => batch.position.pass = self.record.pass,
                Ok(()) => {}
                Err(bad) => {
                    let row = bad_row(&self.options, &self.schema, &self.record, bad);
                    if self.options.bad_rows == BadRows::Fail {
                        return Err(Error::Row(Box::new(row)));
                    }
                    if self.dead_letter.add(row, &self.record.bytes, read)? {
                        self.statistics.rows_skipped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        self.batch_number += 1;
        Ok((batch.rows > 0).then_some(batch))
    }
}

impl Iterator for Dataset {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            match self.next_batch() {
                Ok(Some(batch)) if batch.position.batch < self.options.skip_batches => {}
                Ok(batch) => return batch.map(Ok),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Where reading stands: pass, file, record.
#[derive(Debug, Default)]
struct Source {
    started: bool,
    pass: u64,
    order: Vec<usize>,
    next_file: usize,
    reader: Option<(usize, RecordReader)>,
    parsers: Vec<Option<Parser>>,
    /// Records seen in this pass, of all shards.
    index: u64,
    /// Records of this shard in all passes.
    records: u64,
}

impl Source {
    fn start(&mut self, options: &Options) {
        let files = 0..options.files.len();
        self.order = match options.sharding {
            Sharding::File => {
                files.filter(|file| file % options.shard_count == options.shard_index).collect()
            }
            Sharding::None | Sharding::Row => files.collect(),
        };
        if options.sharding == Sharding::None && options.shuffle_rows > 0 {
            let mut random = ChaCha8Rng::seed_from_u64(options.seed ^ 0xf11e);
            random.set_stream(
                self.pass.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(options.shard_index as u64),
            );
            self.order.shuffle(&mut random);
        }
        (self.started, self.next_file, self.reader, self.index) = (true, 0, None, 0);
        self.parsers.resize_with(options.files.len(), || None);
    }

    /// Reads the next record of this shard; `false` at the end of the pass, and before the first.
    fn next(&mut self, options: &Options, schema: &Schema, record: &mut Record) -> Result<bool, Error> {
        loop {
            let Some((file, reader)) = &mut self.reader else {
                let Some(&file) = self.order.get(self.next_file) else { return Ok(false) };
                self.next_file += 1;
                let (reader, parser) = open_file(options, schema, &options.files[file])?;
                self.parsers[file] = Some(parser);
                self.reader = Some((file, reader));
                continue;
            };
            if !reader.next(&options.files[*file], record)? {
                self.reader = None;
                continue;
            }
            let mine = options.sharding != Sharding::Row
                || self.index % options.shard_count as u64 == options.shard_index as u64;
            self.index += 1;
            if mine {
                (record.file, record.pass) = (*file, self.pass);
                self.records += 1;
                return Ok(true);
            }
        }
    }
}

/// Opens a file past its header, and the parser for its columns.
fn open_file(options: &Options, schema: &Schema, file: &Path) -> Result<(RecordReader, Parser), Error> {
    let mut reader = RecordReader::open(file, options.format)?;
    let columns = match &options.columns {
        Some(columns) => columns.clone(),
        None => {
            let mut record = Record::default();
            match reader.next(file, &mut record)? {
                true => header(&record.bytes, options.format, options.trim),
                false => return Err(Error::Empty { files: vec![file.to_owned()] }),
            }
        }
    };
    let parser = Parser::new(schema, &columns, options.format, options.trim, &options.missing);
    let parser = parser.map_err(|column| Error::Column { column, file: file.to_owned(), known: columns })?;
    Ok((reader, parser))
}

fn bad_row(options: &Options, schema: &Schema, record: &Record, (column, reason): Bad) -> BadRow {
    BadRow {
        file: options.files.get(record.file).cloned().unwrap_or_else(PathBuf::new),
        line: record.line,
        offset: record.offset,
        column: column.map(|position| schema.fields[position].name.clone()),
        reason,
    }
}

/// Reads the first `rows` records of every file and returns everything that is wrong with them.
pub fn check(options: &Options, schema: &Schema, rows: usize) -> Vec<Error> {
    let mut problems = Vec::new();
    for (file, path) in options.files.iter().enumerate() {
        let (mut reader, mut parser) = match open_file(options, schema, path) {
            Ok(opened) => opened,
            Err(error) => {
                problems.push(error);
                continue;
            }
        };
        let mut record = Record { file, ..Record::default() };
        for row in 0..rows {
            match reader.next(path, &mut record) {
                Ok(true) => {
                    let mut batch = Parser::empty(schema, Position::default(), 1);
                    if let Err(bad) = parser.append(&record.bytes, &mut batch) {
                        problems.push(Error::Row(Box::new(bad_row(options, schema, &record, bad))));
                    }
                }
                Ok(false) => {
                    if row == 0 {
                        problems.push(Error::Empty { files: vec![path.clone()] });
                    }
                    break;
                }
                Err(error) => {
                    problems.push(error);
                    break;
                }
            }
        }
    }
    problems
}
