//! `trainyard bench`: the speed of the parts of training on this machine.
#![expect(
    clippy::disallowed_types,
    reason = "a benchmark measures the time of the machine"
)]

mod arguments;
mod conditions;
mod curve;
mod figures;
mod load;
mod local;
mod parameter_server;
mod recovery;
mod samples;
mod scale;
mod serve;
mod servers;
mod slow_link;
mod traffic;
mod train;
mod usage;
mod zipf;

pub(crate) use arguments::{Bench, BenchLoad};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::Build;

/// Runs one benchmark and prints its figures.
pub(crate) fn bench(arguments: &Bench, build: Build) -> Result<(), Vec<Diagnostic>> {
    match arguments {
        Bench::Ps(arguments) => parameter_server::bench(arguments).map_err(|problem| vec![problem]),
        Bench::Input(arguments) => local::input(arguments, build),
        Bench::Model(arguments) => local::model(arguments, build),
        Bench::Scale(arguments) => scale::bench(arguments),
        Bench::Serve(arguments) => serve::bench(arguments, build),
        Bench::Train(arguments) => train::bench(arguments),
    }
}

/// Runs the load process of a benchmark: workers that pull and push.
pub(crate) fn load(arguments: &BenchLoad) -> Result<(), Diagnostic> {
    load::run(&arguments.order)
}
