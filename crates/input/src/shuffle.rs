//! The shuffle buffer: a reservoir from which a random record is drawn and replaced (`tf.data.Dataset.shuffle`).

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::columnar::{RowPlace, RowPool};
use crate::record::{Content, Place, Record};

/// Fewest rows of columnar files at which rows that were drawn are removed from memory.
const POOL_ROWS_MIN: usize = 4096;

/// A buffer of at most `capacity` records. The bytes of each record are copied once, into reused memory.
#[derive(Debug)]
pub(crate) struct Shuffle {
    capacity: usize,
    /// The first `held` slots are in the buffer. The slot after them was drawn last.
    slots: Vec<Slot>,
    held: usize,
    /// The rows of columnar files that slots name, and some that were drawn.
    pool: RowPool,
    random: ChaCha8Rng,
}

/// A record that the buffer owns.
#[derive(Debug, Default)]
struct Slot {
    bytes: Vec<u8>,
    /// The row in the pool; absent = the record is `bytes`.
    row: Option<RowPlace>,
    place: Place,
    fault: Option<String>,
}

impl Shuffle {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            slots: Vec::new(),
            held: 0,
            pool: RowPool::default(),
            random: ChaCha8Rng::seed_from_u64(0),
        }
    }

    /// Starts the order of a pass. The order depends only on seed, pass and shard.
    pub(crate) fn start(&mut self, seed: u64, pass: u64, shard: u64) {
        self.random = ChaCha8Rng::seed_from_u64(seed);
        self.random
            .set_stream(pass.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(shard));
    }

    /// Returns whether shuffling is off, so that records need no buffer.
    pub(crate) fn is_off(&self) -> bool {
        self.capacity <= 1
    }

    pub(crate) fn is_full(&self) -> bool {
        self.held >= self.capacity
    }

    /// Copies a record into the buffer.
    pub(crate) fn put(&mut self, record: Record<'_>) {
        if self.held == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let slot = &mut self.slots[self.held];
        slot.bytes.clear();
        slot.row = None;
        match record.content {
            Content::Bytes(bytes) => slot.bytes.extend_from_slice(bytes),
            Content::Row(rows, row) => slot.row = Some(self.pool.push(rows, row)),
        }
        slot.place = record.place;
        slot.fault = record.fault.map(str::to_owned);
        self.held += 1;
        if self.pool.len() >= POOL_ROWS_MIN.max(2 * self.held) {
            self.drop_drawn_rows();
        }
    }

    /// Removes a random record. Returns `false` if the buffer is empty.
    pub(crate) fn draw(&mut self) -> bool {
        let Some(last) = self.held.checked_sub(1) else {
            return false;
        };
        let drawn = self.random.random_range(0..=last);
        self.slots.swap(drawn, last);
        self.held = last;
        true
    }

    /// Returns the record that was drawn last. It is valid until another is put into the buffer.
    pub(crate) fn drawn(&self) -> Option<Record<'_>> {
        let slot = self.slots.get(self.held)?;
        let content = match slot.row {
            None => Content::Bytes(&slot.bytes),
            Some(row) => {
                let (rows, row) = self.pool.get(row);
                Content::Row(rows, row)
            }
        };
        Some(Record {
            content,
            place: slot.place,
            fault: slot.fault.as_deref(),
        })
    }

    /// Copies the rows that slots name into a new pool. Each row is copied about once more while it is in the buffer.
    fn drop_drawn_rows(&mut self) {
        let mut pool = RowPool::default();
        for slot in &mut self.slots[..self.held] {
            if let Some(place) = &mut slot.row {
                let (rows, row) = self.pool.get(*place);
                *place = pool.push(rows, row);
            }
        }
        self.pool = pool;
    }
}
