//! Log lines on standard error.

use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::EnvFilter;
use trainyard_diagnostic::{Code, Diagnostic, Place, steers};

use crate::LogFormat;

/// The library of HTTP/2 warns of each connection that it cuts, as often as peers like; that of HDFS of each that it makes anew,
/// and what fails for good is told with its file. Who wants to see it says `h2=` or `hdfs_native=` himself.
const QUIET: &str = "h2=error,hdfs_native=error";
/// Longest line, in bytes. A text of a peer is cut where it is taken in, so that only many of them make a line as long.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Writes each event as one line of bounded length, whatever its texts hold: none begins a line of its own, and none turns the
/// direction of writing. What steers a terminal is escaped before, where it is not our own colours.
#[derive(Debug)]
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0
            .write_all(one_line(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns an event as one line.
fn one_line(event: &str) -> String {
    let text = event.strip_suffix('\n').unwrap_or(event);
    let mut out = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if out.len() >= LINE_BYTES_MAX {
            let left = text.len().saturating_sub(LINE_BYTES_MAX);
            out.push_str(&format!("... (about {left} bytes more)"));
            break;
        }
        match character {
            // Of the colours.
            '\u{1b}' | '\t' => out.push(character),
            other if steers(other) => out.extend(other.escape_default()),
            other => out.push(other),
        }
    }
    out.push('\n');
    out
}

/// Starts to log. A second call has no effect: the first one's choice stands.
///
/// # Errors
/// The level is neither one nor a filter.
pub fn start_logging(format: LogFormat, level: &str) -> Result<(), Diagnostic> {
    let filter = EnvFilter::try_new(format!("{QUIET},{level}")).map_err(|error| {
        let message = format!(
            "log level `{level}` is not error, warn, info, debug, trace or a filter: {error}"
        );
        Diagnostic::error(Code::E1000, message).at(Place::Named("flag --log-level".to_owned()))
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lines(io::stderr()));
    let outcome = match format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines
            .compact()
            .with_target(false)
            .with_ansi(io::stderr().is_terminal())
            .try_init(),
    };
    drop(outcome);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_bounded_length_whatever_it_holds() {
        let event = "INFO joined task=x\r\nERROR all is lost\u{202e}\u{7}\u{85} \u{1b}[31mred\n";
        let line = one_line(event);
        assert_eq!(
            line,
            "INFO joined task=x\\r\\nERROR all is lost\\u{202e}\\u{7}\\u{85} \u{1b}[31mred\n"
        );
        let long = one_line(&"ä".repeat(1 << 20));
        assert!(
            long.len() < LINE_BYTES_MAX + 64 && long.ends_with("bytes more)\n"),
            "{} bytes",
            long.len()
        );
    }
}
