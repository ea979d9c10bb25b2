//! What the tasks say, with simulated times, and a number that two runs share only if they said the same.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Registry};

/// Lines that are kept for the message of a failure.
const LINES_MAX: usize = 4000;

#[derive(Debug, Default)]
struct Told {
    now: Duration,
    hash: u64,
    lines: Vec<String>,
    /// Paths that begin with it are another's in each run.
    folder: String,
    aloud: bool,
}

/// Everything that was said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Told>>);

impl Trace {
    /// Returns an empty trace. `folder` is left out of what is said; `aloud` prints it at once.
    pub(crate) fn new(folder: &str, aloud: bool) -> Self {
        let folder = folder.to_owned();
        let hash = 0xcbf2_9ce4_8422_2325;
        Self(Arc::new(Mutex::new(Told {
            folder,
            hash,
            aloud,
            ..Told::default()
        })))
    }

    /// Returns what takes in events of the targets and levels that `filter` says.
    pub(crate) fn subscriber(&self, filter: &str) -> impl Subscriber + Send + Sync + use<> {
        Registry::default().with(
            self.clone()
                .with_filter(EnvFilter::new(format!("turmoil=info,{filter}"))),
        )
    }

    /// Sets the time.
    pub(crate) fn set_now(&self, now: Duration) {
        self.0.lock().now = now;
    }

    /// Takes a line in.
    pub(crate) fn tell(&self, line: impl fmt::Display) {
        let mut told = self.0.lock();
        let line = format!("{:9.3} {line}", told.now.as_secs_f64());
        let line = line.replace(&told.folder, "");
        for byte in line.bytes() {
            told.hash = (told.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if told.aloud {
            println!("{line}");
        }
        if told.lines.len() < LINES_MAX {
            told.lines.push(line);
        }
    }

    /// Returns the number of everything that was said (FNV-1a).
    pub(crate) fn hash(&self) -> u64 {
        self.0.lock().hash
    }

    /// Returns what was said, from its start.
    pub(crate) fn text(&self) -> String {
        self.0.lock().lines.join("\n")
    }
}

/// The host that a span stands for.
struct Host(String);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" | "name" => write!(self.0, "{value:?} "),
            // What messages hold is said where they are read; the system's id of the process is chance.
            "protocol" | "pid" => Ok(()),
            name => write!(self.0, "{name}={value:?} "),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Trace {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() == "node"
            && let Some(span) = context.span(id)
        {
            let mut fields = Fields(String::new());
            attributes.record(&mut fields);
            span.extensions_mut().insert(Host(fields.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let host = context.event_scope(event).and_then(|mut scope| {
            scope.find_map(|span| span.extensions().get::<Host>().map(|host| host.0.clone()))
        });
        let metadata = event.metadata();
        self.tell(format_args!(
            "{}{} {}",
            host.unwrap_or_default(),
            metadata.level(),
            fields.0.trim_end()
        ));
    }
}
