//! Messages for people: what is wrong, the value, where it came from, what was expected and what to do.
//!
//! Every error that ends a program, and every warning about a user's files, is a [`Diagnostic`]. It exists as a
//! crate of its own so that all floors share one form, one table of codes and one table of exit codes.

mod code;
mod diagnostic;

pub use code::{Code, CODES};
pub use diagnostic::{Diagnostic, Place, Severity};
