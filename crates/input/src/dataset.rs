//! Input pipeline of one worker under static sharding: an iterator over batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cells::{Bad, clear};
use crate::dead_letter::DeadLetter;
use crate::formats;
use crate::parser::Parser;
use crate::record::Place;
use crate::shuffle::Shuffle;
use crate::source::Source;
use crate::{BadRow, BadRows, Batch, Error, Options, Position, Schema, Sharding};

/// Most bytes of the records of a batch. Places of values are 32-bit numbers, and the decimal text of a whole number
/// may be three times as long as the number.
pub(crate) const BATCH_BYTES_MAX: u64 = 1 << 30;

/// Counters of an input, for telemetry.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Records of this shard that were parsed.
    pub rows_read: AtomicU64,
    /// Bad records that were skipped, each counted once.
    pub rows_skipped: AtomicU64,
    /// Bytes of the parsed records.
    pub bytes_read: AtomicU64,
    /// Passes finished.
    pub passes: AtomicU64,
}

/// Reader of batches. The same options give the same batches.
#[derive(Debug)]
pub struct Dataset {
    options: Options,
    schema: Schema,
    source: Source,
    shuffle: Shuffle,
    batch_number: u64,
    dead_letter: DeadLetter,
    statistics: Arc<Statistics>,
    ended: bool,
}

impl Dataset {
    /// Opens an input at its first batch, and checks that every file can be opened and holds the wanted columns.
    ///
    /// # Errors
    /// A file or a column is missing, or a number of the options is out of range.
    pub fn open(options: Options, schema: Schema) -> Result<Self, Error> {
        options.check()?;
        let source = Source::default();
        for file in 0..options.files.len() {
            Parser::open(&options, &source.storage, &schema, file, None)?;
        }
        Ok(Self {
            source,
            shuffle: Shuffle::new(options.shuffle_rows),
            batch_number: 0,
            dead_letter: DeadLetter::new(options.dead_letter.clone(), options.bad_rows_max),
            statistics: Arc::default(),
            ended: false,
            options,
            schema,
        })
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(&self.statistics)
    }

    /// Reads the next batch into `batch`, whose content is replaced and whose memory is reused. Returns `false` at the
    /// end of the input.
    ///
    /// # Errors
    /// A file cannot be read, or a record is bad and the options do not skip bad records. No batch follows an error.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        while !self.ended {
            let number = self.batch_number;
            match self.read_batch(batch) {
                Ok(true) if number < self.options.skip_batches => {}
                Ok(true) => return Ok(true),
                outcome => {
                    self.ended = true;
                    return outcome;
                }
            }
        }
        Ok(false)
    }

    fn read_batch(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        let position = Position {
            pass: 0,
            shard: self.options.shard_index as u64,
            batch: self.batch_number,
        };
        clear(batch, &self.schema, self.options.batch_size, position);
        let mut bytes = 0;
        while batch.rows < self.options.batch_size && self.append_next(batch, &mut bytes)? {
            if bytes > BATCH_BYTES_MAX {
                return Err(Error::Batch {
                    rows: batch.rows,
                    bytes,
                    most: BATCH_BYTES_MAX,
                });
            }
        }
        self.batch_number += 1;
        Ok(batch.rows
            >= if self.options.drop_remainder {
                self.options.batch_size
            } else {
                1
            })
    }

    /// Appends the next record of all passes to the batch, if the record is good. Returns `false` at the end of the
    /// input.
    fn append_next(&mut self, batch: &mut Batch, bytes: &mut u64) -> Result<bool, Error> {
        loop {
            let (record, parsers) = if self.shuffle.is_off() {
                if self.source.next(&self.options, &self.schema)? {
                    self.source.record()
                } else {
                    (None, [].as_mut_slice())
                }
            } else {
                while !self.shuffle.is_full() && self.source.next(&self.options, &self.schema)? {
                    self.source
                        .record()
                        .0
                        .into_iter()
                        .for_each(|record| self.shuffle.put(record));
                }
                (self.shuffle.draw(), self.source.parsers.as_mut_slice())
            };
            if let Some(record) = record {
                let Some(parser) = parsers.get_mut(record.place.file).and_then(Option::as_mut)
                else {
                    continue;
                };
                let length = record.content.len() as u64;
                *bytes += length;
                self.statistics
                    .bytes_read
                    .fetch_add(length, Ordering::Relaxed);
                let read = self.statistics.rows_read.fetch_add(1, Ordering::Relaxed) + 1;
                match parser.append(record, &self.schema, batch) {
                    Ok(()) if batch.rows == 1 => batch.position.pass = record.place.pass,
                    Ok(()) => {}
                    Err(bad) => {
                        let row = bad_row(&self.options, &self.schema, record.place, bad);
                        if self.options.bad_rows == BadRows::Fail {
                            return Err(Error::Row(Box::new(row)));
                        }
                        if self.dead_letter.add(row, &record.content.bytes(), read)? {
                            self.statistics.rows_skipped.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                return Ok(true);
            }
            if !self.next_pass()? {
                return Ok(false);
            }
        }
    }

    /// Starts the next pass. Returns `false` after the last pass.
    fn next_pass(&mut self) -> Result<bool, Error> {
        if self.source.started {
            if self.source.records == 0 {
                return match self.options.sharding {
                    // Other shards may hold all records.
                    Sharding::File | Sharding::Row if self.options.shard_count > 1 => Ok(false),
                    _ => Err(Error::Empty {
                        files: self.options.files.clone(),
                    }),
                };
            }
            if self.source.pass == 0 {
                for feature in self.source.unseen() {
                    tracing::warn!(
                        feature,
                        "no record of this shard holds the feature: it counts as missing"
                    );
                }
            }
            self.source.pass += 1;
            self.statistics
                .passes
                .store(self.source.pass, Ordering::Relaxed);
        }
        if self
            .options
            .epochs
            .is_some_and(|epochs| self.source.pass >= epochs)
        {
            return Ok(false);
        }
        self.source.start(&self.options);
        self.shuffle.start(
            self.options.seed,
            self.source.pass,
            self.options.shard_index as u64,
        );
        Ok(true)
    }
}

impl Iterator for Dataset {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Batch::default();
        match self.read(&mut batch) {
            Ok(true) => Some(Ok(batch)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Returns a bad record with the names of its file and column.
pub(crate) fn bad_row(
    options: &Options,
    schema: &Schema,
    place: Place,
    (column, reason): Bad,
) -> BadRow {
    BadRow {
        file: options
            .files
            .get(place.file)
            .cloned()
            .unwrap_or_else(PathBuf::new),
        unit: formats::format(options.format).unit(),
        line: place.line,
        offset: place.offset,
        column: column.map(|position| schema.fields[position].name.clone()),
        reason,
    }
}
