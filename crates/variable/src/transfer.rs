//! The data that a step moves: the rows and ids that it reads, the values that it receives, the gradients that it
//! sends.
//!
//! All three are parallel to the model's list of variables, so an index is the only name that travels.

use std::sync::Arc;

/// The part of one variable that a step reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Nothing: the batch does not need the variable.
    Nothing,
    /// The whole variable.
    Whole,
    /// These rows, each at most once, in ascending order. Two variables that share the same `Arc` are read at the
    /// same rows, and the rows travel once.
    Rows(Arc<[u32]>),
    /// The rows of these ids of a dynamic table, each at most once, in ascending order; shared as rows are. An id
    /// without a row reads the initial values that its row would have.
    Ids(Arc<[u64]>),
}

/// The reads of a step, one entry per variable of the model.
pub type Reads = Vec<Read>;

/// The values that were read: one row-major buffer per variable, `rows x width` of the read; empty for
/// [`Read::Nothing`].
pub type Values = Vec<Vec<f32>>;

/// Gradients, in the same layout as the [`Values`] they were computed from. An empty buffer means no update.
pub type Gradients = Vec<Vec<f32>>;
