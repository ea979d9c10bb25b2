//! What waits to be written to a log.

use crate::{EarlierSegments, Entry, Origin};

/// An item that waits to be written.
#[derive(Debug)]
pub(crate) enum Item {
    Record(Entry),
    /// A new segment.
    Segment {
        origin: Origin,
        number: u64,
        earlier: EarlierSegments,
    },
}
