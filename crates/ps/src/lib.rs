//! The parameter server: serves pull and push over its shard.
//!
//! It stores numbers and applies rules; it knows nothing of models, features or data. All decisions are the store's
//! (`trainyard-parameter-store`); here they meet the network and the end of the job.

mod answer;
mod durable;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gradients;
mod journal;
mod machine;
mod preparation;
mod record;
mod recovery;
mod replay;
mod replication;
mod replication_log;
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
    // Boxed, so that it is compiled here and not once more in each program that is a parameter server.
    if context.job.is_replicated() {
        Box::pin(replication::run_pair(context, stop))
    } else {
        Box::pin(run::run_alone(context, stop))
    }
}
