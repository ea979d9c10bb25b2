//! The runtime of commands that only wait: for an admin port, or for the tasks of a cluster.

use tokio::runtime::{Builder, Runtime};
use trainyard_diagnostic::{Code, Diagnostic, system_problem};

/// Returns a runtime on the thread that uses it.
///
/// # Errors
/// The system gives no resources for it.
pub fn single_threaded() -> Result<Runtime, Diagnostic> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            let message = format!("the runtime cannot start: {error}");
            system_problem(&error, message, (Code::E9002, "start the program again"))
        })
}
