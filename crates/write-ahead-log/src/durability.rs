//! Durability modes: which failures a pushed gradient survives.

use serde::Serialize;

/// Condition for the acknowledgement of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The change is applied in memory, and there is no log. If a server dies, the job returns to the latest checkpoint.
    None,
    /// The record lies in memory that outlives the process (the default). It survives the death of any number of
    /// processes. If the machine restarts, the job returns to the latest checkpoint.
    #[default]
    SharedMemory,
    /// As `SharedMemory`, and the backup has the change. The backup is the next parameter server of the cluster, and
    /// replaces a dead primary. The change survives the machine and its disk. Needs at least two parameter servers.
    Replica,
}

impl Durability {
    /// Every durability with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("none", Self::None),
        ("shared_memory", Self::SharedMemory),
        ("replica", Self::Replica),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SharedMemory => "shared_memory",
            Self::Replica => "replica",
        }
    }
}
