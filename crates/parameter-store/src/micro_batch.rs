//! The place of a push in a synchronous step.

/// The contribution of one push to a synchronous step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MicroBatch {
    /// Lane, below `lanes`. Micro-batches are summed in the order of the lanes.
    pub lane: u32,
    /// Number of lanes, at least 1.
    pub lanes: u32,
}
