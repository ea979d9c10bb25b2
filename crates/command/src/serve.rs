//! `trainyard serve`: answers requests for predictions.

use clap::Args;
use trainyard_daemon::{ServiceArguments, StopSource};
use trainyard_diagnostic::Diagnostic;
use trainyard_model::Build;
use trainyard_serving::ServingArguments;

/// Help of the command.
pub(crate) const SERVE: &str = "\
Answers requests for predictions over HTTP, with the newest checkpoint of a run.

The server follows the model directory: a new checkpoint is read beside the version that answers, checked, and then
answers. A request gives raw columns, and takes the way of `predict`: its predictions are the same, to the bit.

  trainyard serve configs/census.toml
  curl localhost:8501/v1/models/census/metadata
  curl localhost:8501/v1/models/census:predict -d '{\"instances\": [{\"age\": 39, ...}]}'";

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) serving: ServingArguments,
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
}

/// Serves predictions until `stop` asks for the end.
pub(crate) fn serve(
    arguments: &Serve,
    build: Build,
    stop: StopSource,
) -> Result<(), Vec<Diagnostic>> {
    trainyard_serving::serve(&arguments.serving, &arguments.service, build, stop)
}
