//! Job files: what they may say, and what is told of their mistakes.

mod dynamic;
mod job;
mod page;
