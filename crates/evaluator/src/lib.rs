//! The evaluator: watches the model directory, evaluates checkpoints and exports models.
//!
//! The evaluator shares only the model directory with training: checkpoints appear there complete, and `job_state.json`
//! says when no more will follow. It can be started before, during or after training, and restarted at any time.

mod compared;
mod evaluation;
mod events;
mod export;
mod exported;
mod exporter;
mod own_cluster;
mod run;
mod saved_model;
mod telemetry;

use std::process::ExitCode;

use trainyard_cluster_spec::Role;
use trainyard_model::PREMADE;

pub use compared::check_metrics;
pub use evaluation::evaluate;
pub use export::{ScoredModel, export};
pub use exporter::not_finite;
pub use run::{Config, Report, parts, run, warn_of_one_class};

/// Runs the daemon `trainyard-evaluator` with the premade estimators. Returns its exit code.
pub fn main() -> ExitCode {
    trainyard_daemon::launch(Role::Evaluator, async |context, stop| {
        run(Config::of(&context), PREMADE, stop).await.map(drop)
    })
}
