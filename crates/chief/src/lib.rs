//! The chief: leads the job, and trains.
//!
//! The chief claims every parameter server for a new term, creates or restores the variables, admits the workers,
//! writes checkpoints, detects lost tasks, and ends the job. [`Membership`], a state machine without clock or network,
//! decides which tasks may train and when the job is over.

mod backup_workers;
mod chief;
mod clock;
mod coordinator;
mod data_shards;
mod dispatcher;
mod early_stopping;
mod ended_sessions;
mod epoch_summary;
mod evaluations;
mod failover;
mod failover_controller;
mod history_file;
mod leader_election;
mod membership;
mod page;
mod rendezvous;
mod report;
mod run;
mod run_history;
mod save;
mod service;
mod shard_map;
mod standby;
mod summary_writer;
mod telemetry;
mod time_series;

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_model::PREMADE;

pub use chief::{Chief, Ending, run_job};
pub use coordinator::LocalCoordinator;
pub use dispatcher::Dispatcher;
pub use ended_sessions::EndedSessions;
pub use failover::{Decision, PairReport, ReplicaReport, ReplicaState, decide};
pub use failover_controller::Failover;
pub use membership::{Admission, Liveness, Membership, MembershipConfig, WORKERS_MAX};
pub use report::Report;
pub use run::run;
pub use shard_map::{ShardEntry, ShardMap};

/// Runs the daemon `trainyard-chief` with the premade estimators. Returns its exit code.
pub fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Chief, |context, stop| run(context, PREMADE, stop))
}
