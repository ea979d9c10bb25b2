//! Job files: valid ones, and the messages about mistakes.

mod dynamic;
mod job;
mod page;
