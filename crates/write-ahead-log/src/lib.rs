//! A write-ahead log: changes in segmented files, written before they are acknowledged.
//!
//! A record is a kind, a number and bytes; the log does not interpret them. One thread at a time writes the records
//! that all threads have queued, in the order of the queue. The files are mapped, and lie in shared memory as far as there
//! is room: what is written outlives the process, and costs a copy of its bytes. A killed process can tear only the end of
//! the last file. A restart of the machine loses the log. Reading does not depend on files: a [`Reader`] accepts any
//! bytes, however damaged.

mod disk_room;
mod durability;
mod error;
mod folder;
mod item;
mod log;
mod mapped_file;
mod memory;
mod reader;
mod record;
mod record_writer;
mod segment;
mod segment_file;
mod writer;

pub use durability::Durability;
pub use error::Error;
pub use folder::Folder;
pub use log::Log;
pub use memory::{CutMemory, MemoryUse, SharedMemory};
pub use reader::{Bad, Fault, Next, Reader};
pub use record::{BODY_BYTES_MAX, Entry, Record};
pub use record_writer::RecordWriter;
pub use segment::{EarlierSegments, Origin, SEGMENT_HEADER_BYTES, SegmentHeader, boot};
pub use segment_file::{Part, SegmentFile, SegmentReader};
pub use writer::FILE_BYTES;
