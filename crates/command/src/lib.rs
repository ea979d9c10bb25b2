//! The command line of a program, for its model: every role and every command.
//!
//! A program links this crate through `trainyard`. The program `trainyard` adds commands of its own: see
//! [`main_with_commands`].
#![expect(
    clippy::disallowed_methods,
    reason = "a home of environment, command line and signals: others are given what they say"
)]

mod admin_client;
mod analyze;
mod arguments;
mod check;
mod command_line;
mod convert;
mod data_sample;
mod data_warnings;
mod deploy;
mod disk_space;
mod ended;
mod estimator;
mod evaluate;
mod export;
mod folder;
mod folder_columns;
pub mod http;
mod import_tf;
mod init;
mod inspect;
mod limits;
mod log_memory;
mod missing_words;
mod output;
mod output_form;
mod pki;
mod predict;
mod program;
mod progress;
mod quantiles;
mod repeated_rows;
mod run;
pub mod runtime;
mod scale;
mod serve;
mod stats;
mod status;
mod targets;
mod text_table;
mod times_of_files;
mod train;
mod trained_values;
mod transform;
mod unseen_columns;
mod up;

pub use arguments::{Format, JobArguments};
pub use command_line::{Commands, main_with, main_with_commands, main_with_onnx, run_program};
pub use ended::Ended;
pub use estimator::{Estimator, train_and_evaluate};
pub use folder::Folder;
pub use output::{print, refuse_absent_folder};
pub use program::Program;
pub use targets::{Existing, check_targets};
pub use up::{
    LOCAL_PORTS, RuntimeThreads, Supervisor, TaskCommand, free_ports, resolve, tasks, threads,
};
