//! Log lines on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use trainyard_diagnostic::{Code, Diagnostic, Place};

use crate::LogFormat;

/// Starts to log. A second call has no effect: the first one's choice stands.
///
/// # Errors
/// The level is neither one nor a filter.
pub fn start_logging(format: LogFormat, level: &str) -> Result<(), Diagnostic> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        let message =
            format!("log level `{level}` is not error, warn, info, debug, trace or a filter: {error}");
        Diagnostic::error(Code::E1000, message).at(Place::Named("flag --log-level".to_owned()))
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let outcome = match format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => {
            lines.compact().with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init()
        }
    };
    drop(outcome);
    Ok(())
}
