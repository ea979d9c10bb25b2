//! The shuffle buffer: a reservoir from which a random record is drawn and replaced (`tf.data.Dataset.shuffle`).

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::record::Record;

/// A buffer of at most `capacity` records. Records are swapped in and out, so their memory is used again.
#[derive(Debug)]
pub(crate) struct Shuffle {
    capacity: usize,
    records: Vec<Record>,
    spare: Vec<Record>,
    random: ChaCha8Rng,
}

impl Shuffle {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, records: Vec::new(), spare: Vec::new(), random: ChaCha8Rng::seed_from_u64(0) }
    }

    /// Starts the order of a pass: it depends on seed, pass and shard alone.
    pub(crate) fn start(&mut self, seed: u64, pass: u64, shard: u64) {
        self.random = ChaCha8Rng::seed_from_u64(seed);
        self.random.set_stream(pass.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(shard));
    }

    pub(crate) fn is_full(&self) -> bool {
        self.records.len() >= self.capacity.max(1)
    }

    /// Takes `record` in and gives its caller other memory back.
    pub(crate) fn put(&mut self, record: &mut Record) {
        let spare = self.spare.pop().unwrap_or_default();
        self.records.push(std::mem::replace(record, spare));
    }

    /// Draws a record into `out`; `false` when the buffer is empty.
    pub(crate) fn draw(&mut self, out: &mut Record) -> bool {
        if self.records.is_empty() {
            return false;
        }
        let last = self.records.len() - 1;
        let drawn = if self.capacity <= 1 { last } else { self.random.random_range(0..=last) };
        let record = self.records.swap_remove(drawn);
        self.spare.push(std::mem::replace(out, record));
        true
    }
}
