//! The bytes that a store holds, and how many it may.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a store holds, by what they are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Variables and their slots, but for dynamic tables.
    pub slices: u64,
    /// Dynamic tables: rows, slots, and the order of their ids.
    pub tables: u64,
    /// Rows as they were at the instant of a checkpoint that is being written.
    pub set_aside: u64,
    /// Dynamic tables as they were at that instant.
    pub copies: u64,
    /// Parts of a synchronous step whose other parts are missing.
    pub parts: u64,
}

impl Held {
    /// Returns all of it.
    pub fn total(&self) -> u64 {
        self.kinds().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns each kind by the name that telemetry has for it.
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

/// What is counted by itself, and the bound of all.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `u64::MAX` = none.
    max: AtomicU64,
    /// What the process may have; `u64::MAX` = nobody has said.
    machine: AtomicU64,
    pub(crate) slices: AtomicU64,
    pub(crate) parts: AtomicU64,
    pub(crate) copies: Arc<AtomicU64>,
}

impl Default for Memory {
    fn default() -> Self {
        let slices = AtomicU64::new(0);
        let parts = AtomicU64::new(0);
        let [max, machine] = [u64::MAX; 2].map(AtomicU64::new);
        Self {
            max,
            machine,
            slices,
            parts,
            copies: Arc::default(),
        }
    }
}

impl Memory {
    pub(crate) fn bound(&self, max: Option<u64>) {
        self.max.store(max.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn know_machine(&self, bytes: Option<u64>) {
        self.machine
            .store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns what the process may have, if that is known.
    pub(crate) fn machine(&self) -> Option<u64> {
        Some(self.machine.load(Ordering::Relaxed)).filter(|bytes| *bytes < u64::MAX)
    }

    /// Returns the bound, if there is one.
    pub(crate) fn max(&self) -> Option<u64> {
        Some(self.max.load(Ordering::Relaxed)).filter(|max| *max < u64::MAX)
    }
}

/// Bytes that are held as long as this is.
#[derive(Debug)]
pub(crate) struct Loan {
    bytes: u64,
    of: Arc<AtomicU64>,
}

impl Loan {
    pub(crate) fn new(bytes: u64, of: &Arc<AtomicU64>) -> Self {
        of.fetch_add(bytes, Ordering::Relaxed);
        Self {
            bytes,
            of: Arc::clone(of),
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Asks for room for so many values, which take memory as they come. It is not given where the system promises no more than it
/// has (`vm.overcommit_memory = 2`): the buffer grows as others do then.
pub(crate) fn reserve<T>(buffer: &mut Vec<T>, most: usize) {
    // Nothing else was to be done.
    let _ = buffer.try_reserve_exact(most.saturating_sub(buffer.len()));
}

/// Makes a buffer longer, by half of itself at least and to `most` values at most, so that a full table takes no more
/// memory than its rows.
pub(crate) fn grow(buffer: &mut Vec<f32>, length: usize, most: usize) {
    if buffer.capacity() < length {
        let wanted = (buffer.len() + buffer.len() / 2)
            .max(length)
            .min(most.max(length));
        buffer.reserve_exact(wanted - buffer.len());
    }
    buffer.resize(length, 0.0);
}
