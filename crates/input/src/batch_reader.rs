//! Reader of batches: records become rows of a batch, in the order that a [`RecordOrder`] gives them.
//!
//! Static and dynamic sharding differ in the order alone. Parsing, bad rows, limits and counters are here, once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cells::{Bad, clear};
use crate::dead_letter::DeadLetter;
use crate::formats;
use crate::parser::Parser;
use crate::record::{Place, Record};
use crate::{BadRow, BadRows, Batch, Error, Options, Position, Schema};

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

/// An order of records, divided into batches.
pub(crate) trait RecordOrder {
    /// Begins the next batch. Returns nothing at the end.
    ///
    /// # Errors
    /// A file cannot be read.
    fn begin_batch(&mut self) -> Result<Option<Frame>, Error>;

    /// Moves to the next record. Returns `false` if the batch gets no other.
    ///
    /// # Errors
    /// A file cannot be read.
    fn advance(&mut self) -> Result<bool, Error>;

    /// Returns the record.
    fn current(&mut self) -> Option<Current<'_>>;
}

/// The record that is next, and how it is read.
#[derive(Debug)]
pub(crate) struct Current<'a> {
    pub(crate) record: Record<'a>,
    /// Parser of the record's file.
    pub(crate) parser: &'a mut Parser,
    /// Options with the names of all files.
    pub(crate) options: &'a Options,
}

/// Position and size of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) position: Position,
    /// Most rows. The batch is complete when it has so many good rows.
    pub(crate) rows: usize,
}

/// Reader of batches in an order.
#[derive(Debug)]
pub(crate) struct BatchReader<O> {
    pub(crate) order: O,
    schema: Schema,
    dead_letter: DeadLetter,
    statistics: Arc<Statistics>,
}

impl<O: RecordOrder> BatchReader<O> {
    pub(crate) fn new(
        order: O,
        options: &Options,
        schema: Schema,
        statistics: Arc<Statistics>,
    ) -> Self {
        Self {
            order,
            dead_letter: DeadLetter::new(options.dead_letter.clone(), options.bad_rows_max),
            statistics,
            schema,
        }
    }

    /// Returns the counters.
    pub(crate) fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(&self.statistics)
    }

    /// Reads the next batch into `batch`, whose content is replaced and whose memory is reused. Returns `false` at the
    /// end of the order.
    ///
    /// # Errors
    /// A file cannot be read, or a record is bad and the options do not skip bad records, or the batch is too large.
    pub(crate) fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        let Some(frame) = self.order.begin_batch()? else {
            return Ok(false);
        };
        clear(batch, &self.schema, frame.rows, frame.position);
        let mut bytes = 0;
        while batch.rows < frame.rows && self.order.advance()? {
            let Some(current) = self.order.current() else {
                continue;
            };
            let record = current.record;
            let length = record.content.len() as u64;
            bytes += length;
            self.statistics
                .bytes_read
                .fetch_add(length, Ordering::Relaxed);
            let read = self.statistics.rows_read.fetch_add(1, Ordering::Relaxed) + 1;
            match current.parser.append(record, &self.schema, batch) {
                Ok(()) if batch.rows == 1 => batch.position.pass = record.place.pass,
                Ok(()) => {}
                Err(bad) => {
                    let row = bad_row(current.options, &self.schema, record.place, bad);
                    if current.options.bad_rows == BadRows::Fail {
                        return Err(Error::Row(Box::new(row)));
                    }
                    if self.dead_letter.add(row, &record.content.bytes(), read)? {
                        self.statistics.rows_skipped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            if bytes > BATCH_BYTES_MAX {
                return Err(Error::Batch {
                    rows: batch.rows,
                    bytes,
                    most: BATCH_BYTES_MAX,
                });
            }
        }
        Ok(true)
    }
}

/// Returns a bad record with the names of its file and column.
pub(crate) fn bad_row(
    options: &Options,
    schema: &Schema,
    place: Place,
    (column, reason): Bad,
) -> BadRow {
    let file = options.files.get(place.file).cloned();
    BadRow {
        file: file.unwrap_or_else(PathBuf::new),
        unit: formats::format(options.format).unit(),
        line: place.line,
        offset: place.offset,
        column: column.map(|position| schema.fields[position].name.clone()),
        reason,
    }
}
