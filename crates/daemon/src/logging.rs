//! Logging to standard error.

use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::EnvFilter;
use trainyard_diagnostic::{Code, Diagnostic, Place, steers};

use crate::LogFormat;

/// Filter of noisy libraries. The HTTP/2 library warns about each connection that it closes, which peers can cause at
/// will. The HDFS library warns about each reconnect; permanent failures are reported with their file. Users can show
/// these warnings with a filter `h2=` or `hdfs_native=`.
const QUIET: &str = "h2=error,hdfs_native=error";
/// Longest line, in bytes. Each text of a peer is truncated when it is received, so only a line with many texts is cut.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Writer that turns each event into one line of bounded length: no text of an event can begin a new line or change the
/// direction of writing. Control sequences in texts were escaped before; only the program's own colors remain.
#[derive(Debug)]
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = one_line(&String::from_utf8_lossy(event));
        // A log that cannot be written, as on a full disk, ends no job.
        drop(self.0.write_all(line.as_bytes()));
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
            // Escape characters of colors.
            '\u{1b}' | '\t' => out.push(character),
            other if steers(other) => out.extend(other.escape_default()),
            other => out.push(other),
        }
    }
    out.push('\n');
    out
}

/// Starts logging. A second call has no effect.
///
/// # Errors
/// `level` is neither a level nor a filter.
pub(crate) fn start_logging(format: LogFormat, level: &str) -> Result<(), Diagnostic> {
    if level.trim().is_empty() {
        let message = "the log level is empty: it is error, warn, info, debug, trace or a filter";
        return Err(Diagnostic::error(Code::E1000, message)
            .at(Place::Named("flag --log-level".to_owned()))
            .help("give one, or unset TRAINYARD_LOG, which also sets it"));
    }
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
    fn a_log_that_cannot_be_written_is_no_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _event: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut lines = Lines(Full);
        assert_eq!(lines.write(b"an event\n").expect("taken"), 9);
    }

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
