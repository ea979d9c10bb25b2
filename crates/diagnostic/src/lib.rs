//! Messages for people: the mistake, the value, its place, the expectation and the remedy.
//!
//! Every error that ends a program, and every warning about a user's files, is a [`Diagnostic`]. The crate exists so
//! that all other crates share one form of messages, one table of codes and exit codes, and one reader of TOML files
//! ([`Document`]) that reports every mistake at once.

mod code;
mod declare;
mod diagnostic;
mod document;
mod feature;
pub mod form;
mod key;
mod kinds;
mod listed;
mod render;
pub mod rule;
mod section;
mod shell_path;
mod suggest;
mod system_limit;
mod waiting;

pub use code::{CODES, Code};
pub use diagnostic::{Diagnostic, Place, Severity};
pub use document::{Document, Node, Table, Value};
pub use feature::not_built_help;
pub use key::{Bound, Key, Kind, Kinds, Preset, Takes};
pub use listed::listed;
pub use render::{escape, one_line, render_all, steers};
pub use section::{Hint, Problems, Section};
pub use shell_path::refuse_shell_parts;
pub use suggest::suggest;
pub use system_limit::{system_limit, system_problem, thread_limit};
pub use waiting::{Action, Waiting};
