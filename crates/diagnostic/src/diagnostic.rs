//! A diagnostic: one message, with its code and place.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::Code;

/// Severity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The program ends, or will end.
    Error,
    /// The program continues, but something is odd.
    Warning,
}

/// Place that a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A span of one line of a file; shown with the line and a caret under the span.
    Source {
        /// The file. All places of a file share it.
        #[serde(serialize_with = "held")]
        file: Arc<Path>,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// The whole line. All places of a line share it: a list of ten thousand columns may be one line.
        #[serde(serialize_with = "held")]
        text: Arc<str>,
        /// Number of characters under the caret, at least 1.
        length: usize,
        /// Text after the caret, for example `not a key of [optimizer]`; may be empty.
        label: String,
    },
    /// Any other place: `environment variable TF_CONFIG, at task.index`, `flag --index`.
    Named(String),
}

/// Serializes what a shared pointer holds.
fn held<T: Serialize + ?Sized, S: Serializer>(
    value: &Arc<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().serialize(serializer)
}

/// A message for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Severity of the message.
    pub severity: Severity,
    /// Kind of the message.
    pub code: Code,
    /// The wrong value and its rule: lower case, no full stop.
    pub message: String,
    /// Place that the value came from.
    pub place: Option<Place>,
    /// Further facts, one per line: the expected values, the known names.
    pub notes: Vec<String>,
    /// The cure: the next action of the user.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Returns an error without place, notes or help.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            place: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// Returns a warning without place, notes or help.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, message)
        }
    }

    /// Adds the place that the value came from.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds a line of facts.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds what the user should do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl std::error::Error for Diagnostic {}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.message)
    }
}
