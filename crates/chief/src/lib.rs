//! The chief: trains, and leads.
//!
//! Leading is: claim every parameter server for a new epoch, create or restore the variables, let the workers in,
//! write checkpoints, notice who is gone, and end the job when it has reached its end. Who may train and when the
//! job is over is decided by [`Roster`], a state machine without clock or network.

mod coordinator;
mod data;
mod data_shards;
mod epoch;
mod groups;
mod lanes;
mod lead;
mod report;
mod roster;
mod run;
mod save;
mod service;
mod standby;
mod telemetry;
mod vigil;

pub use coordinator::LocalCoordinator;
pub use data::Data;
pub use lead::{Ending, Lead, lead};
pub use report::Report;
pub use roster::{Admission, Attendance, Roster, RosterConfig, WORKERS_MAX};
pub use run::run;
