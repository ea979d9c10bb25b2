//! What a daemon asks of the machine it runs on: threads for work that blocks, and connections to others.
//!
//! The answers are the system's, unless a daemon is given others: then a whole cluster runs on one thread and on a network
//! that a test makes up, in the same order each time.

mod network;
mod work;

pub use network::{Answer, Arrivals, Connection, Network, Stream, Transport};
pub use work::{apart, blocking, has_threads};
