//! The daemon `trainyard-chief`, for the premade estimators.

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_model::Canned;

#[global_allocator]
static ALLOCATOR: trainyard_daemon::Allocator = trainyard_daemon::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Chief, |context, stop| {
        trainyard_chief::run(context, Canned::from_job, stop)
    })
}
