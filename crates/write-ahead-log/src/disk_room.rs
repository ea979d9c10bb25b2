//! The room of the disk on which a log lies, and what must be left of it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One in so many bytes of the disk, and no more than these bytes, are kept for the log at a checkpoint.
const RESERVE_DIVISOR: u64 = 4;
const RESERVE_BYTES_MAX: u64 = 64 << 20;

/// The room of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskRoom {
    /// Size of the disk in bytes.
    size: u64,
    /// Bytes that are free.
    free: u64,
}

impl DiskRoom {
    /// Returns the room of the disk of a folder; `None` if it is unknown.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let space = rustix::fs::statvfs(folder).ok()?;
        Some(Self {
            size: space.f_blocks.saturating_mul(space.f_frsize),
            free: space.f_bavail.saturating_mul(space.f_frsize),
        })
    }

    /// Returns whether there is less room than a file of `bytes` bytes and what is kept for the log at a checkpoint: the head of
    /// the segment from which the log goes on, and the pushes that are in progress.
    pub(crate) fn is_short_for(self, bytes: u64) -> bool {
        self.free < bytes + (self.size / RESERVE_DIVISOR).min(RESERVE_BYTES_MAX)
    }

    /// Returns whether a log with `log_bytes` bytes on this disk would, with `next` bytes more, take room that the next checkpoint
    /// needs, `checkpoint_bytes` bytes on the same disk.
    pub(crate) fn is_taken_from_checkpoint(
        self,
        next: u64,
        checkpoint_bytes: u64,
        log_bytes: u64,
    ) -> bool {
        self.lacking_for_checkpoint(next, checkpoint_bytes, log_bytes) > 0
    }

    /// Returns the bytes that the next checkpoint, of `checkpoint_bytes` bytes on this disk, would lack if a log with `log_bytes`
    /// bytes here took `next` bytes more. A checkpoint that would not fit without the log either is no reason for the log to wait: 0.
    pub(crate) fn lacking_for_checkpoint(
        self,
        next: u64,
        checkpoint_bytes: u64,
        log_bytes: u64,
    ) -> u64 {
        if checkpoint_bytes == 0 || self.free.saturating_add(log_bytes) < checkpoint_bytes {
            return 0;
        }
        checkpoint_bytes
            .saturating_add(next)
            .saturating_sub(self.free)
    }
}

/// The room that the next checkpoint needs on the disk of a log.
#[derive(Debug, Default)]
pub(crate) struct CheckpointRoom {
    /// Bytes; 0 = it lies elsewhere.
    bytes: AtomicU64,
    has_grown: AtomicBool,
}

impl CheckpointRoom {
    pub(crate) fn set(&self, bytes: u64) {
        if self.bytes.swap(bytes, Ordering::Relaxed) < bytes {
            self.has_grown.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns whether it has grown since the last call.
    pub(crate) fn has_grown(&self) -> bool {
        self.has_grown.load(Ordering::Relaxed) && self.has_grown.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn room(free: u64) -> DiskRoom {
        DiskRoom {
            size: 1000 * MB,
            free,
        }
    }

    #[test]
    fn a_log_leaves_a_part_of_its_disk_for_the_time_of_a_checkpoint() {
        assert!(!room(72 * MB).is_short_for(8 * MB));
        assert!(room(72 * MB - 1).is_short_for(8 * MB));
        let small = DiskRoom {
            size: 40 * MB,
            free: 18 * MB,
        };
        assert!(!small.is_short_for(8 * MB));
        assert!(small.is_short_for(8 * MB + 1));
    }

    #[test]
    fn a_log_waits_before_it_takes_what_the_checkpoint_beside_it_needs() {
        for (free, log, waits) in [
            (308, 500, false),
            (307, 500, true),
            (0, 500, true),
            // The log has not gone to the disk yet, and would.
            (307, 0, true),
            // The checkpoint would not fit without the log.
            (299, 0, false),
            (100, 199, false),
            (100, 200, true),
        ] {
            let waiting = room(free * MB).is_taken_from_checkpoint(8 * MB, 300 * MB, log * MB);
            assert_eq!(waiting, waits, "{free} MB free, {log} MB of log");
        }
        assert!(!room(0).is_taken_from_checkpoint(8 * MB, 0, 500 * MB));
    }
}
