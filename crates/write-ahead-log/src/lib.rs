//! A log of changes in segmented files, written before the changes are acknowledged.
//!
//! It knows records, not what they say: a kind, a number and bytes. One thread at a time writes what all have queued,
//! in the order in which it was queued, so that a killed process can tear the very end of the last file and nothing
//! else. Reading is apart from files: any bytes may be given to a [`Reader`], however damaged.

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
pub use record::{BODY_BYTES_MAX, Entry, RECORD_HEADER_BYTES, Record};
pub use segment::{Origin, SEGMENT_HEADER_BYTES, SegmentHeader, boot};
