//! Update modes: when the gradients of several tasks take effect.

use serde::Serialize;

/// The way in which the pushes of several tasks become updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Update {
    /// Each push is an update of its own, applied when it arrives.
    #[default]
    Async,
    /// As `Async`, but no task begins a step while it is further ahead of the slowest live task than the bound (Ho et
    /// al., 2013).
    #[serde(rename = "ssp")]
    StaleSynchronous {
        /// Most steps between the fastest task and the slowest; 0 = all keep step.
        staleness_steps_max: u64,
    },
    /// The pushes of one step are one update: their mean (`tf.compat.v1.train.SyncReplicasOptimizer`).
    Sync,
}
