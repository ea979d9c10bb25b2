//! The job of a run as an object of Python: what a module of its own needs of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, PyResult, pyclass, pyfunction, pymethods};
use trainyard_diagnostic::{Diagnostic, render_all};
use trainyard_input::Schema;
use trainyard_model::Heads;
use trainyard_model_dir::JOB_AS_RUN;
use trainyard_run_config::{Agreement, FeatureConfig, FeatureKind, Job};

use crate::checkpoint::failed;
use crate::columns::{Columns, Lookup};
use crate::variables::variable_name;

/// Keys that determine what a module computes of its inputs.
const OF_MODULES: [&str; 2] = ["feature", "model"];

/// First column and width of each numeric feature, and the names of the features whose ids the module reads itself.
type Shown = (BTreeMap<String, (usize, usize)>, Vec<String>);

/// A job of a module.
#[derive(Debug)]
#[pyclass(frozen, module = "trainyard._native")]
pub(crate) struct TrainedJob {
    job: Job,
}

#[pymethods]
impl TrainedJob {
    /// Reads the job of the newest run in a model directory; None if there is none.
    #[staticmethod]
    fn of_run(model_dir: PathBuf) -> PyResult<Option<Self>> {
        let path = model_dir.join(JOB_AS_RUN);
        let read = trainyard_model_dir::read(&path).map_err(|error| failed(error.into()))?;
        let Some(bytes) = read else {
            return Ok(None);
        };
        let job = Job::parse(&path, &String::from_utf8_lossy(&bytes), &[]);
        Ok(Some(Self {
            job: job.map_err(wrong)?,
        }))
    }

    /// Reads a job file, with changes as those of `--set`.
    #[staticmethod]
    #[pyo3(signature = (path, settings=Vec::new()))]
    fn of_file(path: PathBuf, settings: Vec<String>) -> PyResult<Self> {
        Ok(Self {
            job: Job::load(Path::new(&path), &settings).map_err(wrong)?,
        })
    }

    /// Returns the job as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.job).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the numeric features, and those whose ids a module with these embeddings reads itself.
    fn shown(&self, tables: Vec<Lookup>) -> PyResult<Shown> {
        let columns = Columns::new(&self.job, tables, &mut Schema::default());
        let columns = columns.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(columns.shown())
    }

    /// Returns the columns of ids that hold several values in a field, each with the text between them.
    fn separators(&self) -> Vec<(String, String)> {
        let of_feature = |feature: &FeatureConfig| {
            let column = match &feature.kind {
                FeatureKind::Hashed { column, .. }
                | FeatureKind::Vocabulary { column, .. }
                | FeatureKind::Dynamic { column, .. } => column.clone(),
                FeatureKind::Numeric(_)
                | FeatureKind::Bucketized { .. }
                | FeatureKind::Identity { .. }
                | FeatureKind::Crossed { .. } => return None,
            };
            Some((column, char::from(feature.separator?).to_string()))
        };
        self.job.features.iter().filter_map(of_feature).collect()
    }

    /// Returns the folder of the model.
    fn model_dir(&self) -> PathBuf {
        self.job.model_dir.clone()
    }

    /// Returns the columns whose texts are ids.
    fn columns_of_texts(&self) -> Vec<String> {
        let features = self.job.features.iter();
        features
            .flat_map(FeatureConfig::text_columns)
            .cloned()
            .collect()
    }

    /// Returns the number of logits of a record.
    fn units(&self) -> usize {
        Heads::new(&self.job).units()
    }

    /// Describes how the job that trained values, one line for each key, differs from this one with the constants of a module;
    /// None if they agree.
    fn difference(
        &self,
        trained: Vec<String>,
        constants: BTreeMap<String, String>,
    ) -> Option<String> {
        if trained.is_empty() {
            // Earlier releases have not recorded the job.
            return None;
        }
        let mut own = self.job.clone();
        own.model.constants = constants;
        let of = |job: &Agreement| job.of_scores().only(&OF_MODULES);
        let own = of(&Agreement::of(&own));
        let trained = of(&Agreement::recorded(&trained));
        trained.differences(&own, "the run that trained", "this module")
    }
}

/// Returns the name of the variable of a parameter, or of the table of embeddings `name`.
#[pyfunction]
#[pyo3(name = "variable_name")]
pub(crate) fn name_of_variable(name: &str) -> String {
    variable_name(name)
}

fn wrong(problems: Vec<Diagnostic>) -> PyErr {
    PyValueError::new_err(render_all(&problems).trim_end().to_owned())
}
