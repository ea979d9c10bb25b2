//! The command line as functions of Python.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::{FromPyObject, Py, PyAny, PyResult, Python, pyfunction};
use trainyard_command::{Ended, Program, run_program};
use trainyard_daemon::StopSource;
use trainyard_diagnostic::{Diagnostic, Place};
use trainyard_model::{Build, Canned, PREMADE, any, any_with_callbacks};
use trainyard_run_config::Job;

use crate::callbacks::PythonCallbacks;
use crate::console::PythonConsole;
use crate::interrupts::interruptible;
use crate::model::PythonModel;

/// The program of this process.
#[derive(Debug, FromPyObject)]
pub(crate) struct Own {
    /// The interpreter.
    file: PathBuf,
    /// Its first arguments.
    leading: Vec<OsString>,
}

impl Own {
    fn with(self, arguments: Vec<OsString>) -> Program {
        Program {
            file: self.file,
            leading: self.leading,
            arguments,
        }
    }
}

/// Exit code of a command line, the messages of a failure as one text, and code, text and place of each of them.
type Returned = (u8, String, Vec<(String, String, Option<String>)>);

/// Runs the command line for the premade models, and returns its exit code and the messages of a failure. Other threads of
/// Python run meanwhile.
///
/// `own` starts this program once more: it is the command of each task of a cluster on this machine. With `owns_signals`, the
/// run catches the signals of this process, as a program does that is nothing else; otherwise Python's handlers are
/// called, and their exceptions end the run. `callbacks` receive the events of the run, if there are any. `console` receives
/// what the run would print, in this thread; a run that owns the signals prints it.
#[pyfunction]
#[pyo3(signature = (own, arguments, owns_signals, callbacks=None, console=None))]
pub(crate) fn run_command(
    python: Python<'_>,
    own: Own,
    arguments: Vec<OsString>,
    owns_signals: bool,
    callbacks: Option<Py<PyAny>>,
    console: Option<Py<PyAny>>,
) -> PyResult<Returned> {
    let build: Build = match callbacks {
        None => PREMADE,
        // Leaked, because a process has few runs with callbacks.
        Some(callbacks) => Box::leak(Box::new(move |job: &Job| {
            let model = Canned::from_job(job)?;
            let callbacks = Python::attach(|python| callbacks.clone_ref(python));
            any_with_callbacks(model, Box::new(PythonCallbacks::new(callbacks)))
        })),
    };
    run(python, own.with(arguments), build, owns_signals, console)
}

/// As [`run_command`], for a module of Python. `factory` is called with each job, as JSON, and returns an object around
/// the module.
#[pyfunction]
#[pyo3(signature = (own, arguments, owns_signals, factory, console=None))]
pub(crate) fn run_module(
    python: Python<'_>,
    own: Own,
    arguments: Vec<OsString>,
    owns_signals: bool,
    factory: Py<PyAny>,
    console: Option<Py<PyAny>>,
) -> PyResult<Returned> {
    // Leaked, because a process has one module, or few.
    let build: Build = Box::leak(Box::new(move |job: &Job| {
        any(PythonModel::from_job(job, &factory)?)
    }));
    run(python, own.with(arguments), build, owns_signals, console)
}

fn run(
    python: Python<'_>,
    program: Program,
    build: Build,
    owns_signals: bool,
    console: Option<Py<PyAny>>,
) -> PyResult<Returned> {
    let Ended {
        code,
        messages,
        problems,
    } = if owns_signals {
        python.detach(|| run_program(&program, build, &StopSource::Signals))
    } else {
        let console = console.map(PythonConsole::take);
        interruptible(python, console, move |stop| {
            run_program(&program, build, &stop)
        })?
    };
    Ok((
        code,
        messages,
        problems.into_iter().map(described).collect(),
    ))
}

/// Returns code, text and place of a message.
fn described(problem: Diagnostic) -> (String, String, Option<String>) {
    let place = problem.place.map(|place| match place {
        Place::Source {
            file, line, column, ..
        } => format!("{}:{line}:{column}", file.display()),
        Place::Named(name) => name,
    });
    (problem.code.name.to_owned(), problem.message, place)
}

/// Returns the version of the package.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
