//! Logging to standard error, or to the console that has been taken.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write};

use parking_lot::RwLock;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, reload};
use trainyard_diagnostic::{Code, Diagnostic, Place, steers};

use crate::{LogFormat, taken_console};

/// Filter of noisy libraries. The HTTP/2 library warns about each connection that it closes, which peers can cause at
/// will. The HDFS library warns about each reconnect; permanent failures are reported with their file. Users can show
/// these warnings with a filter `h2=` or `hdfs_native=`.
const QUIET: &str = "h2=error,hdfs_native=error";
/// Longest line, in bytes. Each text of a peer is truncated when it is received, so only a line with many texts is cut.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Writer that turns each event into one line of bounded length: no text of an event can begin a new line or change the
/// direction of writing. Control sequences in texts were escaped before; only the program's own colors remain. Without a
/// target, events go nowhere.
#[derive(Debug)]
struct Lines<W>(Option<W>);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        if let Some(target) = &mut self.0 {
            let line = one_line(&String::from_utf8_lossy(event));
            // A log that cannot be written, as on a full disk, ends no job.
            drop(target.write_all(line.as_bytes()));
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
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

/// Passes events to the console that has been taken.
struct ToConsole;

impl<S: Subscriber> Layer<S> for ToConsole {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some(console) = taken_console() {
            let mut texts = EventTexts::default();
            event.record(&mut texts);
            let line = one_line(&format!("{}{}", texts.message, texts.fields));
            console.log(*event.metadata().level(), line.trim_end());
        }
    }
}

/// Message and fields of an event.
#[derive(Debug, Default)]
struct EventTexts {
    message: String,
    /// Each field begins with a blank.
    fields: String,
}

impl Visit for EventTexts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A text takes whatever is written into it.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// Sets the filter of the log that was started first.
type SetFilter = Box<dyn Fn(EnvFilter) + Send + Sync>;
static SET_FILTER: RwLock<Option<SetFilter>> = RwLock::new(None);

/// Starts logging. A second call sets the level.
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
    if let Some(set_filter) = &*SET_FILTER.read() {
        set_filter(filter);
        return Ok(());
    }
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Lines(taken_console().is_none().then(io::stderr)));
    let log = tracing_subscriber::registry().with(filter).with(ToConsole);
    let started = match format {
        LogFormat::Json => log.with(lines.json().flatten_event(true)).try_init(),
        LogFormat::Text => log
            .with(
                lines
                    .compact()
                    .with_target(false)
                    .with_ansi(io::stderr().is_terminal()),
            )
            .try_init(),
    };
    if started.is_ok() {
        let set_filter = move |filter| drop(handle.reload(filter));
        *SET_FILTER.write() = Some(Box::new(set_filter));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::{Console, ConsoleStep, LogLevel, TakenConsole, report};

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
        let mut lines = Lines(Some(Full));
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

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Console for Heard {
        fn log(&self, level: LogLevel, line: &str) {
            self.0.lock().push(format!("{level} {line}"));
        }

        fn report(&self, problem: &Diagnostic) {
            self.0.lock().push(problem.message.clone());
        }

        fn print(&self, text: &str) {
            self.0.lock().push(text.to_owned());
        }

        fn step(&self, step: ConsoleStep) {
            self.0.lock().push(format!("{step:?}"));
        }
    }

    /// Other tests of this process may report and log meanwhile.
    fn own(heard: &Heard) -> Vec<String> {
        let lines = heard.0.lock().clone();
        lines
            .into_iter()
            .filter(|line| line.contains("of this test"))
            .collect()
    }

    #[test]
    fn the_last_console_that_was_taken_receives_messages_and_log_lines_until_it_is_given_back() {
        let problem = |text: &str| [Diagnostic::warning(Code::E4005, text)];
        let first = Arc::new(Heard::default());
        let second = Arc::new(Heard::default());
        let kept = TakenConsole::take(Arc::clone(&first) as Arc<dyn Console>);
        let shorter = TakenConsole::take(Arc::clone(&second) as Arc<dyn Console>);
        report(&problem("one of this test"), LogFormat::Text);
        let log = tracing_subscriber::registry().with(ToConsole);
        tracing::subscriber::with_default(log, || {
            tracing::warn!(step = 3, name = %"a\nb", "an event of this test");
        });
        drop(shorter);
        report(&problem("another of this test"), LogFormat::Json);
        drop(kept);
        assert_eq!(
            own(&second),
            [
                "one of this test",
                "WARN an event of this test step=3 name=a\\nb"
            ]
        );
        assert_eq!(own(&first), ["another of this test"]);
    }
}
