//! Exceptions of the user's code as errors.

use pyo3::exceptions::PyException;
use pyo3::types::{PyTracebackMethods as _, PyTypeMethods as _};
use pyo3::{PyErr, Python};
use trainyard_model::Error;

/// Returns an exception as an error, with its traceback. `place` is what the code was doing.
pub(crate) fn failed(python: Python<'_>, error: PyErr, place: &str) -> Error {
    let traceback = error
        .traceback(python)
        .and_then(|traceback| traceback.format().ok());
    let mut message = error.value(python).to_string();
    if message.is_empty() || !error.is_instance_of::<PyException>(python) {
        message = error.to_string();
    } else {
        let kind = error.get_type(python);
        let name = kind.name().map(|name| name.to_string());
        message = format!("{}: {message}", name.unwrap_or_else(|_| kind.to_string()));
    }
    Error::Failed {
        place: place.to_owned(),
        message,
        trace: traceback.unwrap_or_default(),
    }
}
