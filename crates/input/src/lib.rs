//! Input pipelines: from files to batches of columns, on threads of their own.

mod batch;
mod schema;

pub use batch::{Batch, Bytes, Column, Position};
pub use schema::{Field, FieldKind, Schema};
