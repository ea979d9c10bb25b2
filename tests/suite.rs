//! All tests that start real programs, and those of the repository as a whole, in one executable.

#[macro_use(trial)]
extern crate trainyard_tests;

#[path = "command/main.rs"]
mod command;
#[path = "deployment/main.rs"]
mod deployment;
#[path = "end_to_end/main.rs"]
mod end_to_end;
#[path = "keys/main.rs"]
mod keys;
#[path = "observability/main.rs"]
mod observability;
#[path = "onnx/main.rs"]
mod onnx;
#[path = "saved_model/main.rs"]
mod saved_model;
#[path = "serving/main.rs"]
mod serving;
#[path = "storage/main.rs"]
mod storage;
#[path = "tidy/main.rs"]
mod tidy;

fn main() -> std::process::ExitCode {
    trainyard_tests::run_suite()
}
