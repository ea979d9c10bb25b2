//! A module of Python as a model: tables and parameters as variables, and a call of Python per step.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::types::{PyAnyMethods as _, PyDict, PyList, PyListMethods as _};
use pyo3::{Bound, Py, PyAny, PyErr, PyResult, Python};
use serde_json::json;
use trainyard_feature_column::fingerprint64;
use trainyard_input::{Batch, Cells, FieldKind, Position, Schema};
use trainyard_model::{
    Callbacks, Error, HeadMetrics, Heads, LabelFields, Model, Outcome, Prediction, Scores,
    add_penalty, want_example_weight,
};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::{FeatureConfig, Job};
use trainyard_variable::{Access, Gradients, Read, Reads, Values, VariableSpec};

use crate::callbacks::PythonCallbacks;
use crate::columns::{Columns, Lookups};
use crate::failure::failed;
use crate::predictions::by_row;
use crate::variables::{Described, Variables};

/// A module of Python as a [`Model`].
#[derive(Debug)]
pub(crate) struct PythonModel {
    /// The object that the package puts around the user's module. A step sets the module's parameters, so steps of
    /// several threads take turns.
    module: Mutex<Py<PyAny>>,
    /// The module computes its own loss; otherwise the head does.
    loss: Loss,
    columns: Columns,
    variables: Variables,
    schema: Schema,
    serving_schema: Schema,
    label_fields: LabelFields,
    weight_field: Option<usize>,
    group_field: Option<usize>,
    heads: Heads,
    callbacks: Option<PythonCallbacks>,
    description: serde_json::Value,
    /// Values that the model's code makes, each with its type and a digest.
    constants: BTreeMap<String, String>,
}

/// The metrics of an evaluation: those of the head for batches with logits, and those of the user's code.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    of_heads: Option<Vec<HeadMetrics>>,
    /// The object in which the package keeps the sums of the user's metrics; absent before the first batch.
    own: Option<Py<PyAny>>,
    /// The user's metrics of the batches so far.
    scores: Scores,
}

/// The part of a model that computes the training loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Module,
    Head,
}

/// A batch, prepared for a module.
#[derive(Debug)]
pub(crate) struct Features {
    rows: usize,
    numbers: Vec<f32>,
    lookups: Lookups,
    labels: Option<Vec<f32>>,
    weights: Option<Vec<f32>>,
    /// Group of each example, for the group AUC.
    groups: Option<Vec<u64>>,
    position: Position,
}

impl PythonModel {
    /// Builds the model of a job. `factory` makes the object around the user's module from the job as JSON.
    ///
    /// # Errors
    /// The module cannot be built, or has tables, parameters or logits that the job cannot have.
    pub(crate) fn from_job(job: &Job, factory: &Py<PyAny>) -> Result<Self, Error> {
        Python::attach(|python| Self::build(job, factory.bind(python)))
    }

    fn build(job: &Job, factory: &Bound<'_, PyAny>) -> Result<Self, Error> {
        let text = serde_json::to_string(job)
            .map_err(|error| Error::Invalid(format!("the job cannot be passed on: {error}")))?;
        let at_build = |error| failed(factory.py(), error, "building the module");
        let module = factory.call1((text,)).map_err(at_build)?;
        let tables = module
            .call_method0("tables")
            .and_then(|tables| tables.extract())
            .map_err(at_build)?;
        let mut serving_schema = Schema::default();
        let columns = Columns::new(job, tables, &mut serving_schema)?;
        let heads = Heads::new(job);
        let mut schema = serving_schema.clone();
        let label_fields = heads.want(&mut schema);
        let weight = job.input.weight_column.as_ref();
        let weight_field = weight.map(|column| want_example_weight(&mut schema, column));
        let group = job.eval.group_auc_column.as_ref();
        let group_field = group.map(|column| schema.want(column, FieldKind::BYTES));
        let described: Described = module
            .call_method1("parameters", (columns.shown(), heads.units()))
            .and_then(|parameters| parameters.extract())
            .map_err(at_build)?;
        let variables = Variables::new(job, &columns, described)?;
        let own_loss: bool = module
            .getattr("has_loss")
            .and_then(|has_loss| has_loss.extract())
            .map_err(at_build)?;
        let has_logits: bool = module
            .getattr("has_logits")
            .and_then(|has_logits| has_logits.extract())
            .map_err(at_build)?;
        if own_loss && !job.model.class_weights.is_empty() {
            return Err(Error::Invalid(
                "model.class_weights has no effect on the model's own loss: weigh the classes in that loss, and remove the \
                 key"
                    .to_owned(),
            ));
        }
        if let Some(column) = group.filter(|_| !has_logits) {
            return Err(Error::Invalid(format!(
                "eval.group_auc_column = \"{column}\" needs the logits of a head, and the model_fn returns none: give its \
                 EstimatorSpec a head, or remove the key"
            )));
        }
        let outputs: Vec<String> = module
            .call_method0("outputs")
            .and_then(|outputs| outputs.extract())
            .map_err(at_build)?;
        if has_logits {
            refuse_names_of_predictions(&heads, &outputs)?;
        }
        let callbacks = PythonCallbacks::of(&module).map_err(at_build)?;
        let constants = module
            .call_method0("constants")
            .and_then(|constants| constants.extract())
            .map_err(at_build)?;
        Ok(Self {
            loss: if own_loss { Loss::Module } else { Loss::Head },
            module: Mutex::new(module.unbind()),
            description: json!({
                "model": job.model, "label": job.input.label,
            }),
            columns,
            variables,
            schema,
            serving_schema,
            label_fields,
            weight_field,
            group_field,
            heads,
            callbacks,
            constants,
        })
    }

    /// Waits for the module, without the lock of Python.
    fn module(&self) -> MutexGuard<'_, Py<PyAny>> {
        // A step that has panicked leaves no parameter that the next does not set.
        self.module
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns rows, numbers, lookups and other ids of a batch, as the package expects them.
    fn batch<'p>(&self, python: Python<'p>, features: &Features) -> PyResult<Bound<'p, PyAny>> {
        use pyo3::IntoPyObject as _;
        let numbers = PyArray1::from_slice(python, &features.numbers);
        let [matrices, ids] = features.lookups.arrays(python)?;
        let batch = (features.rows, numbers, matrices, ids).into_pyobject(python)?;
        Ok(batch.into_any())
    }

    /// Returns the values of a step: an array for each matrix, and then for each parameter.
    fn values<'p>(&self, python: Python<'p>, values: &Values) -> PyResult<Bound<'p, PyList>> {
        let matrices = self.columns.matrices.iter();
        let matrices = matrices.map(|matrix| matrix.array(python, values));
        let parameters = &values[self.columns.tables.len()..];
        let parameters = self.variables.arrays(python, parameters)?;
        PyList::new(python, matrices.chain(parameters).collect::<Vec<_>>())
    }

    /// Copies the gradients of a step: an array for each matrix, and then for each parameter.
    fn copy_gradients(
        &self,
        found: &Bound<'_, PyList>,
        values: &Values,
        gradients: &mut Gradients,
    ) -> PyResult<()> {
        let arrays = found
            .iter()
            .map(|found| Ok(found.cast_into::<PyArrayDyn<f32>>()?.try_readonly()?));
        let arrays = arrays.collect::<PyResult<Vec<_>>>()?;
        let matrices = &self.columns.matrices;
        let first = self.columns.tables.len();
        let wanted = matrices.len() + values.len() - first;
        if arrays.len() != wanted {
            return Err(PyValueError::new_err(format!(
                "a step must return {wanted} gradients, returned {}",
                arrays.len()
            )));
        }
        gradients.resize_with(values.len(), Vec::new);
        let (of_matrices, of_parameters) = arrays.split_at(matrices.len());
        for (matrix, found) in matrices.iter().zip(of_matrices) {
            matrix.copy_gradient(found.as_slice()?, values, gradients)?;
        }
        for (place, table) in self.columns.tables.iter().enumerate() {
            add_penalty(table.regularizer, &values[place], &mut gradients[place]);
        }
        for (gradient, found) in gradients[first..].iter_mut().zip(of_parameters) {
            gradient.clear();
            gradient.extend_from_slice(found.as_slice()?);
        }
        Ok(())
    }

    fn failed(&self, python: Python<'_>, error: PyErr, features: &Features) -> Error {
        let Position { pass, shard, batch } = features.position;
        let place = format!("the batch {batch} of shard {shard}, in pass {pass}");
        failed(python, error, &place)
    }
}

/// Refuses a metric of the user's own that has the name of one that the head reports.
fn refuse_names_of_the_head(of_head: &Scores, own: &Scores) -> Result<(), Error> {
    match own.keys().find(|name| of_head.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(Error::Invalid(format!(
            "the model's own metric `{name}` has the name of a metric that the head reports: give it another name"
        ))),
    }
}

/// Refuses an output of the user's own that has the name of a prediction.
fn refuse_names_of_predictions(heads: &Heads, outputs: &[String]) -> Result<(), Error> {
    let predictions = heads.predict(&vec![0.0; heads.units()]);
    let names: Vec<&str> = predictions.keys().map(String::as_str).collect();
    match outputs.iter().find(|name| names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::Invalid(format!(
            "the output `{name}` of forward has the name of a prediction of the head, which are {}: give it another name",
            names.join(", ")
        ))),
    }
}

/// Adds the outputs of the user's own to the predictions of a row. Their names differ.
fn with_others(
    (mut predictions, others): (BTreeMap<String, Prediction>, BTreeMap<String, Prediction>),
) -> BTreeMap<String, Prediction> {
    predictions.extend(others);
    predictions
}

/// Copies an array of 32-bit floats.
fn floats(array: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let array = array.cast::<PyArray1<f32>>()?.try_readonly()?;
    Ok(array.as_slice()?.to_vec())
}

impl Model for PythonModel {
    type Features = Features;
    type Scratch = Vec<f32>;
    type Metrics = Metrics;

    fn variables(&self) -> &[VariableSpec] {
        &self.variables.specs
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        self.variables.optimizers.clone()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn serving_schema(&self) -> &Schema {
        &self.serving_schema
    }

    fn features(&self, batch: &Batch) -> Result<Features, Error> {
        let labelled = batch.columns.len() == self.schema.fields.len();
        let labels = labelled
            .then(|| self.heads.labels(batch, &self.label_fields))
            .transpose()?;
        let field = self.weight_field.filter(|_| labelled);
        let weights = match field.map(|field| &batch.columns[field].cells) {
            Some(Cells::Float(weights)) => Some(weights.clone()),
            _ => None,
        };
        let weights = labelled
            .then(|| self.heads.weights(batch, &self.label_fields, weights))
            .flatten();
        let field = self.group_field.filter(|_| labelled);
        let groups = match field.map(|field| &batch.columns[field].cells) {
            Some(Cells::Bytes(texts)) => {
                let rows = 0..texts.len();
                Some(rows.map(|row| fingerprint64(texts.get(row))).collect())
            }
            _ => None,
        };
        let columns = self.columns.transform(batch)?;
        Ok(Features {
            rows: batch.rows,
            lookups: self.columns.lookups(&columns),
            numbers: columns.numbers,
            labels,
            weights,
            groups,
            position: batch.position,
        })
    }

    fn reads(&self, features: &Features) -> Reads {
        let whole = |spec: &VariableSpec| match spec.access {
            Access::Whole => Read::Whole,
            Access::Rows | Access::Dynamic(_) => Read::Nothing,
        };
        let mut reads: Reads = self.variables.specs.iter().map(whole).collect();
        features.lookups.read(&mut reads);
        reads
    }

    fn train(
        &self,
        features: &Features,
        values: &Values,
        gradients: &mut Gradients,
        delta: &mut Vec<f32>,
    ) -> Result<Outcome, Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        let module = self.module();
        let loss = Python::attach(|python| {
            let mut step = || {
                let module = module.bind(python);
                let batch = self.batch(python, features)?;
                let read = values;
                let values = self.values(python, read)?;
                let weights = features.weights.as_deref();
                let (loss, found) = match self.loss {
                    Loss::Module => {
                        let labels = PyArray1::from_slice(python, labels);
                        let weights = weights.map(|weights| PyArray1::from_slice(python, weights));
                        module
                            .call_method1("train", (batch, values, labels, weights))?
                            .extract()?
                    }
                    Loss::Head => {
                        let logits = module.call_method1("forward", (batch, values))?;
                        let loss = self.heads.loss(&floats(&logits)?, labels, weights, delta);
                        let delta = PyArray1::from_slice(python, delta);
                        let found: Bound<'_, PyList> =
                            module.call_method1("backward", (delta,))?.extract()?;
                        (loss, found)
                    }
                };
                self.copy_gradients(&found, read, gradients)?;
                Ok(loss)
            };
            step().map_err(|error| self.failed(python, error, features))
        })?;
        Ok(Outcome {
            loss,
            examples: features.rows,
        })
    }

    fn metrics(&self) -> Metrics {
        Metrics::default()
    }

    fn evaluate(
        &self,
        features: &Features,
        values: &Values,
        metrics: &mut Metrics,
        _scratch: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        let weights = features.weights.as_deref();
        let is_first = metrics.own.is_none();
        let own = &mut metrics.own;
        let scores = &mut metrics.scores;
        let module = self.module();
        let logits = Python::attach(|python| {
            let mut evaluate = || {
                let module = module.bind(python);
                let batch = self.batch(python, features)?;
                let values = self.values(python, values)?;
                let labels = PyArray1::from_slice(python, labels);
                let weights = weights.map(|weights| PyArray1::from_slice(python, weights));
                let sums = match own.take() {
                    Some(sums) => sums,
                    None => module.call_method0("metrics")?.unbind(),
                };
                let sums = own.insert(sums).bind(python);
                let (logits, found): (Bound<'_, PyAny>, Scores) = module
                    .call_method1("evaluate", (batch, values, labels, weights, sums))?
                    .extract()?;
                *scores = found;
                (!logits.is_none()).then(|| floats(&logits)).transpose()
            };
            evaluate().map_err(|error| self.failed(python, error, features))
        })?;
        if let Some(logits) = logits {
            let of_heads = metrics.of_heads.get_or_insert_with(|| self.heads.metrics());
            let groups = features.groups.as_deref();
            self.heads.add(of_heads, &logits, labels, weights, groups);
            if is_first {
                refuse_names_of_the_head(&self.heads.scores(of_heads), &metrics.scores)?;
            }
        }
        Ok(())
    }

    fn scores(&self, metrics: &Metrics) -> Scores {
        let of_heads = metrics.of_heads.as_ref();
        let mut scores = of_heads.map_or_else(Scores::default, |found| self.heads.scores(found));
        scores.extend(metrics.scores.clone());
        scores
    }

    fn predict(
        &self,
        features: &Features,
        values: &Values,
        _scratch: &mut Vec<f32>,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        let module = self.module();
        Python::attach(|python| {
            let predict = || {
                let batch = self.batch(python, features)?;
                let values = self.values(python, values)?;
                let found = module
                    .bind(python)
                    .call_method1("predict", (batch, values))?;
                if let Ok(found) = found.cast::<PyDict>() {
                    return by_row(found, features.rows);
                }
                let both: Option<(Bound<'_, PyAny>, Bound<'_, PyDict>)> = found.extract().ok();
                let logits = floats(both.as_ref().map_or(&found, |(logits, _)| logits))?;
                let rows = logits.chunks_exact(self.heads.units());
                let predictions = rows.map(|logits| self.heads.predict(logits));
                match both {
                    None => Ok(predictions.collect()),
                    Some((_, others)) => {
                        let others = by_row(&others, features.rows)?;
                        Ok(predictions.zip(others).map(with_others).collect())
                    }
                }
            };
            predict().map_err(|error| self.failed(python, error, features))
        })
    }

    fn describe(&self) -> serde_json::Value {
        self.description.clone()
    }

    fn constants(&self) -> BTreeMap<String, String> {
        self.constants.clone()
    }

    fn described_features(&self) -> &[FeatureConfig] {
        self.columns.features()
    }

    fn callbacks(&self) -> Option<&dyn Callbacks> {
        self.callbacks.as_ref().map(|own| own as &dyn Callbacks)
    }
}
