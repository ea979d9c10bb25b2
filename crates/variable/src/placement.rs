//! Which parameter server holds a slice.

use serde::{Deserialize, Serialize};

/// A rule that places slices on parameter servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In turn (`tf.compat.v1.train.replica_device_setter`).
    RoundRobin,
    /// On the server with the fewest bytes so far, the lowest index on ties (`GreedyLoadBalancingStrategy`).
    #[default]
    Greedy,
}
