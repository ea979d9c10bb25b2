//! Durability modes: when a change is committed, and when files are flushed. Pure decisions, without files or clocks.

use std::time::Duration;

use serde::Serialize;

/// Longest time between a write and its flush under [`Durability::Wal`].
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Condition for the acknowledgement of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The change is applied in memory, and there is no log. If a server dies, the job returns to the latest checkpoint.
    None,
    /// The operating system has the record, so that it survives the process (the default). A failure of the machine may
    /// lose the last 50 ms.
    #[default]
    Wal,
    /// The disk has the record. The change survives a crash of the machine.
    WalSync,
    /// The operating system has the record, and the backup has the change. The backup is the next parameter server of
    /// the cluster, and replaces a dead primary. The change survives the machine and its disk. Needs at least two
    /// parameter servers. A log treats it as `Wal`; replication waits for the backup.
    Replica,
}

impl Durability {
    /// Every durability with its name in a job file.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("wal", Self::Wal),
        ("wal_sync", Self::WalSync),
        ("replica", Self::Replica),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Wal => "wal",
            Self::WalSync => "wal_sync",
            Self::Replica => "replica",
        }
    }

    /// Returns the position up to which changes may be acknowledged. `written` and `flushed` are positions too.
    pub fn acknowledged(self, written: u64, flushed: u64) -> u64 {
        match self {
            Self::None => u64::MAX,
            Self::Wal | Self::Replica => written,
            Self::WalSync => flushed,
        }
    }

    /// Returns the longest time between a write and its flush.
    pub(crate) fn flush_after(self) -> Duration {
        match self {
            Self::None => Duration::MAX,
            Self::Wal | Self::Replica => FLUSH_INTERVAL,
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
