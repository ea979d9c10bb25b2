//! Type erasure of models, so that code that trains, evaluates or serves models is compiled once instead of once per
//! model. The cost is a virtual call per step and a box per batch.

use std::any::Any;
use std::collections::BTreeMap;

use trainyard_input::{Batch, Schema};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::Job;
use trainyard_variable::{Gradients, Reads, Values, VariableSpec};

use crate::{
    Canned, Error, GraphRow, HashedColumns, Model, OnGradient, OnnxModel, Outcome, Prediction,
    Scores,
};

/// Type-erased features, buffers or metrics of a model.
pub type Own = Box<dyn Any + Send>;

/// A [`Model`] of any kind, with its associated types erased.
pub type AnyModel = dyn Model<Features = Own, Scratch = Option<Own>, Metrics = Own>;

/// Builds the model of a job.
pub type Build = &'static (dyn Fn(&Job) -> Result<Box<AnyModel>, Error> + Send + Sync);

/// Builds the premade estimator that the job names.
pub const PREMADE: Build = &|job| Ok(any(Canned::from_job(job)?));

/// Erases the type of a model.
pub fn any(model: impl Model) -> Box<AnyModel> {
    Box::new(Hidden(model))
}

/// Erases the type of the models that a function builds. The function is leaked, because a process has a single kind of
/// model.
pub fn any_of<M: Model>(build: fn(&Job) -> Result<M, Error>) -> Build {
    Box::leak(Box::new(move |job: &Job| Ok(any(build(job)?))))
}

struct Hidden<M>(M);

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

impl<M: Model> Model for Hidden<M> {
    type Features = Own;
    type Scratch = Option<Own>;
    type Metrics = Own;

    fn variables(&self) -> &[VariableSpec] {
        self.0.variables()
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        self.0.optimizers()
    }

    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn serving_schema(&self) -> &Schema {
        self.0.serving_schema()
    }

    fn features(&self, batch: &Batch) -> Result<Own, Error> {
        Ok(Box::new(self.0.features(batch)?))
    }

    fn reads(&self, features: &Own) -> Reads {
        self.0.reads(own(features))
    }

    fn train(
        &self,
        features: &Own,
        values: &Values,
        gradients: &mut Gradients,
        held: &mut Option<Own>,
    ) -> Result<Outcome, Error> {
        self.0
            .train(own(features), values, gradients, scratch(held))
    }

    fn train_telling(
        &self,
        features: &Own,
        values: &Values,
        gradients: &mut Gradients,
        held: &mut Option<Own>,
        tell: &mut OnGradient<'_>,
    ) -> Result<Outcome, Error> {
        self.0
            .train_telling(own(features), values, gradients, scratch(held), tell)
    }

    fn metrics(&self) -> Own {
        Box::new(self.0.metrics())
    }

    fn evaluate(
        &self,
        features: &Own,
        values: &Values,
        metrics: &mut Own,
        held: &mut Option<Own>,
    ) -> Result<(), Error> {
        let metrics = metrics.downcast_mut().expect(OWN);
        self.0
            .evaluate(own(features), values, metrics, scratch(held))
    }

    fn scores(&self, metrics: &Own) -> Scores {
        self.0.scores(own(metrics))
    }

    fn predict(
        &self,
        features: &Own,
        values: &Values,
        held: &mut Option<Own>,
    ) -> Vec<BTreeMap<String, Prediction>> {
        self.0.predict(own(features), values, scratch(held))
    }

    fn describe(&self) -> serde_json::Value {
        self.0.describe()
    }

    fn to_onnx(&self, values: &Values, hashed: HashedColumns) -> Result<OnnxModel, Error> {
        self.0.to_onnx(values, hashed)
    }

    fn graph_rows(&self, batch: &Batch) -> Result<Vec<GraphRow>, Error> {
        self.0.graph_rows(batch)
    }
}
