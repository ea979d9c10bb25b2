//! The daemon `trainyard-worker`, for the premade estimators.

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_model::Canned;

#[global_allocator]
static ALLOCATOR: trainyard_daemon::Allocator = trainyard_daemon::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Worker, |context, stop| {
        trainyard_worker::run(context, Canned::from_job, stop)
    })
}
