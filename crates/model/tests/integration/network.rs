//! Networks by hand as models: gradients, the order of a row, and mistakes that are reported before anything starts.
#![expect(
    clippy::unwrap_used,
    reason = "a network that is not as the test says fails the test"
)]

use std::path::Path;

use trainyard_input::{Batch, Bytes, Column, Position};
use trainyard_model::{
    Dense, Error, Mode, Model, Network, NetworkBuilder, NetworkModel, Pass, any,
};
use trainyard_run_config::{FeatureConfig, Job};
use trainyard_variable::{Gradients, Initializer, Read, Values, VariableSpec};

use crate::gradients;

const JOB: &str = r#"
model_dir = "unused"
[input]
label = { column = "y" }
train = { files = ["unused.csv"] }
[[feature]]
column = "z"
kind = "numeric"
[[feature]]
column = "user"
kind = "dynamic"
rows_max = 100
deep = { embedding = 3 }
[[feature]]
column = "item"
kind = "hashed"
buckets = 50
deep = { embedding = 2, combiner = "sum" }
[[feature]]
column = "a"
kind = "numeric"
[model]
kind = "custom_regressor"
loss_reduction = "sum"
params = { units = 4 }
[train]
max_steps = 1
"#;

fn job(from: &str, to: &str) -> Job {
    Job::parse(Path::new("job.toml"), &JOB.replace(from, to), &[]).unwrap()
}

/// A hidden layer with tanh, and two mistakes that it makes if the job says so.
#[derive(Debug)]
struct Tanh {
    hidden: Dense,
    logits: Dense,
    mistake: String,
}

impl Network for Tanh {
    type Activations = Vec<f32>;

    fn build(job: &Job, builder: &mut NetworkBuilder) -> Result<Self, Error> {
        let params = &job.model.params;
        let units = params.get("units")?;
        let width = builder.width();
        let outputs = builder.units();
        let name: String = params.get_or("name", "logits".to_owned())?;
        Ok(Self {
            hidden: Dense::new(builder, "hidden", [width, units]),
            logits: Dense::new(builder, &name, [units, outputs]),
            mistake: params.get_or("mistake", String::new())?,
        })
    }

    fn forward(&self, pass: &Pass<'_>, hidden: &mut Vec<f32>) -> Vec<f32> {
        *hidden = self.hidden.forward(pass, pass.input);
        hidden.iter_mut().for_each(|value| *value = value.tanh());
        let mut logits = self.logits.forward(pass, hidden);
        if self.mistake == "logits" {
            logits.push(0.0);
        }
        logits
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        hidden: &mut Vec<f32>,
        of_logits: &[f32],
        gradients: &mut Gradients,
    ) -> Vec<f32> {
        let mut of_hidden = self.logits.backward(pass, hidden, of_logits, gradients);
        for (gradient, value) in of_hidden.iter_mut().zip(hidden) {
            *gradient *= 1.0 - *value * *value;
        }
        let mut of_input = self
            .hidden
            .backward(pass, pass.input, &of_hidden, gradients);
        match self.mistake.as_str() {
            "input" => of_input.clear(),
            "gradient" => gradients[2].clear(),
            _ => {}
        }
        of_input
    }
}

fn texts(cells: &[&str]) -> Column {
    let mut texts = Bytes::default();
    cells.iter().for_each(|cell| texts.push(cell.as_bytes()));
    Column::bytes(texts)
}

fn batch<M: Model>(model: &M) -> Batch {
    let column = |field: &trainyard_input::Field| match field.name.as_str() {
        "user" => texts(&["u1", "u2", "u1"]),
        "item" => texts(&["i1", "i2", "i3"]),
        "a" => Column::floats(vec![0.3, -0.2, 0.8]),
        "y" => Column::floats(vec![1.5, -2.0, 0.5]),
        "z" => Column::floats(vec![1.0, 0.5, -1.0]),
        other => panic!("a column {other}"),
    };
    Batch {
        rows: 3,
        columns: model.schema().fields.iter().map(column).collect(),
        position: Position::default(),
    }
}

/// Returns values between -0.5 and 0.5 of all that the batch reads.
fn values<M: Model>(model: &M, features: &M::Features) -> Values {
    let fill = |(read, spec): (&Read, &VariableSpec)| {
        let rows = match read {
            Read::Whole => spec.rows(),
            Read::Rows(rows) => rows.len(),
            Read::Ids(ids) => ids.len(),
            Read::Nothing => 0,
        };
        let mut values = vec![0.0; rows * spec.width()];
        let range = Initializer::Uniform {
            low: -0.5,
            high: 0.5,
        };
        range.fill(3, &spec.name, &[rows, spec.width()], 0..rows, &mut values);
        values
    };
    let reads = model.reads(features);
    reads.iter().zip(model.variables()).map(fill).collect()
}

#[test]
fn gradients_of_layers_and_of_embedded_rows_agree_with_finite_differences() {
    let model = NetworkModel::<Tanh>::from_job(&job("", "")).unwrap();
    let features = model.features(&batch(&model)).unwrap();
    let mut values = values(&model, &features);
    let rows: Vec<usize> = values[..2].iter().map(Vec::len).collect();
    assert_eq!(
        rows,
        [2 * 3, 3 * 2],
        "only rows that the batch names travel"
    );
    gradients::agree_with_finite_differences("tanh", &model, &features, &mut values);
}

/// Uses a layer from its input to its input twice, and then adds up.
#[derive(Debug)]
struct Twice(Dense);

impl Network for Twice {
    /// The output of the first use.
    type Activations = Vec<f32>;

    fn build(_job: &Job, builder: &mut NetworkBuilder) -> Result<Self, Error> {
        let width = builder.width();
        Ok(Self(Dense::new(builder, "layer", [width, width])))
    }

    fn forward(&self, pass: &Pass<'_>, first: &mut Vec<f32>) -> Vec<f32> {
        *first = self.0.forward(pass, pass.input);
        let second = self.0.forward(pass, first);
        let rows = second.chunks_exact(pass.input.len() / pass.rows);
        rows.map(|row| row.iter().sum()).collect()
    }

    fn backward(
        &self,
        pass: &Pass<'_>,
        first: &mut Vec<f32>,
        of_logits: &[f32],
        gradients: &mut Gradients,
    ) -> Vec<f32> {
        let width = pass.input.len() / pass.rows;
        let of_rows = of_logits
            .iter()
            .flat_map(|of_row| std::iter::repeat_n(*of_row, width));
        let of_second: Vec<f32> = of_rows.collect();
        let of_first = self.0.backward(pass, first, &of_second, gradients);
        self.0.backward(pass, pass.input, &of_first, gradients)
    }
}

#[test]
fn a_layer_that_is_used_twice_has_the_gradients_of_both_uses() {
    let model = NetworkModel::<Twice>::from_job(&job("", "")).unwrap();
    let features = model.features(&batch(&model)).unwrap();
    let mut values = values(&model, &features);
    gradients::agree_with_finite_differences("twice", &model, &features, &mut values);
}

/// Returns its input as logits.
#[derive(Debug)]
struct Copied;

impl Network for Copied {
    type Activations = ();

    fn build(_job: &Job, builder: &mut NetworkBuilder) -> Result<Self, Error> {
        assert_eq!(builder.width(), builder.units());
        Ok(Self)
    }

    fn features(_job: &Job) -> Vec<FeatureConfig> {
        ["z", "a"].map(FeatureConfig::numeric).to_vec()
    }

    fn forward(&self, pass: &Pass<'_>, (): &mut ()) -> Vec<f32> {
        assert!(matches!(pass.mode, Mode::Train | Mode::Infer));
        pass.input.to_vec()
    }

    fn backward(
        &self,
        _pass: &Pass<'_>,
        (): &mut (),
        of_logits: &[f32],
        _gradients: &mut Gradients,
    ) -> Vec<f32> {
        of_logits.to_vec()
    }
}

#[test]
fn a_row_of_the_input_is_in_the_order_of_the_features() {
    let job = job("[model]\n", "[model]\nlabel_dimension = 2\n");
    let model = NetworkModel::<Copied>::from_job(&job).unwrap();
    let mut read = batch(&model);
    read.columns.truncate(model.serving_schema().fields.len());
    let features = model.features(&read).unwrap();
    let predicted = model.predict(&features, &Vec::new(), &mut Default::default());
    let first = format!("{:?}", predicted.unwrap()[0]["predictions"]);
    assert_eq!(first, "Floats([1.0, 0.3])");
}

#[test]
fn a_network_refuses_a_job_of_several_tasks() {
    let tasks = "kind = \"custom_multi_task\"\ntask = [{ name = \"click\", head = \"binary\", label = { column = \"y\" } }]";
    let text = JOB
        .replace("label = { column = \"y\" }\n", "")
        .replace("kind = \"custom_regressor\"", tasks);
    let job = Job::parse(Path::new("job.toml"), &text, &[]).unwrap();
    let error = NetworkModel::<Tanh>::from_job(&job)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("custom_multi_task") && error.contains("a Network has one head"),
        "{error}"
    );
}

#[test]
fn mistakes_of_a_network_are_reported_before_training() {
    let told = |from: &str, to: &str| {
        let error = NetworkModel::<Tanh>::from_job(&job(from, to)).unwrap_err();
        error.to_string()
    };
    let mistake = |name: &str| told("units = 4", &format!("units = 4, mistake = \"{name}\""));
    let logits = mistake("logits");
    assert!(
        logits.contains("Network::forward") && logits.contains("returned 2"),
        "{logits}"
    );
    let input = mistake("input");
    assert!(
        input.contains("Network::backward") && input.contains("returned 0"),
        "{input}"
    );
    let gradient = mistake("gradient");
    assert!(
        gradient.contains("`hidden/kernel` must hold 28 values, given 0"),
        "{gradient}"
    );
    let twice = job("units = 4", "units = 4, name = \"hidden\"");
    let names = any(NetworkModel::<Tanh>::from_job(&twice).unwrap()).err();
    let names = names.unwrap().to_string();
    assert!(
        names.contains("two variables of the name `hidden/kernel`"),
        "{names}"
    );
    let units = told("units = 4", "units = \"four\"");
    assert!(units.contains("model.params.units"), "{units}");
    let bare = told("deep = { embedding = 2, combiner = \"sum\" }\n", "");
    assert!(
        bare.contains("feature `item`") && bare.contains("embedding"),
        "{bare}"
    );
    let adam = told("[train]\n", "optimizer = { kind = \"adam\" }\n[train]\n");
    assert!(adam.contains("lazy = true in [model.optimizer]"), "{adam}");
}
