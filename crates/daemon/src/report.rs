//! Diagnostics of a program on its standard error.

use std::io::Write as _;

use trainyard_diagnostic::{Diagnostic, render_all};

use crate::LogFormat;

/// Prints diagnostics on standard error.
pub fn report(problems: &[Diagnostic], format: LogFormat) {
    let text = match format {
        LogFormat::Text => render_all(problems),
        LogFormat::Json => problems
            .iter()
            .map(|problem| format!("{}\n", problem.to_json()))
            .collect(),
    };
    drop(std::io::stderr().write_all(text.as_bytes()));
}
