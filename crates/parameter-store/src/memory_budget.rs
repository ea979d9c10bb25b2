//! Memory budget: the bytes that a store holds, and their bound.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::sync::Mutex;

/// Bytes that a store holds, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Variables and their slots, without dynamic tables.
    pub slices: u64,
    /// Dynamic tables: rows, slots, and the order of their ids.
    pub tables: u64,
    /// Copy-on-write copies for a checkpoint that is being written.
    pub set_aside: u64,
    /// Copies of dynamic tables that the checkpoint makes while it reads them.
    pub copies: u64,
    /// Micro-batches of an incomplete synchronous step.
    pub parts: u64,
}

impl Held {
    /// Returns the sum of all kinds.
    pub fn total(&self) -> u64 {
        self.kinds().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns each kind with its name in telemetry.
    pub fn kinds(&self) -> [(&'static str, u64); 5] {
        let Self {
            slices,
            tables,
            set_aside,
            copies,
            parts,
        } = *self;
        [
            ("variables", slices),
            ("dynamic_tables", tables),
            ("set_aside", set_aside),
            ("checkpoint_copies", copies),
            ("step_parts", parts),
        ]
    }
}

impl fmt::Display for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            slices,
            tables,
            set_aside,
            copies,
            parts,
        } = *self;
        write!(
            formatter,
            "{slices} of variables and slots, {tables} of dynamic tables"
        )?;
        let others = [
            (set_aside + copies, "of a checkpoint that is being written"),
            (parts, "of the parts of a synchronous step"),
        ];
        for (bytes, what) in others.into_iter().filter(|(bytes, _)| *bytes > 0) {
            write!(formatter, ", {bytes} {what}")?;
        }
        Ok(())
    }
}

/// The memory that the process of a store may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRoom {
    /// The limit in bytes. What is held from the beginning must fit it.
    pub limit: u64,
    /// The limit in words.
    pub of: Arc<str>,
    /// Bytes that may be taken in addition to those in use; absent = not measured.
    pub free: Option<u64>,
}

/// The bound of all bytes, and the counters that no slice keeps itself.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    /// Most bytes of the store; `u64::MAX` = no bound.
    max: AtomicU64,
    limit: Mutex<Option<MemoryRoom>>,
    /// Bytes that pushes may take before what they ask for is compared with what is held; they are counted down.
    clear: AtomicI64,
    pub(crate) slices: AtomicU64,
    pub(crate) parts: AtomicU64,
    pub(crate) copies: Arc<AtomicU64>,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        let slices = AtomicU64::new(0);
        let parts = AtomicU64::new(0);
        Self {
            max: AtomicU64::new(u64::MAX),
            limit: Mutex::new(None),
            clear: AtomicI64::new(i64::MAX),
            slices,
            parts,
            copies: Arc::default(),
        }
    }
}

impl MemoryBudget {
    pub(crate) fn bound(&self, max: Option<u64>) {
        self.max.store(max.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Sets what the process may use, as it was measured while the store held `held` bytes. Pushes leave `reserve` bytes of it to
    /// a checkpoint.
    pub(crate) fn set_room(&self, room: Option<MemoryRoom>, held: u64, reserve: u64) {
        let clear = match room.as_ref().and_then(|room| room.free) {
            // Half of it: the other half leaves time to compare.
            Some(free) => i64::try_from(free.saturating_sub(reserve) / 2).unwrap_or(i64::MAX),
            None => i64::MAX,
        };
        let room = room.map(|room| MemoryRoom {
            free: room.free.map(|free| free.saturating_add(held)),
            ..room
        });
        *self.limit.lock() = room;
        self.clear.store(clear, Ordering::Relaxed);
    }

    /// Returns what the process may use. Its `free` is the most that the store may hold.
    pub(crate) fn room(&self) -> Option<MemoryRoom> {
        self.limit.lock().clone()
    }

    /// Takes `asked` bytes of those that may be taken without a look at what is held. Returns whether there were as many.
    pub(crate) fn takes_clear(&self, asked: u64) -> bool {
        let asked = i64::try_from(asked).unwrap_or(i64::MAX);
        let before = self.clear.load(Ordering::Relaxed);
        if before == i64::MAX {
            return true;
        }
        self.clear
            .fetch_sub(asked.min(before.max(0)), Ordering::Relaxed)
            >= asked
    }

    /// Returns the bound, if there is one.
    pub(crate) fn max(&self) -> Option<u64> {
        Some(self.max.load(Ordering::Relaxed)).filter(|max| *max < u64::MAX)
    }
}

/// A count of held bytes that ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Reservation {
    pub(crate) fn new(bytes: u64, of: &Arc<AtomicU64>) -> Self {
        of.fetch_add(bytes, Ordering::Relaxed);
        Self {
            bytes,
            of: Arc::clone(of),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reserves memory for `most` values, which is used only as values arrive. Where the system does not overcommit
/// (`vm.overcommit_memory = 2`), the reservation may fail, and the buffer grows as usual.
pub(crate) fn reserve<T>(buffer: &mut Vec<T>, most: usize) {
    if buffer.capacity() >= most {
        return;
    }
    // A buffer that is reallocated is copied with all that it has reserved, and memory that is copied is in use.
    let mut larger = Vec::new();
    if larger.try_reserve_exact(most).is_ok() {
        larger.append(buffer);
        *buffer = larger;
    }
}

/// Extends a buffer to `length`. It allocates half of its length more at least, and `most` values at most, so that a
/// full table takes no more memory than its rows.
pub(crate) fn grow(buffer: &mut Vec<f32>, length: usize, most: usize) {
    if buffer.capacity() < length {
        let wanted = (buffer.len() + buffer.len() / 2)
            .max(length)
            .min(most.max(length));
        buffer.reserve_exact(wanted - buffer.len());
    }
    buffer.resize(length, 0.0);
}
