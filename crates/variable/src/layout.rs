//! The cut of a model's variables over the parameter servers.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Partitioner, Placement, VariableSpec};

/// One slice of one variable, and the server that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Index of the variable in the model's list.
    pub variable: usize,
    /// Which part of the variable this is, from 0.
    pub part: usize,
    /// Rows of the variable that it holds.
    pub rows: Range<usize>,
    /// Values in a row.
    pub width: usize,
    /// Index of the parameter server.
    pub ps: usize,
}

/// Every slice of every variable. A slice's number is its position in [`Layout::slices`]; the slices of a variable
/// are consecutive and in row order. Every task computes the same layout from the same job and cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Slices, by number.
    pub slices: Vec<Slice>,
    /// Number of parameter servers.
    pub num_ps: usize,
}

impl Layout {
    /// Cuts `variables` with `partitioner` and places the slices on `num_ps` servers, at least one.
    pub fn new(variables: &[VariableSpec], partitioner: Partitioner, placement: Placement, num_ps: usize) -> Self {
        let _ = (variables, partitioner, placement, num_ps);
        unimplemented!()
    }
}
