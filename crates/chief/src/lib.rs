//! The chief: trains, and leads.
//!
//! Leading is: claim every parameter server for a new epoch, create or restore the variables, let the workers in,
//! write checkpoints, notice who is gone, and end the job when it has reached its end. Who may train and when the
//! job is over is decided by [`Roster`], a state machine without clock or network.

mod clock;
mod coordinator;
mod curve;
mod data;
mod data_shards;
mod early_stopping;
mod ended_sessions;
mod epoch;
mod evaluations;
mod events;
mod groups;
mod history;
mod keeper;
mod lanes;
mod lead;
mod observation;
mod page;
mod pairs;
mod report;
mod roster;
mod run;
mod save;
mod service;
mod shard_map;
mod standby;
mod telemetry;
mod vigil;

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_model::PREMADE;

pub use coordinator::LocalCoordinator;
pub use data::Data;
pub use ended_sessions::EndedSessions;
pub use keeper::Pairs;
pub use lead::{Ending, Lead, lead};
pub use pairs::{Decision, PairReport, ReplicaReport, ReplicaState, decide};
pub use report::Report;
pub use roster::{Admission, Attendance, Roster, RosterConfig, WORKERS_MAX};
pub use run::run;
pub use shard_map::{ShardEntry, ShardMap};

/// Is the daemon `trainyard-chief`, for the premade estimators. Returns its exit code.
pub fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Chief, |context, stop| run(context, PREMADE, stop))
}
