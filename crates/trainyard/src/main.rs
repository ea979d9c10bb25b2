//! The operator's command: the premade models, benchmarks and generators of data.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: trainyard::Allocator = trainyard::ALLOCATOR;

fn main() -> ExitCode {
    trainyard_benchmark::main_with(trainyard::Canned::from_job)
}
