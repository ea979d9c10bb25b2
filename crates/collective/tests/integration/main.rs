//! Groups of workers that sum: in one process, and on several servers.

mod local;
mod remote;
