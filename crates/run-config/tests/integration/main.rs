//! Job files: valid ones, and the messages about mistakes.

mod declared;
mod dynamic;
mod job;
mod page;
