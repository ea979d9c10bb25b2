//! The premade estimators: a linear part, a deep part or both, under a head.

use std::collections::BTreeMap;

use serde_json::json;
use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_input::{Batch, Column, FieldKind, Schema};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::{Job, LabelConfig, OptimizerSection};
use trainyard_variable::{Access, Gradients, Read, Reads, Values, VariableSpec};

use crate::dnn::{self, Dnn};
use crate::linear::{self, Linear};
use crate::{Error, Head, HeadMetrics, Model, Outcome, Prediction, Scores};

/// TensorFlow 1's learning rate of the deep part's Adagrad.
const DNN_LEARNING_RATE: f64 = 0.05;

/// `LinearClassifier`, `LinearRegressor`, `DNNClassifier`, `DNNRegressor`, `DNNLinearCombinedClassifier` or
/// `DNNLinearCombinedRegressor`, as a job describes it.
#[derive(Debug, Clone)]
pub struct Canned {
    columns: FeatureColumns,
    schema: Schema,
    serving_schema: Schema,
    label: LabelConfig,
    label_field: usize,
    weight_field: Option<usize>,
    variables: Vec<VariableSpec>,
    optimizers: BTreeMap<String, OptimizerConfig>,
    linear: Option<Linear>,
    dnn: Option<Dnn>,
    head: Head,
    description: serde_json::Value,
}

/// A batch made ready for a premade estimator.
#[derive(Debug, Clone)]
pub struct Example {
    /// Numbers and ids.
    pub columns: Features,
    /// Labels, where the batch has them.
    pub labels: Option<Vec<f32>>,
    /// Weights, where the job names a column of them.
    pub weights: Option<Vec<f32>>,
}

/// Buffers of a step.
#[derive(Debug, Default)]
pub struct Scratch {
    logits: Vec<f32>,
    delta: Vec<f32>,
    dnn: dnn::Workspace,
}

impl Canned {
    /// Builds the model of a job.
    ///
    /// # Errors
    /// An optimizer out of range, no feature for a part, or a job of a custom model.
    pub fn from_job(job: &Job) -> Result<Self, Error> {
        if job.model.kind.is_custom() {
            let message =
                "model.kind says that the program brings the model along; this one has premade models";
            return Err(Error::Invalid(message.to_owned()));
        }
        let head = Head::new(&job.model, &job.input.label);
        let mut serving_schema = Schema::default();
        let columns = FeatureColumns::new(&job.features, &mut serving_schema);
        let mut schema = serving_schema.clone();
        let label_field = head.want(&job.input.label, &mut schema);
        let weight = job.input.weight_column.as_ref();
        let weight_field = weight.map(|column| schema.want(column, FieldKind::Float { default: None }));
        let (kind, units) = (job.model.kind, head.units());
        let (mut variables, mut optimizers) = (Vec::new(), BTreeMap::new());
        let wide = columns.numeric.iter().filter(|column| column.wide).count()
            + columns.categorical.iter().filter(|column| column.wide).count();
        let mut linear = None;
        if kind.has_linear() {
            linear = Some(Linear::new(&columns, units, &mut variables));
            let most: f64 = if kind.has_dnn() { 0.005 } else { 0.2 };
            let rate = most.min(1.0 / (wide.max(1) as f64).sqrt());
            optimizers.insert(linear::GROUP.to_owned(), optimizer(&job.model.linear_optimizer, rate)?);
        }
        let mut dnn = None;
        if kind.has_dnn() {
            dnn = Some(Dnn::new(&columns, &job.model.hidden_units, units, &mut variables));
            optimizers.insert(dnn::GROUP.to_owned(), optimizer(&job.model.dnn_optimizer, DNN_LEARNING_RATE)?);
        }
        let label = job.input.label.clone();
        let description = json!({"model": job.model, "features": job.features, "label": label});
        Ok(Self {
            columns,
            schema,
            serving_schema,
            label,
            label_field,
            weight_field,
            variables,
            optimizers,
            linear,
            dnn,
            head,
            description,
        })
    }

    /// Computes the logits, `rows x units`, into the scratch.
    fn forward(&self, features: &Features, values: &Values, scratch: &mut Scratch) {
        scratch.logits.clear();
        scratch.logits.resize(features.rows * self.head.units(), 0.0);
        if let Some(linear) = &self.linear {
            linear.forward(features, values, &mut scratch.logits);
        }
        if let Some(dnn) = &self.dnn {
            dnn.forward(features, values, &mut scratch.logits, &mut scratch.dnn);
        }
    }
}

impl Model for Canned {
    type Features = Example;
    type Scratch = Scratch;
    type Metrics = HeadMetrics;

    fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        self.optimizers.clone()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn serving_schema(&self) -> &Schema {
        &self.serving_schema
    }

    fn features(&self, batch: &Batch) -> Result<Example, Error> {
        let labelled = batch.columns.len() > self.label_field.max(self.serving_schema.fields.len() - 1);
        let labels = labelled.then(|| self.head.labels(batch, self.label_field, &self.label)).transpose()?;
        let weights = match self.weight_field.filter(|_| labelled).map(|field| &batch.columns[field]) {
            Some(Column::Float(weights)) => Some(weights.clone()),
            _ => None,
        };
        Ok(Example { columns: self.columns.transform(batch)?, labels, weights })
    }

    fn reads(&self, features: &Example) -> Reads {
        let whole =
            |spec: &VariableSpec| if spec.access == Access::Whole { Read::Whole } else { Read::Nothing };
        let mut reads: Reads = self.variables.iter().map(whole).collect();
        if let Some(linear) = &self.linear {
            linear.reads(&features.columns, &mut reads);
        }
        if let Some(dnn) = &self.dnn {
            dnn.reads(&features.columns, &mut reads);
        }
        reads
    }

    fn train(
        &self,
        features: &Example,
        values: &Values,
        gradients: &mut Gradients,
        scratch: &mut Scratch,
    ) -> Result<Outcome, Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        self.forward(&features.columns, values, scratch);
        let loss = self.head.loss(&scratch.logits, labels, features.weights.as_deref(), &mut scratch.delta);
        gradients.resize_with(values.len(), Vec::new);
        for (gradient, value) in gradients.iter_mut().zip(values) {
            gradient.clear();
            gradient.resize(value.len(), 0.0);
        }
        if let Some(linear) = &self.linear {
            linear.backward(&features.columns, &scratch.delta, gradients);
        }
        if let Some(dnn) = &self.dnn {
            dnn.backward(&features.columns, values, &scratch.delta, gradients, &mut scratch.dnn);
        }
        Ok(Outcome { loss, examples: features.columns.rows })
    }

    fn metrics(&self) -> HeadMetrics {
        HeadMetrics::default()
    }

    fn evaluate(
        &self,
        features: &Example,
        values: &Values,
        metrics: &mut HeadMetrics,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        self.forward(&features.columns, values, scratch);
        metrics.add(&self.head, &scratch.logits, labels, features.weights.as_deref());
        Ok(())
    }

    fn scores(&self, metrics: &HeadMetrics) -> Scores {
        metrics.scores(&self.head)
    }

    fn predict(
        &self,
        features: &Example,
        values: &Values,
        scratch: &mut Scratch,
    ) -> Vec<BTreeMap<String, Prediction>> {
        self.forward(&features.columns, values, scratch);
        scratch.logits.chunks_exact(self.head.units()).map(|logits| self.head.predict(logits)).collect()
    }

    fn describe(&self) -> serde_json::Value {
        self.description.clone()
    }
}

/// Returns the optimizer of `[model.optimizer]`, TensorFlow's defaults filled in; Adagrad with a learning rate of 0.05
/// where the job names none.
///
/// # Errors
/// A hyper-parameter out of range.
pub fn custom_optimizer(job: &Job) -> Result<OptimizerConfig, Error> {
    let none = OptimizerSection { kind: "adagrad".to_owned(), values: Vec::new() };
    optimizer(job.model.optimizer.as_ref().unwrap_or(&none), DNN_LEARNING_RATE)
}

/// Fills TensorFlow's defaults into an optimizer as written.
fn optimizer(section: &OptimizerSection, learning_rate: f64) -> Result<OptimizerConfig, Error> {
    let defaults: &[(&str, f64)] = match section.kind.as_str() {
        "adagrad" => &[("initial_accumulator_value", 0.1)],
        "adam" => &[("learning_rate", 0.001), ("beta1", 0.9), ("beta2", 0.999), ("epsilon", 1e-8)],
        "ftrl" => &[
            ("learning_rate_power", -0.5),
            ("initial_accumulator_value", 0.1),
            ("l1_regularization_strength", 0.0),
            ("l2_regularization_strength", 0.0),
            ("l2_shrinkage_regularization_strength", 0.0),
            ("beta", 0.0),
        ],
        _ => &[],
    };
    let mut fields = serde_json::Map::from_iter([("kind".to_owned(), json!(section.kind))]);
    fields.insert("learning_rate".to_owned(), json!(learning_rate));
    for (name, value) in defaults {
        fields.insert((*name).to_owned(), json!(value));
    }
    for (name, value) in &section.values {
        fields.insert(name.clone(), json!(value));
    }
    let config: OptimizerConfig = serde_json::from_value(fields.into())
        .map_err(|error| Error::Invalid(format!("optimizer `{}`: {error}", section.kind)))?;
    config.validate().map_err(|error| Error::Invalid(format!("optimizer `{}`: {error}", section.kind)))?;
    Ok(config)
}
