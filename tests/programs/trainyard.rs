//! The operator's command, with the premade models, benchmarks and generators, as the tests start it.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: trainyard::Allocator = trainyard::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_benchmark::main_with(trainyard::Canned::from_job)
}
