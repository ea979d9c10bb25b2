//! The chief: leads the job, and trains.
//!
//! The chief claims every parameter server for a new term, creates or restores the variables, admits the workers,
//! writes checkpoints, detects lost tasks, and ends the job. The coordinator (`trainyard-coordinator`) decides which tasks may
//! train and when the job is over.

mod chief;
mod early_stopping;
mod epoch_summary;
mod failover_controller;
mod own_folder;
mod plateau;
mod publish;
mod report;
mod run;
mod save;
mod save_together;
mod service;
mod standby;
mod start_files;
mod telemetry;
mod warm_start;

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_model::PREMADE;

pub use chief::{Chief, Ending, run_job};
pub use failover_controller::Failover;
pub use report::Report;
pub use run::run;
pub use warm_start::find_warm_start;

/// Runs the daemon `trainyard-chief` with the premade estimators. Returns its exit code.
pub fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Chief, |context, stop| run(context, PREMADE, stop))
}
