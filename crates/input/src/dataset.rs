//! Input pipeline of one worker under static sharding: an iterator over batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::batch_reader::{BatchReader, Current, Frame, RecordOrder, Statistics};
use crate::parser::Parser;
use crate::shuffle::Shuffle;
use crate::source::Source;
use crate::{Batch, Error, Options, Position, Schema, Sharding};

/// Reader of batches. The same options give the same batches.
#[derive(Debug)]
pub struct Dataset {
    reader: BatchReader<StreamOrder>,
    skip_batches: u64,
    /// Fewest rows of a batch.
    rows_min: usize,
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
        let statistics = Arc::<Statistics>::default();
        let order = StreamOrder {
            source,
            shuffle: Shuffle::new(options.shuffle_rows),
            batch_number: 0,
            statistics: Arc::clone(&statistics),
            options: options.clone(),
            schema: schema.clone(),
        };
        Ok(Self {
            skip_batches: options.skip_batches,
            rows_min: if options.drop_remainder {
                options.batch_size
            } else {
                1
            },
            ended: false,
            reader: BatchReader::new(order, &options, schema, statistics),
        })
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Arc<Statistics> {
        self.reader.statistics()
    }

    /// Reads the next batch into `batch`, whose content is replaced and whose memory is reused. Returns `false` at the
    /// end of the input.
    ///
    /// # Errors
    /// A file cannot be read, or a record is bad and the options do not skip bad records. No batch follows an error.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        while !self.ended {
            let outcome = self.reader.read(batch);
            match outcome.map(|read| read && batch.rows >= self.rows_min) {
                Ok(true) if batch.position.batch < self.skip_batches => {}
                Ok(true) => return Ok(true),
                outcome => {
                    self.ended = true;
                    return outcome;
                }
            }
        }
        Ok(false)
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

/// The order of `tf.data`: files, interleaved, through a shuffle buffer, pass after pass. A batch may hold records of
/// two passes.
#[derive(Debug)]
struct StreamOrder {
    options: Options,
    schema: Schema,
    source: Source,
    shuffle: Shuffle,
    batch_number: u64,
    statistics: Arc<Statistics>,
}

impl StreamOrder {
    /// Moves to the next record of the pass. Returns `false` at its end, and before the first pass.
    fn advance_in_pass(&mut self) -> Result<bool, Error> {
        if self.shuffle.is_off() {
            return self.source.next(&self.options, &self.schema);
        }
        while !self.shuffle.is_full() && self.source.next(&self.options, &self.schema)? {
            if let Some(record) = self.source.record() {
                self.shuffle.put(record);
            }
        }
        Ok(self.shuffle.draw())
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
        let epochs = self.options.epochs;
        if epochs.is_some_and(|epochs| self.source.pass >= epochs) {
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

impl RecordOrder for StreamOrder {
    /// Begins a batch, which is empty at the end of the input.
    fn begin_batch(&mut self) -> Result<Option<Frame>, Error> {
        let position = Position {
            pass: 0,
            shard: self.options.shard_index as u64,
            batch: self.batch_number,
        };
        self.batch_number += 1;
        Ok(Some(Frame {
            position,
            rows: self.options.batch_size,
        }))
    }

    fn advance(&mut self) -> Result<bool, Error> {
        while !self.advance_in_pass()? {
            if !self.next_pass()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn current(&mut self) -> Option<Current<'_>> {
        let (read, parsers) = self.source.record_and_parsers();
        let record = if self.shuffle.is_off() {
            read
        } else {
            self.shuffle.drawn()
        }?;
        let parser = parsers.get_mut(record.place.file)?.as_mut()?;
        Some(Current {
            record,
            parser,
            options: &self.options,
        })
    }
}
