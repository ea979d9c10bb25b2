//! The adapter of networks: a [`Network`] as a [`Model`].

use std::collections::BTreeMap;

use serde_json::json;
use trainyard_feature_column::Features;
use trainyard_input::{Batch, Position, Schema};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::{FeatureConfig, Job};
use trainyard_variable::{Access, FROZEN, Gradients, Read, Reads, Values, VariableSpec};

use crate::network::GROUP;
use crate::records::{Example, Records};
use crate::{
    Error, Head, HeadMetrics, Heads, InputLayer, Mode, Model, Network, NetworkBuilder, Outcome,
    Pass, Prediction, Scores, VariableScope, custom_optimizer, table,
};

/// Scope of the tables of the input.
const INPUT_SCOPE: &str = "input_layer";

/// A network as a [`Model`]: pass `NetworkModel::<MyNetwork>::from_job` to `trainyard::main_with`.
///
/// Features with `deep = { embedding = N }` have a table on the parameter servers. Only the rows that a batch names
/// travel. The gradient of the input, which the network returns, becomes their gradient.
#[derive(Debug)]
pub struct NetworkModel<N> {
    network: N,
    records: Records,
    input: InputLayer,
    head: Head,
    variables: Vec<VariableSpec>,
    optimizers: BTreeMap<String, OptimizerConfig>,
    description: serde_json::Value,
    features: Vec<FeatureConfig>,
}

/// Buffers of a step.
#[derive(Debug, Default)]
pub struct Workspace<A> {
    input: Vec<f32>,
    of_logits: Vec<f32>,
    activations: A,
}

impl<N: Network> NetworkModel<N> {
    /// Builds the model of a job.
    ///
    /// # Errors
    /// The network cannot be built, or returns other lengths than its input and the label need; a feature has ids and no
    /// embedding; an optimizer is out of range.
    pub fn from_job(job: &Job) -> Result<Self, Error> {
        if job.model.kind.has_tasks() {
            return Err(Error::Invalid(format!(
                "model.kind = \"{}\" has a head for each task, and a Network has one head: name custom_estimator, or implement \
                 Model over Heads",
                job.model.kind.name()
            )));
        }
        let head = Head::new(&job.model, &job.input.label);
        let features = N::features(job);
        check_features(&features)?;
        let records = Records::new(job, &features, Heads::One(head.clone()));
        let mut tables = Vec::new();
        let scope = VariableScope {
            name: INPUT_SCOPE,
            optimizer_group: GROUP,
        };
        let input = InputLayer::in_order(&records.columns, &features, scope, &mut tables);
        let mut builder = NetworkBuilder::new(&input, head.units(), tables);
        let network = N::build(job, &mut builder)?;
        let variables = builder.into_variables();
        let mut optimizers = BTreeMap::from([(GROUP.to_owned(), custom_optimizer(job)?)]);
        if variables.iter().any(|spec| spec.optimizer_group == FROZEN) {
            // A learning rate of 0 keeps any value unchanged.
            optimizers.insert(FROZEN.to_owned(), OptimizerConfig::sgd(0.0));
        }
        table::check_rules(&variables, &optimizers)?;
        let model = Self {
            description: json!({
                "model": job.model, "label": job.input.label,
                "network": std::any::type_name::<N>(),
            }),
            features,
            network,
            records,
            input,
            head,
            variables,
            optimizers,
        };
        model.try_zeros()?;
        Ok(model)
    }

    /// Sends a row of zeros through the network, so that wrong lengths are reported before anything starts.
    fn try_zeros(&self) -> Result<(), Error> {
        let zeros = |spec: &VariableSpec| match spec.access {
            Access::Whole => vec![0.0; spec.len()],
            Access::Rows | Access::Dynamic(_) => Vec::new(),
        };
        let values: Values = self.variables.iter().map(zeros).collect();
        let input = vec![0.0; self.input.width()];
        let mut activations = N::Activations::default();
        let mut gradients = values.clone();
        for mode in [Mode::Infer, Mode::Train] {
            let pass = Pass {
                rows: 1,
                input: &input,
                values: &values,
                mode,
                position: Position::default(),
            };
            let logits = self.forward(&pass, &mut activations)?;
            if mode == Mode::Train {
                let of_logits = vec![0.0; logits.len()];
                self.backward(&pass, &mut activations, &of_logits, &mut gradients)?;
            }
        }
        Ok(())
    }

    fn forward(
        &self,
        pass: &Pass<'_>,
        activations: &mut N::Activations,
    ) -> Result<Vec<f32>, Error> {
        let logits = self.network.forward(pass, activations);
        check_length("forward", logits.len(), [pass.rows, self.head.units()])?;
        Ok(logits)
    }

    /// Returns the gradient of the input.
    fn backward(
        &self,
        pass: &Pass<'_>,
        activations: &mut N::Activations,
        of_logits: &[f32],
        gradients: &mut Gradients,
    ) -> Result<Vec<f32>, Error> {
        let of_input = self
            .network
            .backward(pass, activations, of_logits, gradients);
        let may_be_empty = self.input.learned().is_empty();
        if !(may_be_empty && of_input.is_empty()) {
            check_length("backward", of_input.len(), [pass.rows, self.input.width()])?;
        }
        let lengths = gradients.iter().map(Vec::len);
        let expected = pass.values.iter().map(Vec::len);
        for (spec, (given, wanted)) in self.variables.iter().zip(lengths.zip(expected)) {
            if given != wanted {
                return Err(failed(
                    "backward",
                    format!(
                        "the gradient of `{}` must hold {wanted} values, given {given}",
                        spec.name
                    ),
                ));
            }
        }
        Ok(of_input)
    }

    fn infer(
        &self,
        example: &Example,
        values: &Values,
        workspace: &mut Workspace<N::Activations>,
    ) -> Result<Vec<f32>, Error> {
        let Workspace {
            input, activations, ..
        } = workspace;
        self.input.forward(&example.columns, values, input);
        self.forward(&pass(example, values, input, Mode::Infer), activations)
    }
}

fn pass<'a>(example: &Example, values: &'a Values, input: &'a [f32], mode: Mode) -> Pass<'a> {
    Pass {
        rows: example.columns.rows,
        input,
        values,
        mode,
        position: example.position,
    }
}

fn failed(method: &str, message: String) -> Error {
    Error::Failed {
        place: format!("Network::{method}"),
        message,
        trace: String::new(),
    }
}

fn check_length(method: &str, given: usize, [rows, columns]: [usize; 2]) -> Result<(), Error> {
    if given == rows * columns {
        return Ok(());
    }
    let message =
        format!("it must return {rows} rows of {columns} values, returned {given} values");
    Err(failed(method, message))
}

/// Refuses features that do not become numbers.
fn check_features(features: &[FeatureConfig]) -> Result<(), Error> {
    if features.is_empty() {
        let message =
            "the network has no feature: add [[feature]] to the job, or write Network::features";
        return Err(Error::Invalid(message.to_owned()));
    }
    match features.iter().find(|feature| feature.deep.is_none()) {
        None => Ok(()),
        Some(feature) => Err(Error::Invalid(format!(
            "feature `{}` is not in the network's input: set deep = {{ embedding = 8 }} or deep = \"indicator\"",
            feature.name
        ))),
    }
}

/// Makes the gradients as long as the values, and 0.
fn clear(gradients: &mut Gradients, values: &Values) {
    gradients.resize_with(values.len(), Vec::new);
    for (gradient, value) in gradients.iter_mut().zip(values) {
        gradient.clear();
        gradient.resize(value.len(), 0.0);
    }
}

impl<N: Network> Model for NetworkModel<N> {
    type Features = Example;
    type Scratch = Workspace<N::Activations>;
    type Metrics = HeadMetrics;

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

    fn reads(&self, example: &Example) -> Reads {
        let whole = |spec: &VariableSpec| match spec.access {
            Access::Whole => Read::Whole,
            Access::Rows | Access::Dynamic(_) => Read::Nothing,
        };
        let mut reads: Reads = self.variables.iter().map(whole).collect();
        self.input.reads(&example.columns, &mut reads);
        reads
    }

    fn train(
        &self,
        example: &Example,
        values: &Values,
        gradients: &mut Gradients,
        workspace: &mut Workspace<N::Activations>,
    ) -> Result<Outcome, Error> {
        let labels = example.labels.as_ref().ok_or(Error::NoLabel)?;
        let weights = example.weights.as_deref();
        let columns: &Features = &example.columns;
        clear(gradients, values);
        let Workspace {
            input,
            of_logits,
            activations,
        } = workspace;
        self.input.forward(columns, values, input);
        let pass = pass(example, values, input, Mode::Train);
        let logits = self.forward(&pass, activations)?;
        let loss = self.head.loss(&logits, labels, weights, of_logits);
        let of_input = self.backward(&pass, activations, of_logits, gradients)?;
        self.input.backward(columns, values, &of_input, gradients);
        Ok(Outcome {
            loss,
            examples: columns.rows,
        })
    }

    fn metrics(&self) -> HeadMetrics {
        HeadMetrics::default()
    }

    fn evaluate(
        &self,
        example: &Example,
        values: &Values,
        metrics: &mut HeadMetrics,
        workspace: &mut Workspace<N::Activations>,
    ) -> Result<(), Error> {
        let labels = example.labels.as_ref().ok_or(Error::NoLabel)?;
        let logits = self.infer(example, values, workspace)?;
        let weights = example.weights.as_deref();
        let groups = example.groups.as_deref();
        metrics.add(&self.head, &logits, labels, weights, groups);
        Ok(())
    }

    fn scores(&self, metrics: &HeadMetrics) -> Scores {
        metrics.scores(&self.head)
    }

    fn predict(
        &self,
        example: &Example,
        values: &Values,
        workspace: &mut Workspace<N::Activations>,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        let logits = self.infer(example, values, workspace)?;
        let rows = logits.chunks_exact(self.head.units());
        Ok(rows.map(|logits| self.head.predict(logits)).collect())
    }

    fn describe(&self) -> serde_json::Value {
        self.description.clone()
    }

    fn described_features(&self) -> &[FeatureConfig] {
        &self.features
    }
}
