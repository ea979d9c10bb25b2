//! When a change counts as safe, and when files are flushed: decisions without a file or a clock.

use std::time::Duration;

/// Longest time that what was written waits to be flushed under [`Durability::Wal`].
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// What has to be over before a change is acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: there is no log.
    None,
    /// The system has the record, so that it survives the process. A failure of the machine may take the last 50 ms.
    #[default]
    Wal,
    /// The disk has the record.
    WalSync,
}

impl Durability {
    /// Returns up to where changes may be acknowledged, of what is written and what of it is flushed.
    pub fn acknowledged(self, written: u64, flushed: u64) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Wal => written,
            Self::WalSync => flushed,
        }
    }

    /// Returns how long what has been written may wait to be flushed.
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
