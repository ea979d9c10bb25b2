//! When a push takes effect.

/// How the pushes of several tasks become updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Update {
    /// Each push is an update of its own, as soon as it comes.
    #[default]
    Async,
    /// The same, but nobody begins a step while it is more than so many ahead of the slowest live task.
    StaleSynchronous {
        /// Steps between the fastest and the slowest, at most; 0 = all keep step.
        staleness_max: u64,
    },
    /// The pushes of one step are one update: their mean (`tf.compat.v1.train.SyncReplicasOptimizer`).
    Sync,
}

/// What a synchronous push is to its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    /// Place in the step, below `of`; parts are summed in this order.
    pub slot: u32,
    /// Parts of the step, at least 1.
    pub of: u32,
}
