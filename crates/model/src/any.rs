//! Type erasure of models, so that code that trains, evaluates or serves models is compiled once instead of once per
//! model. The cost is a virtual call per step and a box per batch.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trainyard_input::{Batch, Schema};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::{FeatureConfig, Job};
use trainyard_variable::{Gradients, Reads, Values, VariableSpec};

use crate::{
    Callbacks, Canned, Error, ExportOnnx, HookedGradients, Model, Outcome, Prediction, Scores,
};

/// Type-erased features, buffers or metrics of a model.
pub type Own = Box<dyn Any + Send>;

/// A model with its associated types erased.
pub trait ErasedModel: Model<Features = Own, Scratch = Option<Own>, Metrics = Own> {
    /// Returns the interface that exports the model as an ONNX graph.
    ///
    /// # Errors
    /// The model has none.
    fn onnx(&self) -> Result<&dyn ExportOnnx, Error>;

    /// Returns the premade estimator, if the model is one. Only these are exported as SavedModels.
    fn premade(&self) -> Option<&Canned>;
}

/// A [`Model`] of any kind.
pub type AnyModel = dyn ErasedModel;

/// Returns a job with the constants of its model, by which tasks compare their models. Without constants it is the job itself.
pub fn with_constants<'a>(job: &'a Job, model: &AnyModel) -> Cow<'a, Job> {
    let constants = model.constants();
    if constants.is_empty() {
        return Cow::Borrowed(job);
    }
    let mut job = job.clone();
    job.model.constants = constants;
    Cow::Owned(job)
}

/// Puts the job [`with_constants`] in the place of a job.
pub fn add_constants(job: &mut Arc<Job>, model: &AnyModel) {
    let own = match with_constants(job, model) {
        Cow::Owned(own) => Arc::new(own),
        Cow::Borrowed(_) => return,
    };
    *job = own;
}

/// Builds the model of a job.
pub type Build = &'static (dyn Fn(&Job) -> Result<Box<AnyModel>, Error> + Send + Sync);

/// Builds the premade estimator that the job names.
pub const PREMADE: Build = &|job| any(Canned::from_job(job)?);

/// Erases the type of a model. Of these, the premade estimators can be exported as ONNX graphs.
///
/// # Errors
/// Two variables of the model have one name.
pub fn any(model: impl Model) -> Result<Box<AnyModel>, Error> {
    erased(model, premade, None)
}

/// As [`any`], with callbacks in the place of the model's own.
///
/// # Errors
/// Two variables of the model have one name.
pub fn any_with_callbacks(
    model: impl Model,
    callbacks: Box<dyn Callbacks>,
) -> Result<Box<AnyModel>, Error> {
    erased(model, premade, Some(callbacks))
}

/// Erases the type of the models that a function builds. The function is leaked, because a process has a single kind of
/// model.
pub fn any_of<M: Model>(build: fn(&Job) -> Result<M, Error>) -> Build {
    Box::leak(Box::new(move |job: &Job| any(build(job)?)))
}

/// As [`any_of`], for custom models that can be exported as ONNX graphs.
pub fn exportable_of<M: Model + ExportOnnx>(build: fn(&Job) -> Result<M, Error>) -> Build {
    Box::leak(Box::new(move |job: &Job| {
        erased(build(job)?, |model| Ok(model), None)
    }))
}

fn erased<M: Model>(
    model: M,
    onnx: fn(&M) -> Result<&dyn ExportOnnx, Error>,
    callbacks: Option<Box<dyn Callbacks>>,
) -> Result<Box<AnyModel>, Error> {
    let mut variables = model.variables().to_vec();
    let shared: Vec<VariableSpec> = variables
        .iter()
        .filter_map(VariableSpec::shared_row)
        .collect();
    variables.extend(shared);
    check_names(&variables)?;
    Ok(Box::new(Erased {
        model,
        variables,
        onnx,
        callbacks,
    }))
}

/// Refuses two variables of one name: the training of one of them would be lost.
fn check_names(variables: &[VariableSpec]) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    match variables.iter().find(|spec| !names.insert(&spec.name)) {
        None => Ok(()),
        Some(spec) => Err(Error::Invalid(format!(
            "the model has two variables of the name `{}`: rename one",
            spec.name
        ))),
    }
}

/// Returns a premade estimator as a model that can be exported. Any other model cannot.
fn premade<M: Model>(model: &M) -> Result<&dyn ExportOnnx, Error> {
    let model: &dyn Any = model;
    let premade = model.downcast_ref::<Canned>();
    premade
        .map(|premade| premade as &dyn ExportOnnx)
        .ok_or(Error::NoGraph)
}

/// A model whose associated types are boxed.
struct Erased<M> {
    model: M,
    /// The variables of the model, and then the shared rows of its dynamic tables. The model does not know them: what it
    /// receives for an id without a row are the values of the shared row.
    variables: Vec<VariableSpec>,
    onnx: fn(&M) -> Result<&dyn ExportOnnx, Error>,
    callbacks: Option<Box<dyn Callbacks>>,
}

/// Reason why a downcast cannot fail.
const OWN: &str = "a model is given what it has made";

fn own<T: 'static>(held: &Own) -> &T {
    held.downcast_ref().expect(OWN)
}

fn scratch<T: Send + Default + 'static>(held: &mut Option<Own>) -> &mut T {
    held.get_or_insert_with(|| Box::new(T::default()))
        .downcast_mut()
        .expect(OWN)
}

impl<M: Model> ErasedModel for Erased<M> {
    fn onnx(&self) -> Result<&dyn ExportOnnx, Error> {
        (self.onnx)(&self.model)
    }

    fn premade(&self) -> Option<&Canned> {
        let model: &dyn Any = &self.model;
        model.downcast_ref()
    }
}

impl<M: Model> Model for Erased<M> {
    type Features = Own;
    type Scratch = Option<Own>;
    type Metrics = Own;

    fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        self.model.optimizers()
    }

    fn schema(&self) -> &Schema {
        self.model.schema()
    }

    fn serving_schema(&self) -> &Schema {
        self.model.serving_schema()
    }

    fn features(&self, batch: &Batch) -> Result<Own, Error> {
        Ok(Box::new(self.model.features(batch)?))
    }

    fn reads(&self, features: &Own) -> Reads {
        self.model.reads(own(features))
    }

    fn train(
        &self,
        features: &Own,
        values: &Values,
        gradients: &mut Gradients,
        held: &mut Option<Own>,
    ) -> Result<Outcome, Error> {
        self.model
            .train(own(features), values, gradients, scratch(held))
    }

    fn train_hooked(
        &self,
        features: &Own,
        values: &Values,
        hooked: &mut HookedGradients<'_>,
        held: &mut Option<Own>,
    ) -> Result<Outcome, Error> {
        self.model
            .train_hooked(own(features), values, hooked, scratch(held))
    }

    fn metrics(&self) -> Own {
        Box::new(self.model.metrics())
    }

    fn evaluate(
        &self,
        features: &Own,
        values: &Values,
        metrics: &mut Own,
        held: &mut Option<Own>,
    ) -> Result<(), Error> {
        let metrics = metrics.downcast_mut().expect(OWN);
        self.model
            .evaluate(own(features), values, metrics, scratch(held))
    }

    fn scores(&self, metrics: &Own) -> Scores {
        self.model.scores(own(metrics))
    }

    fn predict(
        &self,
        features: &Own,
        values: &Values,
        held: &mut Option<Own>,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        self.model.predict(own(features), values, scratch(held))
    }

    fn describe(&self) -> serde_json::Value {
        self.model.describe()
    }

    fn described_features(&self) -> &[FeatureConfig] {
        self.model.described_features()
    }

    fn constants(&self) -> BTreeMap<String, String> {
        self.model.constants()
    }

    fn callbacks(&self) -> Option<&dyn Callbacks> {
        match &self.callbacks {
            Some(callbacks) => Some(&**callbacks),
            None => self.model.callbacks(),
        }
    }
}
