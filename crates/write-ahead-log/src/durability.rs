//! Durability modes: when a change is committed, and when files are flushed. Pure decisions, without files or clocks.

use std::time::Duration;

/// Longest time between a write and its flush under [`Durability::Wal`].
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Condition for the acknowledgement of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// No condition: there is no log.
    None,
    /// The operating system has the record, so that it survives the process. A failure of the machine may lose the
    /// last 50 ms.
    #[default]
    Wal,
    /// The disk has the record.
    WalSync,
}

impl Durability {
    /// Returns the position up to which changes may be acknowledged. `written` and `flushed` are positions too.
    pub fn acknowledged(self, written: u64, flushed: u64) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Wal => written,
            Self::WalSync => flushed,
        }
    }

    /// Returns the longest time between a write and its flush.
    pub fn flush_after(self) -> Duration {
        match self {
            Self::None => Duration::MAX,
            Self::Wal => FLUSH_INTERVAL,
            Self::WalSync => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_mode_asks_for_is_acknowledged() {
        assert_eq!(Durability::Wal.acknowledged(7, 3), 7);
        assert_eq!(Durability::WalSync.acknowledged(7, 3), 3);
        assert_eq!(Durability::None.acknowledged(0, 0), u64::MAX);
    }

    #[test]
    fn the_default_survives_the_process() {
        assert_eq!(Durability::default(), Durability::Wal);
        assert!(Durability::default().flush_after() <= Duration::from_millis(50));
    }
}
