//! Diagnostics of a program on its standard error, or on the console that has been taken.

use std::io::Write as _;

use trainyard_diagnostic::{Diagnostic, render_all};

use crate::{LogFormat, taken_console};

/// Prints diagnostics on standard error, or passes them to the console that has been taken.
pub fn report(problems: &[Diagnostic], format: LogFormat) {
    if let Some(console) = taken_console() {
        for problem in problems {
            console.report(problem);
        }
        return;
    }
    let text = match format {
        LogFormat::Text => render_all(problems),
        LogFormat::Json => problems
            .iter()
            .map(|problem| format!("{}\n", problem.to_json()))
            .collect(),
    };
    drop(std::io::stderr().write_all(text.as_bytes()));
}
