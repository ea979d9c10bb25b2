//! The daemon `trainyard-worker`, for the premade estimators, as the tests start it.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: trainyard_daemon::Allocator = trainyard_daemon::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_worker::main()
}
