//! Networks of burn as models: gradients, first values, and what is refused.
#![expect(
    clippy::unwrap_used,
    reason = "a model that is not as the test says fails the test"
)]

use std::path::Path;
use std::process::Command;

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, LayerNorm, LayerNormConfig, Linear,
    LinearConfig,
};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Tensor};
use trainyard::{Estimator, train_and_evaluate};
use trainyard_autodiff_burn::{BurnModel, BurnNet, Error, FeatureConfig, Initializer, Job};
use trainyard_feature_column::Features;
use trainyard_input::{Batch, Bytes, Column, Position};
use trainyard_model::{Example, Model, Prediction};
use trainyard_variable::{Read, Values};

fn job(kind: &str, more: &str) -> Job {
    let text = format!(
        r#"
model_dir = "unused"
[run]
seed = 11
[input]
label = {{ column = "y" }}
weight_column = "w"
train = {{ files = ["unused.csv"] }}
[model]
kind = "{kind}"
{more}
[train]
max_steps = 1
"#
    );
    Job::parse(Path::new("job.toml"), &text, &[]).unwrap()
}

fn columns(count: usize) -> Vec<FeatureConfig> {
    // Their order is not that of their names.
    (0..count)
        .rev()
        .map(|column| FeatureConfig::numeric(format!("x{column}")))
        .collect()
}

/// A convolution, a norm, a layer that is used twice, and a frozen factor.
#[derive(Module, Debug)]
struct Small {
    conv: Conv2d,
    norm: LayerNorm,
    layer: Linear,
    twin: Linear,
    factor: Param<Tensor<1>>,
    logits: Linear,
}

impl BurnNet for Small {
    fn build(job: &Job, device: &Device) -> Result<Self, Error> {
        let layer = LinearConfig::new(8, 8).init(device);
        let units = if job.model.n_classes > 2 {
            job.model.n_classes
        } else {
            1
        };
        let factor: Param<Tensor<1>> = Param::from_tensor(Tensor::from_floats([0.5, 2.0], device));
        Ok(Self {
            conv: Conv2dConfig::new([1, 2], [2, 2]).init(device),
            norm: LayerNormConfig::new(8).init(device),
            twin: layer.clone(),
            layer,
            factor: factor.set_require_grad(false),
            logits: LinearConfig::new(8, units).init(device),
        })
    }

    fn features(_job: &Job) -> Vec<FeatureConfig> {
        columns(9)
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let [rows, _] = input.dims();
        let x = self.conv.forward(input.reshape([rows, 1, 3, 3]));
        let x = (x * self.factor.val().reshape([1, 2, 1, 1])).flatten(1, 3);
        let x = tanh(self.layer.forward(self.norm.forward(x)));
        self.logits.forward(tanh(self.twin.forward(x)))
    }
}

fn first_values<M: Model>(model: &M, seed: u64) -> Values {
    let fill = |spec: &trainyard_variable::VariableSpec| {
        let mut values = vec![0.0; spec.len()];
        spec.initializer
            .fill(seed, &spec.name, &spec.shape, 0..spec.rows(), &mut values);
        values
    };
    model.variables().iter().map(fill).collect()
}

fn example(rows: usize, columns: usize, labels: &[f32]) -> Example {
    let numbers = (0..rows * columns).map(|place| (place as f32 * 0.83).sin());
    Example {
        columns: Features {
            rows,
            numbers: numbers.collect(),
            ids: Vec::new(),
        },
        labels: Some(labels.to_vec()),
        weights: Some((0..rows).map(|row| 0.5 + row as f32).collect()),
        groups: None,
        position: Position::default(),
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    let heads = [
        ("custom_classifier", "n_classes = 3", [0.0, 1.0, 2.0]),
        ("custom_classifier", "", [0.0, 1.0, 1.0]),
        ("custom_regressor", "", [0.3, -1.0, 0.8]),
    ];
    for (kind, more, labels) in heads {
        let model = BurnModel::<Small>::from_job(&job(kind, more)).unwrap();
        let features = example(3, 9, &labels);
        let mut values = first_values(&model, 5);
        // Biases begin at 0 and norms at 1: not where a mistake would hide.
        values
            .iter_mut()
            .flatten()
            .enumerate()
            .for_each(|(place, value)| {
                *value += 0.1 * (place as f32).cos();
            });
        let mut gradients = Vec::new();
        let mut scratch = Default::default();
        let outcome = model
            .train(&features, &values, &mut gradients, &mut scratch)
            .unwrap();
        assert_eq!(outcome.examples, 3);
        for variable in 0..values.len() {
            for place in 0..values[variable].len() {
                let before = values[variable][place];
                let mut loss_at = |value: f32| {
                    values[variable][place] = value;
                    model
                        .train(&features, &values, &mut Vec::new(), &mut scratch)
                        .unwrap()
                        .loss
                };
                let numeric = (loss_at(before + 5e-3) - loss_at(before - 5e-3)) / 1e-2;
                values[variable][place] = before;
                let given = f64::from(gradients[variable][place]);
                let name = &model.variables()[variable].name;
                assert!(
                    (numeric - given).abs() < 2e-3 * (1.0 + given.abs()),
                    "{kind} {more}: {name}[{place}] {numeric} {given}"
                );
            }
        }
    }
}

#[test]
fn variables_are_named_by_path_and_a_shared_parameter_is_one() {
    let model = BurnModel::<Small>::from_job(&job("custom_regressor", "")).unwrap();
    let given: Vec<(&str, &[usize], &Initializer)> = model
        .variables()
        .iter()
        .map(|spec| (spec.name.as_str(), spec.shape.as_slice(), &spec.initializer))
        .collect();
    let limit = (6.0_f32 / (3.0 * 4.0)).sqrt();
    let (zeros, glorot) = (Initializer::Zeros, Initializer::GlorotUniform);
    let conv = Initializer::Uniform {
        low: -limit,
        high: limit,
    };
    let (one, zero) = (
        Initializer::Constant { value: 1.0 },
        Initializer::Constant { value: 0.0 },
    );
    let expected: [(&str, &[usize], &Initializer); 8] = [
        ("conv/weight", &[2, 1, 2, 2], &conv),
        ("conv/bias", &[2], &zeros),
        ("norm/gamma", &[8], &one),
        ("norm/beta", &[8], &zero),
        ("layer/weight", &[8, 8], &glorot),
        ("layer/bias", &[8], &zeros),
        ("logits/weight", &[8, 1], &glorot),
        ("logits/bias", &[1], &zeros),
    ];
    assert_eq!(given, expected);
}

/// Not a claim of its own: what the next test runs in other processes.
#[test]
fn first_values_can_be_printed() {
    let job = job("custom_classifier", "n_classes = 3");
    let model = BurnModel::<Small>::from_job(&job).unwrap();
    let bits: Vec<u32> = first_values(&model, job.run.seed)
        .iter()
        .flatten()
        .map(|value| value.to_bits())
        .collect();
    println!("\nfirst values {:?} {bits:?}", model.variables());
}

#[test]
fn two_processes_have_the_same_variables_and_first_values() {
    let printed = || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "first_values_can_be_printed", "--nocapture"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("first values "))
            .map(str::to_owned);
        line.unwrap_or_else(|| panic!("nothing printed:\n{text}"))
    };
    let (first, second) = (printed(), printed());
    assert!(first.len() > 1000, "{first}");
    assert_eq!(first, second);
}

/// A network whose training is random.
#[derive(Module, Debug)]
struct Dropping {
    dropout: Dropout,
    logits: Linear,
}

impl BurnNet for Dropping {
    fn build(_job: &Job, device: &Device) -> Result<Self, Error> {
        Ok(Self {
            dropout: DropoutConfig::new(0.5).init(),
            logits: LinearConfig::new(16, 1).init(device),
        })
    }

    fn features(_job: &Job) -> Vec<FeatureConfig> {
        columns(16)
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.logits.forward(self.dropout.forward(input))
    }

    fn initializer(name: &str, _shape: &[usize]) -> Option<Initializer> {
        (name == "logits/bias").then_some(Initializer::Constant { value: 0.25 })
    }
}

#[test]
fn dropout_acts_in_training_alone() {
    let model = BurnModel::<Dropping>::from_job(&job("custom_regressor", "")).unwrap();
    let (features, values) = (
        example(4, 16, &[1.0, 2.0, 3.0, 4.0]),
        first_values(&model, 1),
    );
    assert_eq!(values[1], [0.25], "the network's own first value");
    let predict = || model.predict(&features, &values, &mut Default::default());
    let predicted = || match &predict().unwrap()[0]["predictions"] {
        Prediction::Floats(values) => values.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(predicted(), predicted());
    let loss = || {
        model
            .train(&features, &values, &mut Vec::new(), &mut Default::default())
            .unwrap()
            .loss
    };
    let losses: Vec<f64> = (0..8).map(|_| loss()).collect();
    assert!(losses.iter().any(|loss| *loss != losses[0]), "{losses:?}");
}

/// A network that keeps values beside its parameters.
#[derive(Module, Debug)]
struct Normed {
    norm: BatchNorm,
    logits: Linear,
}

impl BurnNet for Normed {
    fn build(_job: &Job, device: &Device) -> Result<Self, Error> {
        Ok(Self {
            norm: BatchNormConfig::new(2).init(device),
            logits: LinearConfig::new(2, 1).init(device),
        })
    }

    fn features(_job: &Job) -> Vec<FeatureConfig> {
        columns(2)
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.logits.forward(self.norm.forward(input))
    }
}

#[test]
fn what_cannot_be_the_same_everywhere_is_refused() {
    let told = BurnModel::<Normed>::from_job(&job("custom_regressor", ""))
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("BatchNorm") && told.contains("LayerNorm"),
        "{told}"
    );
}

#[test]
fn logits_that_do_not_fit_the_label_are_told_before_training() {
    let told = BurnModel::<Dropping>::from_job(&job("custom_classifier", "n_classes = 5"))
        .unwrap_err()
        .to_string();
    assert!(told.contains("1 rows of 5 values, returned 1"), "{told}");
}

#[path = "../examples/click-tower.rs"]
mod click_tower;

/// The rest of the example.
const _: fn() -> std::process::ExitCode = click_tower::main;

/// Writes clicks that depend on user, item and price, and returns the example's job over them.
fn clicks(folder: &Path) -> Job {
    let taste = |id: usize| ((id * 7919) % 13) as f32 / 6.0 - 1.0;
    for (name, count, begin) in [("train.csv", 3000, 0), ("eval.csv", 600, 50_000)] {
        let mut text = "user,item,price,clicked\n".to_owned();
        for row in begin..begin + count {
            let user = row * 31 % 61;
            let item = row * 17 % 43;
            let price = (row * 13 % 100) as f32 / 100.0;
            let clicked = i32::from(taste(user) + taste(item) + price > 0.5);
            text.push_str(&format!("u{user},i{item},{price},{clicked}\n"));
        }
        std::fs::write(folder.join(name), text).unwrap();
    }
    let example = include_str!("../examples/click-tower.toml");
    let text = example.replace("runs/clicks/", &format!("{}/", folder.display()));
    let model_dir = format!("model_dir={}", folder.join("model").display());
    Job::parse(Path::new("click-tower.toml"), &text, &[model_dir]).unwrap()
}

#[test]
fn a_module_learns_through_embeddings_on_the_servers() {
    let folder = tempfile::tempdir().unwrap();
    let job = clicks(folder.path());
    let model = BurnModel::<click_tower::ClickTower>::from_job(&job).unwrap();
    let variables = model.variables();
    let dynamic = variables.iter().filter(|spec| spec.dynamic().is_some());
    assert_eq!(dynamic.count(), 2, "the tables of user and item");
    let estimator = Estimator::new(job, BurnModel::<click_tower::ClickTower>::from_job);
    let report = train_and_evaluate(&estimator).unwrap().unwrap();
    assert_eq!(report.global_step, 400);
    assert!(report.eval["auc"] > 0.95, "{:?}", report.eval);
    let scores = estimator.evaluate().unwrap();
    assert_eq!(scores["auc"], report.eval["auc"]);
}

#[test]
fn the_gradient_of_embedded_rows_agrees_with_finite_differences() {
    let folder = tempfile::tempdir().unwrap();
    let model = BurnModel::<click_tower::ClickTower>::from_job(&clicks(folder.path())).unwrap();
    let column = |field: &trainyard_input::Field| match field.name.as_str() {
        "user" => texts(&["a", "b", "a"]),
        "item" => texts(&["i", "j", "k"]),
        "price" => Column::floats(vec![0.1, 0.9, 0.4]),
        _ => Column::floats(vec![1.0, 0.0, 1.0]),
    };
    let batch = Batch {
        rows: 3,
        columns: model.schema().fields.iter().map(column).collect(),
        position: Position::default(),
    };
    let features = model.features(&batch).unwrap();
    let lengths = model.reads(&features).into_iter().zip(model.variables());
    let mut values: Values = lengths
        .map(|(read, spec)| {
            let length = match read {
                Read::Whole => spec.len(),
                Read::Rows(rows) => rows.len() * spec.width(),
                Read::Ids(ids) => ids.len() * spec.width(),
                Read::Nothing => 0,
            };
            let value = |place: usize| 0.5 * (place as f32 * 1.7 + spec.width() as f32).sin();
            (0..length).map(value).collect()
        })
        .collect();
    assert_eq!([values[0].len(), values[1].len()], [3 * 8, 2 * 8]);
    let mut scratch = Default::default();
    let mut gradients = Vec::new();
    model
        .train(&features, &values, &mut gradients, &mut scratch)
        .unwrap();
    let mut telling = 0;
    for table in 0..2 {
        for place in 0..values[table].len() {
            let before = values[table][place];
            let mut loss_at = |value: f32| {
                values[table][place] = value;
                let mut unused = Vec::new();
                model
                    .train(&features, &values, &mut unused, &mut scratch)
                    .unwrap()
                    .loss
            };
            let numeric = (loss_at(before + 5e-3) - loss_at(before - 5e-3)) / 1e-2;
            values[table][place] = before;
            let given = f64::from(gradients[table][place]);
            assert!(
                (numeric - given).abs() < 1e-3,
                "{table} {place}: {numeric} {given}"
            );
            telling += usize::from(given.abs() > 5e-3);
        }
    }
    assert!(telling > 10, "only {telling} gradients tell");
}

fn texts(cells: &[&str]) -> Column {
    let mut texts = Bytes::default();
    cells.iter().for_each(|cell| texts.push(cell.as_bytes()));
    Column::bytes(texts)
}
