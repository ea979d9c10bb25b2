//! What a person or a program reads on standard output.

use std::io::Write as _;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::Scores;

/// Writes to standard output.
///
/// # Errors
/// It is closed or full.
pub(crate) fn print(text: &str) -> Result<(), Diagnostic> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        Diagnostic::error(Code::E9002, format!("standard output cannot be written: {error}"))
    })
}

/// Returns metrics as a table.
pub(crate) fn table(scores: &Scores) -> String {
    let width = scores.keys().map(String::len).max().unwrap_or(0);
    scores.iter().map(|(name, value)| format!("  {name:width$}  {value:.6}\n")).collect()
}
