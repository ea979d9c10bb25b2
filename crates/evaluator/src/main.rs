//! The daemon `trainyard-evaluator`, for the premade estimators.

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_evaluator::Config;
use trainyard_model::Canned;

#[global_allocator]
static ALLOCATOR: trainyard_daemon::Allocator = trainyard_daemon::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Evaluator, async |context, stop| {
        trainyard_evaluator::run(Config::of(&context), Canned::from_job, stop).await.map(drop)
    })
}
