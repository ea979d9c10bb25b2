//! Descriptions of variables: specs, initial values, partitioning and placement, and the values that a step moves.
//!
//! With this crate, a model, the parameter servers and a checkpoint refer to the same variable without depending on
//! each other. It has no storage and no network.

mod dynamic_table;
mod fingerprint;
mod initial_rows;
mod initializer;
mod keyed;
mod layout;
mod logarithm;
mod partitioner;
mod placement;
mod spec;
mod streams;
mod transfer;
mod version;

pub use dynamic_table::{Candidate, DynamicRows, DynamicTable, Idle};
pub use initial_rows::{FirstRows, InitialRows};
pub use initializer::Initializer;
pub use keyed::{add_by_key, union_of_keys};
pub use layout::{Layout, SharedRow, Slice, shared_rows};
pub use partitioner::Partitioner;
pub use placement::Placement;
pub use spec::{Access, FROZEN, MOVING_AVERAGE, VariableSpec};
pub use transfer::{Gradients, Read, Reads, Values};
pub use version::{StepNumber, Version};
