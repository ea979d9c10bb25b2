//! Trainyard as a library and as the operator's command.
//!
//! A program that trains a model of its own is one line: it hands [`main_with`] a function from a job to a
//! [`Model`], and is then every role and every command for that model.
//!
//! ```no_run
//! use trainyard::{Canned, main_with};
//!
//! fn main() -> std::process::ExitCode {
//!     main_with(Canned::from_job)
//! }
//! ```

mod check;
mod command;
mod datagen;
mod import_tf;
mod inspect;
mod one_shot;
mod output;
mod progress;
mod run;
mod train;
mod up;

pub use command::main_with;
pub use trainyard_daemon::{ALLOCATOR, Allocator};
pub use trainyard_model::{Canned, Error, Model, Outcome, Prediction, Scores};
pub use trainyard_run_config::Job;
