//! The parameter server: serves pulls and pushes of its part of the parameters.
//!
//! The server stores numbers and applies update rules. It does not know models, features or data. The store
//! (`trainyard-parameter-store`) decides whether an update counts, and the server around it
//! (`trainyard-parameter-server`) has the values, their checkpoints and their log. This crate connects the server to the
//! network, to a second replica and to the end of the job.

mod answer;
mod chief_heard;
mod durable;
mod ending;
mod initial_values;
mod log_cut_telemetry;
mod log_cutter;
mod memory;
mod preparation;
mod replication;
mod run;
mod service;
mod telemetry;
mod tensor_service;

use futures_util::future::BoxFuture;
use trainyard_daemon::{CancellationToken, Context};
use trainyard_diagnostic::Diagnostic;

/// Serves parameters until the job ends, or until the token stops this server and it has drained.
///
/// # Errors
/// The port is taken, or the server failed.
pub fn run(
    context: Context,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<(), Diagnostic>> {
    // Boxed, so that the code is compiled in this crate and not again in each program.
    Box::pin(run::serve_parameters(context, stop))
}
