//! A write-ahead log: changes in segmented files, written before they are acknowledged.
//!
//! A record is a kind, a number and bytes; the log does not interpret them. One thread at a time writes the records
//! that all threads have queued, in the order of the queue. A killed process can therefore tear only the end of the
//! last file. Reading does not depend on files: a [`Reader`] accepts any bytes, however damaged.

mod durability;
mod error;
mod folder;
mod log;
mod page_cache;
mod reader;
mod record;
mod segment;
mod writer;

pub use durability::Durability;
pub use error::Error;
pub use folder::{Folder, SegmentFile};
pub use log::Log;
pub use page_cache::ReadAhead;
pub use reader::{Bad, Fault, Next, Reader};
pub use record::{BODY_BYTES_MAX, Entry, Record};
pub use segment::{EarlierSegments, Origin, SEGMENT_HEADER_BYTES, SegmentHeader, boot};
