//! The command line as a function of Python.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::{Python, pyfunction};
use trainyard_command::{Program, run_program};
use trainyard_model::PREMADE;

/// Runs the command line for the premade models, and returns its exit code. Other threads of Python run meanwhile.
///
/// `file` and `leading` start this program once more: they are the command of each task of a cluster on this machine.
#[pyfunction]
pub(crate) fn run_command(
    python: Python<'_>,
    file: PathBuf,
    leading: Vec<OsString>,
    arguments: Vec<OsString>,
) -> u8 {
    let program = Program {
        file,
        leading,
        arguments,
    };
    python.detach(|| run_program(&program, PREMADE))
}

/// Returns the version of the package.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
