//! The daemon `trainyard-serving`, for the premade estimators.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: trainyard_daemon::Allocator = trainyard_daemon::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_serving::main()
}
