//! The runtime services of a daemon: threads for blocking work, and connections to other tasks.
//!
//! The system provides both by default. A test can replace them: a whole cluster then runs on one thread and on a
//! simulated network, in the same order each time.

mod network;
mod work;

pub use network::{Answer, Arrivals, Connection, Network, Stream, Transport};
pub use work::{apart, blocking, has_threads};
