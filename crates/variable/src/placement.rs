//! The placement of slices on parameter servers.

use serde::{Deserialize, Serialize};

/// A rule that places slices on parameter servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The servers take turns (`tf.compat.v1.train.replica_device_setter`).
    RoundRobin,
    /// The server with the fewest bytes so far, the lowest index on ties (`GreedyLoadBalancingStrategy`).
    #[default]
    Greedy,
}

impl Placement {
    /// Every rule with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] =
        [("greedy", Self::Greedy), ("round_robin", Self::RoundRobin)];
}
