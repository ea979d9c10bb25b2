//! The premade estimators: a linear part, a deep part, or both, with a head.

use std::collections::BTreeMap;

use serde_json::json;
use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_input::{Batch, MissingValues, Position, Schema};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::{
    Defaults, Family, FeatureConfig, Job, ModelConfig, OptimizerSection, Regularizer,
};
use trainyard_tensor::{join, multiply, multiply_rows};
use trainyard_variable::{
    Access, FROZEN, Gradients, MOVING_AVERAGE, Read, Reads, Values, VariableSpec,
};

use crate::composition::{self, Composition};
use crate::cross_layer::{self, CrossLayers};
use crate::factorization::Factorization;
use crate::onnx_limits::check_exporters;
use crate::records::{Example, Records};
use crate::tower::{self, Tower};
use crate::{
    Error, HeadMetrics, Heads, HookedGradients, InputLayer, LinearModel, Model, Outcome,
    Prediction, Scores, VariableScope, table,
};

/// Optimizer group of the linear part.
const LINEAR: &str = "linear";
/// Optimizer group of the deep part.
const DNN: &str = "dnn";
/// Scope of the embedding tables of the deep part.
const INPUT_SCOPE: &str = "dnn/input_from_feature_columns/input_layer";

/// A premade estimator as a job describes it: baseline, linear, DNN, combined, factorization machine, DeepFM, DCN, or
/// a composition of layers.
#[derive(Debug, Clone)]
pub struct Canned {
    pub(crate) records: Records,
    seed: u64,
    pub(crate) variables: Vec<VariableSpec>,
    optimizers: BTreeMap<String, OptimizerConfig>,
    pub(crate) linear: Option<LinearModel>,
    /// Penalty of the weights of the linear part.
    linear_regularizer: Option<Regularizer>,
    pub(crate) deep: Option<Deep>,
    pub(crate) heads: Heads,
    /// A step overwrites all of a variable's gradient, which then need not be cleared.
    written: Vec<bool>,
    description: serde_json::Value,
    features: Vec<FeatureConfig>,
    /// Values that stand for a missing one. The reader of records knows them; a graph has to.
    pub(crate) missing: MissingValues,
}

/// The deep part.
#[derive(Debug, Clone)]
pub(crate) struct Deep {
    pub(crate) input: InputLayer,
    pub(crate) factorization: Option<Factorization>,
    pub(crate) cross: Option<CrossLayers>,
    pub(crate) tower: Option<Tower>,
    /// All layers of a model that none of the above belongs to.
    pub(crate) composition: Option<Composition>,
}

/// Buffers of a step.
#[derive(Debug, Default)]
pub struct Scratch {
    logits: Vec<f32>,
    delta: Vec<f32>,
    input: Vec<f32>,
    input_delta: Vec<f32>,
    tower: tower::Workspace,
    cross: cross_layer::Workspace,
    composition: composition::Workspace,
}

impl Canned {
    /// Builds the model of a job.
    ///
    /// # Errors
    /// An optimizer value is out of range, a part has no feature, the model cannot have the head, or the job has a
    /// custom model.
    pub fn from_job(job: &Job) -> Result<Self, Error> {
        if job.model.kind.is_custom() {
            let message = "model.kind says that the program brings the model along; this one has premade models";
            return Err(Error::Invalid(message.to_owned()));
        }
        let model = &job.model;
        let heads = Heads::new(job);
        let records = Records::new(job, &job.features, heads.clone());
        let columns = &records.columns;
        check_exporters(job, columns)?;
        let mut variables = Vec::new();
        let mut optimizers = BTreeMap::new();
        let linear = linear(
            model,
            columns,
            heads.units(),
            &mut variables,
            &mut optimizers,
        )?;
        let deep = if model.kind.has_deep() {
            Some(deep(
                model,
                columns,
                &heads.units_of_each(),
                &mut variables,
                &mut optimizers,
            )?)
        } else {
            None
        };
        if model.batch_norm {
            optimizers.insert(MOVING_AVERAGE.to_owned(), OptimizerConfig::sgd(1.0));
        }
        if variables
            .iter()
            .any(|variable| variable.optimizer_group == FROZEN)
        {
            // The gradients are zeros, and a learning rate of 0 keeps any value unchanged.
            optimizers.insert(FROZEN.to_owned(), OptimizerConfig::sgd(0.0));
        }
        table::check_rules(&variables, &optimizers)?;
        let kernels = |deep: &Deep| {
            let tower = deep
                .tower
                .iter()
                .flat_map(|tower| tower.layers.iter().map(|layer| layer.kernel));
            let cross = deep
                .cross
                .iter()
                .flat_map(|cross| cross.layers.iter())
                .flat_map(|layer| layer.projection.into_iter().chain([layer.kernel]));
            let composition = deep.composition.iter().flat_map(Composition::kernels);
            tower
                .chain(cross)
                .chain(composition)
                .collect::<Vec<usize>>()
        };
        let kernels = deep.as_ref().map(kernels).unwrap_or_default();
        let written = (0..variables.len())
            .map(|variable| kernels.contains(&variable))
            .collect();
        let description = json!({"model": model, "label": job.input.label});
        Ok(Self {
            records,
            seed: job.run.seed,
            variables,
            optimizers,
            linear,
            linear_regularizer: job.model.linear_regularizer,
            deep,
            heads,
            written,
            description,
            features: job.features.clone(),
            missing: MissingValues::new(&job.input.missing),
        })
    }

    /// Returns the feature columns.
    pub fn columns(&self) -> &FeatureColumns {
        &self.records.columns
    }

    /// Computes the logits, `rows x units`, into the scratch. Training passes `gradients`.
    fn forward(
        &self,
        example: &Example,
        values: &Values,
        gradients: Option<&mut Gradients>,
        scratch: &mut Scratch,
    ) {
        let features = &example.columns;
        scratch.logits.clear();
        scratch
            .logits
            .resize(features.rows * self.heads.units(), 0.0);
        let logits = &mut scratch.logits;
        let input = &mut scratch.input;
        join(
            || {
                self.linear
                    .iter()
                    .for_each(|linear| linear.forward(features, values, logits))
            },
            || {
                self.deep
                    .iter()
                    .for_each(|deep| deep.input.forward(features, values, input))
            },
        );
        let Some(deep) = &self.deep else { return };
        if let Some(factorization) = &deep.factorization {
            factorization.forward(&scratch.input, &mut scratch.logits);
        }
        let input = match &deep.cross {
            Some(cross) => {
                // A prediction has the same bits in any batch. Training has the fastest product.
                let multiply = if gradients.is_some() {
                    multiply
                } else {
                    multiply_rows
                };
                cross.forward(multiply, &scratch.input, values, &mut scratch.cross);
                scratch.cross.output()
            }
            None => &scratch.input,
        };
        let Position { pass, shard, batch } = example.position;
        let seed = [pass, shard, batch]
            .into_iter()
            .fold(self.seed, |seed, part| {
                (seed ^ part)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .rotate_left(23)
            });
        let input = tower::Input {
            rows: features.rows,
            values: input,
        };
        let mode = match gradients {
            Some(gradients) => tower::Mode::Training { seed, gradients },
            None => tower::Mode::Inference,
        };
        if let Some(composition) = &deep.composition {
            let work = &mut scratch.composition;
            composition.forward(input, values, mode, work, &mut scratch.logits);
        } else if let Some(tower) = &deep.tower {
            let logits = tower.forward(input, values, mode, &mut scratch.tower);
            scratch
                .logits
                .iter_mut()
                .zip(logits)
                .for_each(|(logit, value)| *logit += value);
        }
    }

    /// Writes the gradients, given the gradient of the logits and the values that the forward pass has kept.
    fn backward(
        &self,
        features: &Features,
        values: &Values,
        hooked: &mut HookedGradients<'_>,
        scratch: &mut Scratch,
    ) {
        let Scratch {
            delta,
            input,
            input_delta,
            tower: tower_work,
            cross: cross_work,
            composition: composition_work,
            ..
        } = scratch;
        if let Some(linear) = &self.linear {
            linear.backward(features, delta, hooked.gradients);
            linear.add_penalties(self.linear_regularizer, values, hooked.gradients);
        }
        let Some(deep) = &self.deep else { return };
        if let Some(composition) = &deep.composition {
            let ends = composition::Ends {
                input,
                of_logits: delta,
                of_input: input_delta,
            };
            composition.backward(ends, values, hooked, composition_work);
            deep.input
                .backward(features, values, input_delta, hooked.gradients);
            return;
        }
        let wanted = if deep.cross.is_some() {
            0..deep.input.width()
        } else {
            deep.input.learned()
        };
        if deep.tower.is_none() {
            input_delta.clear();
        }
        if !wanted.is_empty() {
            input_delta.resize(input.len(), 0.0);
        }
        if let Some(tower) = &deep.tower {
            let read = if deep.cross.is_some() {
                cross_work.output()
            } else {
                input.as_slice()
            };
            let ends = tower::Ends {
                input: read,
                of_output: delta,
                of_input: (!wanted.is_empty()).then_some((wanted, input_delta.as_mut_slice())),
            };
            tower.backward(ends, values, hooked, tower_work);
        }
        if let Some(cross) = &deep.cross {
            cross.backward(input, values, input_delta, hooked.gradients, cross_work);
        }
        if let Some(factorization) = &deep.factorization {
            factorization.backward(input, delta, input_delta);
        }
        deep.input
            .backward(features, values, input_delta, hooked.gradients);
    }
}

fn linear(
    model: &ModelConfig,
    columns: &FeatureColumns,
    units: usize,
    variables: &mut Vec<VariableSpec>,
    optimizers: &mut BTreeMap<String, OptimizerConfig>,
) -> Result<Option<LinearModel>, Error> {
    let wide = columns.numeric.iter().filter(|column| column.wide).count()
        + columns
            .categorical
            .iter()
            .filter(|column| column.wide)
            .count();
    let of_columns = 1.0 / (wide.max(1) as f64).sqrt();
    let is_adagrad = |section: &OptimizerSection| section.kind == "adagrad";
    let rate = match model.kind.family {
        Family::Baseline => 0.3,
        _ if model.defaults == Defaults::Trainyard
            && model.linear_optimizer.as_ref().is_some_and(is_adagrad) =>
        {
            0.1
        }
        Family::Linear => of_columns.min(0.2),
        _ => of_columns.min(0.005),
    };
    let part = if model.kind.family == Family::Baseline {
        LinearModel::bias_only(units, "baseline/bias".to_owned(), LINEAR, variables)
    } else if model.kind.has_linear() {
        LinearModel::new(
            columns,
            units,
            model.sparse_combiner,
            VariableScope {
                name: "linear/linear_model",
                optimizer_group: LINEAR,
            },
            variables,
        )
    } else {
        return Ok(None);
    };
    let rule = optimizer(
        model.linear_optimizer.as_ref(),
        "ftrl",
        rate,
        model.defaults,
    )?;
    optimizers.insert(LINEAR.to_owned(), rule);
    Ok(Some(part))
}

fn deep(
    model: &ModelConfig,
    columns: &FeatureColumns,
    units: &[usize],
    variables: &mut Vec<VariableSpec>,
    optimizers: &mut BTreeMap<String, OptimizerConfig>,
) -> Result<Deep, Error> {
    let scope = VariableScope {
        name: INPUT_SCOPE,
        optimizer_group: DNN,
    };
    let input = InputLayer::with_histories(columns, &model.attention, scope, variables);
    if input.width() == 0 {
        return Err(Error::Invalid(
            "no feature feeds the deep part; set deep on one of them".to_owned(),
        ));
    }
    let factorization = match model.kind.family {
        Family::Fm | Family::DeepFm => Some(factorization(&input, units[0])?),
        _ => None,
    };
    let cross = (model.cross_layers > 0).then(|| {
        let rank = model.cross_projection_dim;
        CrossLayers::new(model.cross_layers, input.width(), rank, DNN, variables)
    });
    let composition = Composition::new(model, columns, &input, units, DNN, variables)?;
    let tower = (model.kind.has_dnn() && composition.is_none()).then(|| {
        let shape = tower::Shape {
            scope: "dnn",
            inputs: input.width(),
            hidden_units: &model.hidden_units,
            logits: Some(units[0]),
        };
        Tower::new(model, shape, DNN, variables)
    });
    let combined = model.kind.family == Family::DnnLinearCombined;
    let rate = match model.defaults {
        Defaults::Tensorflow2 => 0.001,
        Defaults::Tensorflow1 if combined => 0.001,
        Defaults::Tensorflow1 | Defaults::Trainyard => 0.05,
    };
    let rule = optimizer(
        model.dnn_optimizer.as_ref(),
        "adagrad",
        rate,
        model.defaults,
    )?;
    optimizers.insert(DNN.to_owned(), rule);
    Ok(Deep {
        input,
        factorization,
        cross,
        tower,
        composition,
    })
}

fn factorization(input: &InputLayer, units: usize) -> Result<Factorization, Error> {
    let (begins, dimensions): (Vec<usize>, Vec<usize>) = input.embeddings().unzip();
    let Some(&dimension) = dimensions.first().filter(|_| begins.len() > 1) else {
        let message = format!(
            "a factorization machine needs at least 2 embeddings, given {}",
            begins.len()
        );
        return Err(Error::Invalid(message));
    };
    if let Some(other) = dimensions.iter().find(|other| **other != dimension) {
        let message = format!(
            "a factorization machine needs embeddings of one dimension, given {dimension} and {other}"
        );
        return Err(Error::Invalid(message));
    }
    if units != 1 {
        let message = format!("a factorization machine has one logit, its head needs {units}");
        return Err(Error::Invalid(message));
    }
    Ok(Factorization {
        begins,
        dimension,
        width: input.width(),
    })
}

impl Model for Canned {
    type Features = Example;
    type Scratch = Scratch;
    type Metrics = Vec<HeadMetrics>;

    fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        self.optimizers.clone()
    }

    fn schema(&self) -> &Schema {
        &self.records.schema
    }

    fn serving_schema(&self) -> &Schema {
        &self.records.serving_schema
    }

    fn features(&self, batch: &Batch) -> Result<Example, Error> {
        self.records.read(batch)
    }

    fn reads(&self, features: &Example) -> Reads {
        let whole = |spec: &VariableSpec| {
            if spec.access == Access::Whole {
                Read::Whole
            } else {
                Read::Nothing
            }
        };
        let mut reads: Reads = self.variables.iter().map(whole).collect();
        if let Some(linear) = &self.linear {
            linear.reads(&features.columns, &mut reads);
        }
        if let Some(deep) = &self.deep {
            deep.input.reads(&features.columns, &mut reads);
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
        let mut hooked = HookedGradients {
            gradients,
            hook: &mut |_, _| {},
        };
        self.train_hooked(features, values, &mut hooked, scratch)
    }

    fn train_hooked(
        &self,
        features: &Example,
        values: &Values,
        hooked: &mut HookedGradients<'_>,
        scratch: &mut Scratch,
    ) -> Result<Outcome, Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        let gradients = &mut *hooked.gradients;
        gradients.resize_with(values.len(), Vec::new);
        for ((gradient, value), written) in gradients.iter_mut().zip(values).zip(&self.written) {
            // Gradients that are not overwritten are added to.
            if !written {
                gradient.clear();
            }
            gradient.resize(value.len(), 0.0);
        }
        self.forward(features, values, Some(gradients), scratch);
        let loss = self.heads.loss(
            &scratch.logits,
            labels,
            features.weights.as_deref(),
            &mut scratch.delta,
        );
        self.backward(&features.columns, values, hooked, scratch);
        Ok(Outcome {
            loss,
            examples: features.columns.rows,
        })
    }

    fn metrics(&self) -> Vec<HeadMetrics> {
        self.heads.metrics()
    }

    fn evaluate(
        &self,
        features: &Example,
        values: &Values,
        metrics: &mut Vec<HeadMetrics>,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let labels = features.labels.as_ref().ok_or(Error::NoLabel)?;
        self.forward(features, values, None, scratch);
        let weights = features.weights.as_deref();
        let groups = features.groups.as_deref();
        self.heads
            .add(metrics, &scratch.logits, labels, weights, groups);
        Ok(())
    }

    fn scores(&self, metrics: &Vec<HeadMetrics>) -> Scores {
        self.heads.scores(metrics)
    }

    fn predict(
        &self,
        features: &Example,
        values: &Values,
        scratch: &mut Scratch,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        self.forward(features, values, None, scratch);
        let rows = scratch.logits.chunks_exact(self.heads.units());
        Ok(rows.map(|logits| self.heads.predict(logits)).collect())
    }

    fn describe(&self) -> serde_json::Value {
        self.description.clone()
    }

    fn described_features(&self) -> &[FeatureConfig] {
        &self.features
    }
}

/// Returns the optimizer of `[model.optimizer]`, completed with TensorFlow's defaults. Without that section, it is lazy Adam with
/// a learning rate of 0.001; with `model.defaults` of TensorFlow, Adagrad with one of 0.05.
///
/// # Errors
/// A hyper-parameter is out of range.
pub fn custom_optimizer(job: &Job) -> Result<OptimizerConfig, Error> {
    optimizer(
        job.model.optimizer.as_ref(),
        "adagrad",
        0.05,
        job.model.defaults,
    )
}

/// Completes an optimizer section with TensorFlow's defaults. A job that was read has one: `usual` is for those that a program makes.
fn optimizer(
    section: Option<&OptimizerSection>,
    usual: &str,
    learning_rate: f64,
    defaults: Defaults,
) -> Result<OptimizerConfig, Error> {
    let kind = section.map_or(usual, |section| &section.kind);
    let mut fields = serde_json::Map::new();
    let own_rate = ["adam", "adadelta", "rmsprop", "keras_rmsprop"].contains(&kind);
    if !own_rate {
        fields.insert("learning_rate".to_owned(), json!(learning_rate));
    }
    if defaults == Defaults::Tensorflow2 && ["adagrad", "adam"].contains(&kind) {
        fields.insert("epsilon".to_owned(), json!(1e-7));
    }
    fields.extend(
        section
            .map(|section| section.values.clone())
            .unwrap_or_default(),
    );
    fields.insert("kind".to_owned(), json!(kind));
    let config: OptimizerConfig = serde_json::from_value(fields.into())
        .map_err(|error| Error::Invalid(format!("optimizer `{kind}`: {error}")))?;
    config
        .validate()
        .map_err(|error| Error::Invalid(format!("optimizer `{kind}`: {error}")))?;
    Ok(config)
}
