//! The native part of the Python package `trainyard`: the command line with every role, for premade models and for
//! models in Python.

mod callbacks;
mod checkpoint;
mod columns;
mod command;
mod console;
mod failure;
mod interrupts;
mod matrices;
mod model;
mod predictions;
mod row_ids;
mod rows;
mod table;
mod trained_job;
mod variables;

use pyo3::pymodule;

#[global_allocator]
static ALLOCATOR: trainyard_daemon::Allocator = trainyard_daemon::ALLOCATOR;

/// The module `trainyard._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::checkpoint::{Checkpoint, CheckpointError, fingerprints};
    #[pymodule_export]
    use crate::command::{run_command, run_module, version};
    #[pymodule_export]
    use crate::rows::add_rows;
    #[pymodule_export]
    use crate::table::write_table;
    #[pymodule_export]
    use crate::trained_job::{TrainedJob, name_of_variable};
}
