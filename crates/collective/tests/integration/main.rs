//! Groups of workers that sum: in one process, and of several servers.

mod local;
mod remote;
