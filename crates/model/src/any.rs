//! A model of any kind behind one type, so that what trains, scores and serves models is compiled once and not for each of
//! them. What that costs is a call through a pointer a step, and a box a batch.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

use trainyard_input::{Batch, Schema};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::Job;
use trainyard_variable::{Gradients, Reads, Values, VariableSpec};

use crate::{
    Canned, Error, GraphRow, HashedColumns, Model, OnGradient, OnnxModel, Outcome, Prediction, Scores,
};

/// Makes the model of a job.
pub type Build = &'static (dyn Fn(&Job) -> Result<AnyModel, Error> + Send + Sync);

/// What a model keeps for itself: its features, buffers or sums.
pub(crate) type Own = Box<dyn Any + Send>;

/// A [`Model`] of any kind.
pub struct AnyModel(Box<dyn Erased>);

impl AnyModel {
    /// Takes a model.
    pub fn new(model: impl Model) -> Self {
        Self(Box::new(model))
    }

    /// The premade estimators, each as its job says.
    pub const PREMADE: Build = &|job| Canned::from_job(job).map(Self::new);

    /// Returns what makes models of a kind of the user's own. It lives as long as the process, which is of that kind.
    pub fn of<M: Model>(build: fn(&Job) -> Result<M, Error>) -> Build {
        Box::leak(Box::new(move |job: &Job| build(job).map(Self::new)))
    }
}

impl fmt::Debug for AnyModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AnyModel").field(&self.0.describe()).finish()
    }
}

/// [`Model`] with its own types out of sight.
trait Erased: Send + Sync {
    fn variables(&self) -> &[VariableSpec];
    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig>;
    fn schema(&self) -> &Schema;
    fn serving_schema(&self) -> &Schema;
    fn features(&self, batch: &Batch) -> Result<Own, Error>;
    fn reads(&self, features: &Own) -> Reads;
    fn train(
        &self,
        features: &Own,
        values: &Values,
        gradients: &mut Gradients,
        scratch: &mut Option<Own>,
        tell: Option<&mut OnGradient<'_>>,
    ) -> Result<Outcome, Error>;
    fn metrics(&self) -> Own;
    fn evaluate(
        &self,
        features: &Own,
        values: &Values,
        metrics: &mut Own,
        scratch: &mut Option<Own>,
    ) -> Result<(), Error>;
    fn scores(&self, metrics: &Own) -> Scores;
    fn predict(
        &self,
        features: &Own,
        values: &Values,
        scratch: &mut Option<Own>,
    ) -> Vec<BTreeMap<String, Prediction>>;
    fn describe(&self) -> serde_json::Value;
    fn to_onnx(&self, values: &Values, hashed: HashedColumns) -> Result<OnnxModel, Error>;
    fn graph_rows(&self, batch: &Batch) -> Result<Vec<GraphRow>, Error>;
}

/// Why a box always holds what is looked for in it.
const OWN: &str = "a model is given what it has made";

fn own<T: 'static>(held: &Own) -> &T {
    held.downcast_ref().expect(OWN)
}

fn scratch<T: Send + Default + 'static>(held: &mut Option<Own>) -> &mut T {
    held.get_or_insert_with(|| Box::new(T::default())).downcast_mut().expect(OWN)
}

impl<M: Model> Erased for M {
    fn variables(&self) -> &[VariableSpec] {
        Model::variables(self)
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        Model::optimizers(self)
    }

    fn schema(&self) -> &Schema {
        Model::schema(self)
    }

    fn serving_schema(&self) -> &Schema {
        Model::serving_schema(self)
    }

    fn features(&self, batch: &Batch) -> Result<Own, Error> {
        Ok(Box::new(Model::features(self, batch)?))
    }

    fn reads(&self, features: &Own) -> Reads {
        Model::reads(self, own(features))
    }

    fn train(
        &self,
        features: &Own,
        values: &Values,
        gradients: &mut Gradients,
        held: &mut Option<Own>,
        tell: Option<&mut OnGradient<'_>>,
    ) -> Result<Outcome, Error> {
        match tell {
            None => Model::train(self, own(features), values, gradients, scratch(held)),
            Some(tell) => Model::train_telling(self, own(features), values, gradients, scratch(held), tell),
        }
    }

    fn metrics(&self) -> Own {
        Box::new(Model::metrics(self))
    }

    fn evaluate(
        &self,
        features: &Own,
        values: &Values,
        metrics: &mut Own,
        held: &mut Option<Own>,
    ) -> Result<(), Error> {
        let metrics = metrics.downcast_mut().expect(OWN);
        Model::evaluate(self, own(features), values, metrics, scratch(held))
    }

    fn scores(&self, metrics: &Own) -> Scores {
        Model::scores(self, own(metrics))
    }

    fn predict(
        &self,
        features: &Own,
        values: &Values,
        held: &mut Option<Own>,
    ) -> Vec<BTreeMap<String, Prediction>> {
        Model::predict(self, own(features), values, scratch(held))
    }

    fn describe(&self) -> serde_json::Value {
        Model::describe(self)
    }

    fn to_onnx(&self, values: &Values, hashed: HashedColumns) -> Result<OnnxModel, Error> {
        Model::to_onnx(self, values, hashed)
    }

    fn graph_rows(&self, batch: &Batch) -> Result<Vec<GraphRow>, Error> {
        Model::graph_rows(self, batch)
    }
}

impl Model for AnyModel {
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
        self.0.features(batch)
    }

    fn reads(&self, features: &Own) -> Reads {
        self.0.reads(features)
    }

    fn train(
        &self,
        features: &Own,
        values: &Values,
        gradients: &mut Gradients,
        scratch: &mut Option<Own>,
    ) -> Result<Outcome, Error> {
        self.0.train(features, values, gradients, scratch, None)
    }

    fn train_telling(
        &self,
        features: &Own,
        values: &Values,
        gradients: &mut Gradients,
        scratch: &mut Option<Own>,
        tell: &mut OnGradient<'_>,
    ) -> Result<Outcome, Error> {
        self.0.train(features, values, gradients, scratch, Some(tell))
    }

    fn metrics(&self) -> Own {
        self.0.metrics()
    }

    fn evaluate(
        &self,
        features: &Own,
        values: &Values,
        metrics: &mut Own,
        scratch: &mut Option<Own>,
    ) -> Result<(), Error> {
        self.0.evaluate(features, values, metrics, scratch)
    }

    fn scores(&self, metrics: &Own) -> Scores {
        self.0.scores(metrics)
    }

    fn predict(
        &self,
        features: &Own,
        values: &Values,
        scratch: &mut Option<Own>,
    ) -> Vec<BTreeMap<String, Prediction>> {
        self.0.predict(features, values, scratch)
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
