//! What a step moves: which rows and ids it reads, the values that come back, the gradients that go out.
//!
//! All three are parallel to the model's list of variables, so an index is the only name that travels.

use std::sync::Arc;

/// What a step reads of one variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Nothing: the batch does not touch it.
    Nothing,
    /// All of it.
    Whole,
    /// These rows, each at most once, in ascending order. Two variables that share the same `Arc` are read at the
    /// same rows, and the rows travel once.
    Rows(Arc<[u32]>),
    /// The rows of these ids of a dynamic table, each at most once, in ascending order; shared as rows are. An id
    /// without a row reads the first values that a row of it would have.
    Ids(Arc<[u64]>),
}

/// What a step reads, one entry per variable of the model.
pub type Reads = Vec<Read>;

/// The values read: one row-major buffer per variable, `rows x width` of what was asked; empty for [`Read::Nothing`].
pub type Values = Vec<Vec<f32>>;

/// Gradients, in the same layout as the [`Values`] they were computed from. An empty buffer means no update.
pub type Gradients = Vec<Vec<f32>>;
