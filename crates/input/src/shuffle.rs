//! The shuffle buffer: a reservoir from which a random record is drawn and replaced (`tf.data.Dataset.shuffle`).

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::record::{Content, Place, Record};

/// A buffer of at most `capacity` records. Each record is copied once, into reused memory.
#[derive(Debug)]
pub(crate) struct Shuffle {
    capacity: usize,
    /// The first `held` slots are in the buffer. The slot after them was drawn last.
    slots: Vec<Slot>,
    held: usize,
    random: ChaCha8Rng,
}

/// A record that the buffer owns.
#[derive(Debug, Default)]
struct Slot {
    bytes: Vec<u8>,
    place: Place,
    fault: Option<String>,
}

impl Shuffle {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            slots: Vec::new(),
            held: 0,
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
        record.content.append_to(&mut slot.bytes);
        slot.place = record.place;
        slot.fault = record.fault.map(str::to_owned);
        self.held += 1;
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
        Some(Record {
            content: Content::Bytes(&slot.bytes),
            place: slot.place,
            fault: slot.fault.as_deref(),
        })
    }
}
