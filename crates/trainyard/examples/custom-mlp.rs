//! A model by hand: a multilayer perceptron against the trait `Model`, with nothing else.
//!
//! `custom-mlp train crates/trainyard/examples/custom-mlp.toml`

use std::collections::BTreeMap;
use std::process::ExitCode;

use trainyard::tensor::{
    add_bias, add_bias_relu, add_column_sums, multiply, multiply_first_transposed,
    multiply_second_transposed, relu_backward,
};
use trainyard::{
    Access, Batch, Error, FeatureColumns, Gradients, Head, HeadMetrics, Initializer, Job, Model,
    OptimizerConfig, Outcome, Prediction, Read, Reads, Schema, Scores, Values, VariableSpec,
    custom_optimizer,
};

fn main() -> ExitCode {
    trainyard::main_with(Mlp::from_job)
}

/// One hidden layer with ReLU: `logits = relu(x K + b) L + c`.
struct Mlp {
    job: Job,
    schema: Schema,
    serving_schema: Schema,
    columns: FeatureColumns,
    label_field: usize,
    head: Head,
    optimizer: OptimizerConfig,
    variables: Vec<VariableSpec>,
    /// Widths of input, hidden layer and logits.
    widths: [usize; 3],
}

/// A batch made ready.
struct Example {
    rows: usize,
    numbers: Vec<f32>,
    labels: Option<Vec<f32>>,
}

/// Buffers that live from step to step.
#[derive(Default)]
struct Scratch {
    hidden: Vec<f32>,
    logits: Vec<f32>,
    delta: Vec<f32>,
    below: Vec<f32>,
}

/// Where each variable stands in `variables`, values and gradients.
const KERNEL_0: usize = 0;
const BIAS_0: usize = 1;
const KERNEL_1: usize = 2;
const BIAS_1: usize = 3;

impl Mlp {
    fn from_job(job: &Job) -> Result<Self, Error> {
        let mut serving_schema = Schema::default();
        let columns = FeatureColumns::new(&job.features, &mut serving_schema);
        let head = Head::new(&job.model, &job.input.label);
        let mut schema = serving_schema.clone();
        let label_field = head.want(&mut schema);
        let [hidden] = job.model.hidden_units[..] else {
            return Err(Error::Invalid(
                "this model has one hidden layer: hidden_units = [16]".to_owned(),
            ));
        };
        if columns.numeric.is_empty() || !columns.categorical.is_empty() {
            return Err(Error::Invalid(
                "this model takes numeric features alone".to_owned(),
            ));
        }
        let widths = [columns.numeric.len(), hidden, head.units()];
        let variable = |name: &str, shape: &[usize], initializer| VariableSpec {
            name: name.to_owned(),
            shape: shape.to_vec(),
            access: Access::Whole,
            initializer,
            optimizer_group: "mlp".to_owned(),
        };
        let variables = vec![
            variable(
                "mlp/hidden/kernel",
                &widths[..2],
                Initializer::GlorotUniform,
            ),
            variable("mlp/hidden/bias", &widths[1..2], Initializer::Zeros),
            variable(
                "mlp/logits/kernel",
                &widths[1..],
                Initializer::GlorotUniform,
            ),
            variable("mlp/logits/bias", &widths[2..], Initializer::Zeros),
        ];
        let (job, optimizer) = (job.clone(), custom_optimizer(job)?);
        Ok(Self {
            job,
            schema,
            serving_schema,
            columns,
            label_field,
            head,
            optimizer,
            variables,
            widths,
        })
    }

    fn forward(&self, example: &Example, values: &Values, scratch: &mut Scratch) {
        let (rows, [inputs, hidden, units]) = (example.rows, self.widths);
        scratch.hidden.resize(rows * hidden, 0.0);
        multiply(
            &example.numbers,
            &values[KERNEL_0],
            &mut scratch.hidden,
            [rows, inputs, hidden],
        );
        add_bias_relu(&mut scratch.hidden, &values[BIAS_0]);
        scratch.logits.resize(rows * units, 0.0);
        multiply(
            &scratch.hidden,
            &values[KERNEL_1],
            &mut scratch.logits,
            [rows, hidden, units],
        );
        add_bias(&mut scratch.logits, &values[BIAS_1]);
    }
}

impl Model for Mlp {
    type Features = Example;
    type Scratch = Scratch;
    type Metrics = HeadMetrics;

    fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    fn optimizers(&self) -> BTreeMap<String, OptimizerConfig> {
        BTreeMap::from([("mlp".to_owned(), self.optimizer.clone())])
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn serving_schema(&self) -> &Schema {
        &self.serving_schema
    }

    fn features(&self, batch: &Batch) -> Result<Example, Error> {
        let labelled = batch.columns.len() > self.label_field;
        let labels = || self.head.labels(batch, self.label_field);
        let numbers = self.columns.transform(batch)?.numbers;
        Ok(Example {
            rows: batch.rows,
            numbers,
            labels: labelled.then(labels).transpose()?,
        })
    }

    fn reads(&self, _example: &Example) -> Reads {
        vec![Read::Whole; self.variables.len()]
    }

    fn train(
        &self,
        example: &Example,
        values: &Values,
        gradients: &mut Gradients,
        scratch: &mut Scratch,
    ) -> Result<Outcome, Error> {
        let labels = example.labels.as_ref().ok_or(Error::NoLabel)?;
        let (rows, [inputs, hidden, units]) = (example.rows, self.widths);
        self.forward(example, values, scratch);
        let loss = self
            .head
            .loss(&scratch.logits, labels, None, &mut scratch.delta);
        *gradients = self
            .variables
            .iter()
            .map(|variable| vec![0.0; variable.len()])
            .collect();
        let delta = &scratch.delta;
        multiply_first_transposed(
            &scratch.hidden,
            delta,
            &mut gradients[KERNEL_1],
            [hidden, rows, units],
        );
        add_column_sums(delta, &mut gradients[BIAS_1]);
        scratch.below.resize(rows * hidden, 0.0);
        multiply_second_transposed(
            delta,
            &values[KERNEL_1],
            &mut scratch.below,
            [rows, units, hidden],
        );
        relu_backward(&scratch.hidden, &mut scratch.below);
        let below = &scratch.below;
        multiply_first_transposed(
            &example.numbers,
            below,
            &mut gradients[KERNEL_0],
            [inputs, rows, hidden],
        );
        add_column_sums(below, &mut gradients[BIAS_0]);
        Ok(Outcome {
            loss,
            examples: rows,
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
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let labels = example.labels.as_ref().ok_or(Error::NoLabel)?;
        self.forward(example, values, scratch);
        metrics.add(&self.head, &scratch.logits, labels, None, None);
        Ok(())
    }

    fn scores(&self, metrics: &HeadMetrics) -> Scores {
        metrics.scores(&self.head)
    }

    fn predict(
        &self,
        example: &Example,
        values: &Values,
        scratch: &mut Scratch,
    ) -> Result<Vec<BTreeMap<String, Prediction>>, Error> {
        self.forward(example, values, scratch);
        let rows = scratch.logits.chunks_exact(self.widths[2]);
        Ok(rows.map(|logits| self.head.predict(logits)).collect())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({"model": self.job.model, "features": self.job.features, "label": self.job.input.label})
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn gradients_agree_with_finite_differences() {
        let text = include_str!("custom-mlp.toml");
        let job = Job::parse(Path::new("custom-mlp.toml"), text, &[]).expect("the shipped job");
        let model = Mlp::from_job(&job).expect("a model");
        let numbers = (0..12).map(|place| (place as f32 * 0.7).sin()).collect();
        let example = Example {
            rows: 3,
            numbers,
            labels: Some(vec![0.0, 1.0, 2.0]),
        };
        let mut values: Values = Vec::new();
        for variable in &model.variables {
            let mut first = vec![0.0; variable.len()];
            let spread = Initializer::Uniform {
                low: -0.7,
                high: 0.7,
            };
            spread.fill(
                1,
                &variable.name,
                &variable.shape,
                0..variable.rows(),
                &mut first,
            );
            values.push(first);
        }
        let mut gradients = Vec::new();
        let mut scratch = Scratch::default();
        model
            .train(&example, &values, &mut gradients, &mut scratch)
            .expect("a step");
        for (variable, place) in [(KERNEL_0, 5), (BIAS_0, 3), (KERNEL_1, 7), (BIAS_1, 1)] {
            let mut loss_at = |step: f32| {
                let mut moved = values.clone();
                moved[variable][place] += step;
                model
                    .train(&example, &moved, &mut Vec::new(), &mut scratch)
                    .expect("a step")
                    .loss
            };
            let numeric = (loss_at(2e-3) - loss_at(-2e-3)) / 4e-3;
            let given = f64::from(gradients[variable][place]);
            assert!(
                (numeric - given).abs() < 2e-3,
                "variable {variable}: {numeric} {given}"
            );
        }
    }
}
