//! The runtime services of a daemon: threads for blocking work, waits for files, connections to other tasks, pauses
//! between retries, and the memory that it may use.
//!
//! The system provides threads and connections by default. A test can replace them: a whole cluster then runs on one thread and on a
//! simulated network, in the same order each time.

mod backoff;
mod file_stall;
mod file_work;
mod memory_limit;
mod network;
mod work;

pub use backoff::Backoff;
pub use file_stall::{FILE_NOTICE_AFTER, FILE_NOTICE_INTERVAL, FileStall, FoundFiles};
pub use file_work::{FileWork, Progress, tell_file_wait, tell_if_slow, tell_if_stuck};
pub use memory_limit::MemoryLimit;
pub use network::{Answer, Arrivals, Connection, Network, Stream, Transport};
pub use work::{apart, blocking, has_threads};
