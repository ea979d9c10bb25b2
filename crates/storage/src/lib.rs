//! Files, wherever they are: on this machine, in S3, in Google Cloud Storage, behind HTTP, in HDFS.
//!
//! It exists so that what reads records knows nothing of networks: a [`File`] is read like a file. A remote one is read
//! ahead in ranges, several at once, in bounded memory; what fails and may be tried again is, with growing pauses and a
//! deadline; and what is wrong for good is an [`Error`] that says what to do.
//!
//! What is written is an object put whole, or put only where there is none ([`Storage::put_if_absent`]: of several that try,
//! one succeeds), or a file of this machine that is sent in parts, to HDFS from front to back.
//!
//! Credentials come from where the clients of these stores look for them: environment variables, or the host.

#[cfg(not(feature = "object-stores"))]
mod absent;
#[cfg(feature = "object-stores")]
mod backoff;
mod error;
#[cfg(feature = "object-stores")]
mod executor;
mod file;
#[cfg(feature = "hdfs")]
mod hdfs;
mod location;
#[cfg(feature = "object-stores")]
mod read_ahead;
#[cfg(feature = "object-stores")]
mod remote;
#[cfg(feature = "object-stores")]
mod retry;
mod storage;
#[cfg(feature = "object-stores")]
mod store;
#[cfg(feature = "object-stores")]
mod write;

#[cfg(not(feature = "object-stores"))]
use absent as remote;
#[cfg(not(feature = "object-stores"))]
use absent as read_ahead;

pub use error::Error;
pub use file::File;
pub use location::{Location, Scheme, is_remote};
pub use storage::{Entry, Stamp, Storage};

/// Ranges of a remote file that are requested at once.
pub(crate) const RANGES_AT_ONCE: usize = 8;
