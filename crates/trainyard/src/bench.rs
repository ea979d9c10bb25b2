//! `trainyard bench`: how fast the pieces of training are on this machine.

mod figures;
mod load;
mod local;
mod plane;
mod row_law;
mod samples;
mod scale;
mod scale_plot;
mod slow_link;
mod traffic;
mod train;
mod usage;

use trainyard_diagnostic::Diagnostic;
use trainyard_model::Build;

use crate::command::{Bench, BenchLoad};

/// Runs one benchmark and prints its figures.
pub(crate) fn bench(arguments: &Bench, build: Build) -> Result<(), Vec<Diagnostic>> {
    match arguments {
        Bench::Ps(arguments) => plane::bench(arguments).map_err(|problem| vec![problem]),
        Bench::Input(arguments) => local::input(arguments, build),
        Bench::Model(arguments) => local::model(arguments, build),
        Bench::Scale(arguments) => scale::bench(arguments).map_err(|problem| vec![problem]),
        Bench::Train(arguments) => train::bench(arguments),
    }
}

/// Loads the parameter plane as workers of a benchmark.
pub(crate) fn load(arguments: &BenchLoad) -> Result<(), Diagnostic> {
    load::run(&arguments.order)
}
