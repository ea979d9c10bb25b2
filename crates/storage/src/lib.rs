//! Files on this machine, in S3, in Google Cloud Storage, behind HTTP and in HDFS.
//!
//! This crate hides networks from the readers of records: a [`File`] is read like a local file. A remote file is read
//! ahead in ranges, several at once, in bounded memory. Transient failures are retried, with growing pauses and a
//! deadline. A permanent failure is an [`Error`] that says what to do.
//!
//! A write is a whole object, an object on the condition that there is none ([`Storage::put_if_absent`]: of several
//! writers, one succeeds), or the upload of a local file in parts; uploads to HDFS are sequential.
//!
//! The clients of the stores find credentials in their usual places: environment variables, or the host.

#[cfg(not(feature = "object-stores"))]
mod absent;
mod entry;
mod error;
#[cfg(feature = "object-stores")]
mod executor;
mod file;
#[cfg(feature = "hdfs")]
mod hdfs;
mod location;
mod mapping;
#[cfg(feature = "object-stores")]
mod part;
#[cfg(feature = "object-stores")]
mod read_ahead;
mod regular_file;
#[cfg(feature = "object-stores")]
mod remote;
mod result_file;
#[cfg(feature = "object-stores")]
mod retry;
mod scheme;
mod storage;
#[cfg(feature = "object-stores")]
mod store;
#[cfg(feature = "object-stores")]
mod write;

#[cfg(not(feature = "object-stores"))]
use absent as remote;
#[cfg(not(feature = "object-stores"))]
use absent as read_ahead;

pub use entry::{Entry, Stamp};
pub use error::Error;
pub use file::File;
pub use location::{Location, is_remote};
pub use mapping::Mapping;
pub use regular_file::{open_lock, open_regular, read_regular, read_regular_text};
pub use result_file::{ResultFile, linked_file, unwritten, unwritten_of_size};
pub use scheme::Scheme;
pub use storage::Storage;

/// Ranges of a remote file that are requested at once.
pub(crate) const RANGES_AT_ONCE: usize = 8;
