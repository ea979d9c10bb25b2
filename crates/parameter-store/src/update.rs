//! Update modes: when a push takes effect.

/// The way in which the pushes of several tasks become updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Update {
    /// Each push is an update of its own, applied when it arrives.
    #[default]
    Async,
    /// As `Async`, but no task begins a step while it is further ahead of the slowest live task than the bound.
    StaleSynchronous {
        /// Most steps between the fastest task and the slowest; 0 = all keep step.
        staleness_max: u64,
    },
    /// The pushes of one step are one update: their mean (`tf.compat.v1.train.SyncReplicasOptimizer`).
    Sync,
}

/// The contribution of one push to a synchronous step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MicroBatch {
    /// Lane, below `lanes`. Micro-batches are summed in the order of the lanes.
    pub lane: u32,
    /// Number of lanes, at least 1.
    pub lanes: u32,
}
