//! Sharding: the division of records among workers.

use serde::Serialize;

/// Division of the records among the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharding {
    /// Every worker reads all records, each in its own order. A pass then covers the records once per worker.
    None,
    /// File `i` goes to worker `i mod n`.
    File,
    /// Record `i` goes to worker `i mod n` (`tf.data.Dataset.shard`).
    Row,
    /// The chief hands out data shards. A pass covers every record once, whatever the number, speed and failures of the
    /// workers. A reader that no chief leads divides nothing, as under `None`.
    Dynamic,
}

impl Sharding {
    /// Every sharding with its name in a job file.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("none", Self::None),
        ("file", Self::File),
        ("row", Self::Row),
        ("dynamic", Self::Dynamic),
    ];
}
