//! Callbacks in Python.

use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use pyo3::types::PyAnyMethods as _;
use pyo3::{Bound, Py, PyAny, PyResult, Python};
use trainyard_model::{AppliedStep, Callbacks, Error, Scores};

use crate::failure::failed;

/// The object that the package puts around the callbacks of the user. Its methods return the reason why they end the
/// job, or None.
#[derive(Debug)]
pub(crate) struct PythonCallbacks {
    object: Py<PyAny>,
    end: Mutex<Option<String>>,
}

impl PythonCallbacks {
    pub(crate) fn new(object: Py<PyAny>) -> Self {
        Self {
            object,
            end: Mutex::default(),
        }
    }

    /// Returns the callbacks of a model, if it has any.
    pub(crate) fn of(model: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let object = model.getattr("callbacks")?;
        Ok((!object.is_none()).then(|| Self::new(object.unbind())))
    }

    fn call(
        &self,
        place: &str,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<Option<String>>,
    ) -> Result<(), Error> {
        let end = Python::attach(|python| {
            call(self.object.bind(python)).map_err(|error| failed(python, error, place))
        })?;
        if let Some(reason) = end {
            self.reason().get_or_insert(reason);
        }
        Ok(())
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        // The text is whole, whatever has panicked.
        self.end
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Callbacks for PythonCallbacks {
    fn after_step(&self, step: &AppliedStep) -> Result<(), Error> {
        let AppliedStep {
            global_step,
            task_steps,
            examples,
            loss,
        } = *step;
        let place = format!("the callbacks after step {global_step}");
        self.call(&place, |object| {
            object
                .call_method1("after_step", (global_step, task_steps, examples, loss))?
                .extract()
        })
    }

    fn after_save(&self, global_step: u64, checkpoint: &Path) -> Result<(), Error> {
        let place = format!("the callbacks after the checkpoint of step {global_step}");
        self.call(&place, |object| {
            object
                .call_method1("after_save", (global_step, checkpoint))?
                .extract()
        })
    }

    fn after_evaluation(&self, global_step: u64, name: &str, scores: &Scores) -> Result<(), Error> {
        let place = format!("the callbacks after the evaluation of step {global_step}");
        self.call(&place, |object| {
            object
                .call_method1("after_evaluation", (global_step, name, scores.clone()))?
                .extract()
        })
    }

    fn end(&self) -> Option<String> {
        self.reason().clone()
    }
}
