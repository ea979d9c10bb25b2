//! The server of predictions: raw columns in, predictions out, with the models of training.
//!
//! The server shares only the model directory with training. It reads each new checkpoint beside the version that
//! answers, checks it, and swaps. A request takes the way of `trainyard predict`: the same feature columns, the same
//! model, the same bits.

mod about;
mod admitted;
mod arguments;
mod batching;
mod built_job;
mod config;
mod connections;
mod cuts;
mod datatype;
mod detached;
mod error;
mod exports;
mod filling;
mod following;
mod http_answer;
mod http_server;
mod inference;
mod intake;
mod job_difference;
mod json;
mod keys;
mod loader;
mod models;
mod paced;
mod rest;
mod results;
mod run;
mod same_site;
mod signature;
mod telemetry;
mod tensorflow_serving;
mod tensors;
mod text;
mod unlisted;
mod uri_path;

use std::process::ExitCode;
use std::sync::Arc;

use trainyard_daemon::{Readiness, ServiceArguments, StopSource, Supervision};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::{Build, PREMADE};

pub use arguments::ServingArguments;
pub use batching::BatchLimits;
pub use config::{Config, ModelConfig};
pub use detached::DetachedModel;
pub use error::Error;
pub use intake::HttpLimits;
pub use run::run;

/// Runs the daemon `trainyard-serving` with the premade estimators. Returns its exit code.
pub fn main() -> ExitCode {
    let about = "Answers requests for predictions with the newest checkpoints of training.";
    trainyard_daemon::launch_service(
        "trainyard-serving",
        about,
        |arguments: ServingArguments, service| {
            serve(&arguments, service, PREMADE, StopSource::Signals)
        },
    )
}

/// Runs the server until `stop` asks it to end, with an admin port.
///
/// # Errors
/// See [`run()`]; or the server did not stop within its drain deadline.
pub fn serve(
    arguments: &ServingArguments,
    service: &ServiceArguments,
    build: Build,
    stop: StopSource,
) -> Result<(), Vec<Diagnostic>> {
    let config = arguments.config().map_err(|problem| vec![problem])?;
    let security = arguments
        .security(&config)
        .map_err(|problem| vec![problem])?;
    let readiness = Readiness::default();
    let supervision = Supervision::of_service("serving", service, readiness.clone())
        .with_security(Arc::clone(&security))
        .with_stop(stop);
    let mut further = Vec::new();
    let outcome = trainyard_daemon::supervise_service(supervision, async |_, stop| {
        let outcome = run(config, build, security, readiness, stop).await;
        outcome.map_err(|mut problems| {
            let first = problems.remove(0);
            further = problems;
            first
        })
    });
    outcome.map_err(|first| [vec![first], further].concat())
}
