//! Benchmarks of training on this machine (`bench`), and generators of data for the shipped jobs (`datagen`).
//!
//! They are commands of the program `trainyard`, and of any program that begins with [`main_with`]. A program with a
//! model of its own links neither, unless it asks for them.

mod bench;
mod datagen;

use std::process::ExitCode;

use clap::Subcommand;
use trainyard_command::main_with_commands;
use trainyard_daemon::{DiskWatch, LogFormat, begin, finish};
use trainyard_model::{Build, Error, Model, any_of};
use trainyard_run_config::Job;

#[derive(Debug, Subcommand)]
enum Commands {
    /// Measures parts of training on this machine.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Runs workers of `bench ps`.
    #[command(hide = true)]
    BenchLoad(bench::BenchLoad),
    /// Writes synthetic training data.
    Datagen(datagen::Datagen),
}

impl trainyard_command::Commands for Commands {
    fn run(self, build: Build) -> u8 {
        let outcome = match self {
            Self::Bench(arguments) => begin(LogFormat::Text, "warn")
                .map_err(|problem| vec![problem])
                .and_then(|()| bench::bench(&arguments, build)),
            Self::BenchLoad(arguments) => bench::load(&arguments).map_err(|problem| vec![problem]),
            Self::Datagen(arguments) => {
                let _watch = DiskWatch::begin();
                begin(LogFormat::Text, "warn")
                    .and_then(|()| datagen::datagen(&arguments))
                    .map_err(|problem| vec![problem])
            }
        };
        finish(outcome, LogFormat::Text)
    }
}

/// Runs the command line for a model, with `bench` and `datagen`.
///
/// `build` makes the model of a job. The exit code is 0, or that of the message printed last.
pub fn main_with<M: Model>(build: fn(&Job) -> Result<M, Error>) -> ExitCode {
    main_with_commands::<Commands>(any_of(build))
}
