//! Job files: valid ones, and the messages about mistakes.

mod declared;
mod dynamic;
mod hyper_parameters;
mod job;
mod page;
