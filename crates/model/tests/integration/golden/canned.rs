//! `canned.json`: premade estimators, step by step.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use trainyard_model::{Canned, Model, Prediction};
use trainyard_optimizer::{OptimizerConfig, RowGradient};
use trainyard_run_config::Job;
use trainyard_testing::{Golden, difference, flat, list};
use trainyard_variable::{Read, Values};

use super::batch::{Recorded, batch, recorded};
use super::columns::{Part, Sections, optimizer};
use super::report;

const RELATIVE: f32 = 1e-4;
const ABSOLUTE: f32 = 1e-5;

/// A model with the whole of its variables and slots.
pub(crate) struct Trained {
    pub(crate) model: Canned,
    pub(crate) values: Values,
    slots: Vec<Vec<Vec<f32>>>,
    rules: BTreeMap<String, OptimizerConfig>,
    step: u64,
}

impl Trained {
    pub(crate) fn new(job: &str, folder: &Path) -> Self {
        let job = Job::parse(&folder.join("job.toml"), job, &[]).unwrap_or_else(|problems| {
            panic!("{job}\n{}", trainyard_diagnostic::render_all(&problems))
        });
        let model = Canned::from_job(&job).unwrap();
        let rules = model.optimizers();
        let variables = model.variables();
        let values = variables
            .iter()
            .map(|spec| {
                let mut values = vec![0.0; spec.len()];
                spec.initializer
                    .fill(0, &spec.name, &spec.shape, 0..spec.rows(), &mut values);
                values
            })
            .collect();
        let slots = variables
            .iter()
            .map(|spec| {
                let slots = rules[&spec.optimizer_group].slots();
                slots
                    .iter()
                    .map(|slot| vec![slot.initial; spec.len()])
                    .collect()
            })
            .collect();
        Self {
            model,
            values,
            slots,
            rules,
            step: 0,
        }
    }

    /// Sets a variable by TensorFlow's name.
    pub(crate) fn set(&mut self, name: &str, value: &Value) {
        let place = self
            .place(name)
            .unwrap_or_else(|| panic!("no variable {name}"));
        let value = flat(value);
        assert_eq!(value.len(), self.values[place].len(), "{name}");
        self.values[place] = value;
    }

    fn place(&self, name: &str) -> Option<usize> {
        // In TensorFlow 1, variables of a partitioner are parts.
        let name = name.strip_suffix("/part_0").unwrap_or(name);
        self.model
            .variables()
            .iter()
            .position(|spec| spec.name == name)
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&[f32]> {
        Some(&self.values[self.place(name)?])
    }

    /// Returns a slot by TensorFlow's name: `training/Adagrad/<variable>/accumulator`, `<variable>/part_0/Ftrl_1`.
    fn slot(&self, name: &str) -> Option<&[f32]> {
        let (owner, slot) = name.rsplit_once('/')?;
        let owner = owner.strip_suffix("/part_0").unwrap_or(owner);
        let variables = self.model.variables();
        let ends = |spec: &str| owner == spec || owner.ends_with(&format!("/{spec}"));
        let place = (0..variables.len()).find(|place| ends(&variables[*place].name))?;
        let names = self.rules[&variables[place].optimizer_group].slots();
        let nth = match slot {
            "Ftrl" | "Adagrad" => 0,
            "Ftrl_1" => 1,
            "accumulator" if names[0].name == "accum" => 0,
            slot => names.iter().position(|known| known.name == slot)?,
        };
        self.slots[place].get(nth).map(Vec::as_slice)
    }

    pub(crate) fn gather(&self, features: &<Canned as Model>::Features) -> (Vec<Read>, Values) {
        let reads = self.model.reads(features);
        let values = reads
            .iter()
            .zip(self.model.variables())
            .zip(&self.values)
            .map(|((read, spec), all)| match read {
                Read::Whole => all.clone(),
                Read::Nothing => Vec::new(),
                Read::Ids(_) => unreachable!("TensorFlow has no dynamic tables"),
                Read::Rows(rows) => {
                    let width = spec.width();
                    rows.iter()
                        .flat_map(|row| all[*row as usize * width..][..width].to_vec())
                        .collect()
                }
            });
        let values = values.collect();
        (reads, values)
    }

    /// Runs one step, and returns its loss.
    pub(crate) fn step(&mut self, features: &<Canned as Model>::Features) -> f64 {
        let (reads, values) = self.gather(features);
        let mut gradients = Vec::new();
        let mut scratch = Default::default();
        let outcome = self
            .model
            .train(features, &values, &mut gradients, &mut scratch)
            .unwrap();
        self.step += 1;
        for (place, spec) in self.model.variables().iter().enumerate() {
            let rule = &self.rules[&spec.optimizer_group];
            let mut slots: Vec<&mut [f32]> = self.slots[place]
                .iter_mut()
                .map(Vec::as_mut_slice)
                .collect();
            let values = &mut self.values[place];
            let gradient = &gradients[place];
            match &reads[place] {
                Read::Whole => rule.apply_dense(self.step, values, &mut slots, gradient),
                Read::Rows(rows) => {
                    let gradient = RowGradient {
                        width: spec.width(),
                        rows,
                        values: gradient,
                    };
                    rule.apply_rows(self.step, values, &mut slots, gradient)
                }
                Read::Nothing | Read::Ids(_) => {}
            }
        }
        outcome.loss
    }
}

/// Returns the job of a case.
fn job(case: &Value, folder: &Path) -> String {
    let args = &case["args"];
    let class = case["estimator"].as_str().unwrap();
    let (family, goal) = match class.rsplit('.').next().unwrap() {
        "DNNLinearCombinedClassifier" => ("dnn_linear_combined", "classifier"),
        "DNNLinearCombinedRegressor" => ("dnn_linear_combined", "regressor"),
        name => {
            let goal = ["Classifier", "Regressor", "Estimator"]
                .into_iter()
                .find(|goal| name.ends_with(goal))
                .unwrap();
            let family = match name.strip_suffix(goal).unwrap() {
                "DNN" => "dnn",
                "Linear" => "linear",
                "Baseline" => "baseline",
                other => panic!("no family {other}"),
            };
            (
                family,
                match goal {
                    "Classifier" => "classifier",
                    "Regressor" => "regressor",
                    _ => "estimator",
                },
            )
        }
    };
    let mut sections = Sections::new(&case["data"]["features"], folder);
    let part = if family == "dnn" {
        Part::Deep
    } else {
        Part::Wide
    };
    sections.add_argument(args, "feature_columns", part);
    sections.add_argument(args, "linear_feature_columns", Part::Wide);
    sections.add_argument(args, "dnn_feature_columns", Part::Deep);
    let features = if family == "baseline" {
        String::new()
    } else {
        sections.finish()
    };
    let vocabulary = args
        .get("label_vocabulary")
        .filter(|names| !names.is_null());
    let vocabulary = vocabulary.map_or_else(String::new, |names| format!(", vocabulary = {names}"));
    let mut text =
        format!("model_dir = \"m\"\n[input]\nlabel = {{ column = \"label__\"{vocabulary} }}\n");
    if let Some(weights) = args["weight_column"].as_str() {
        let _ = writeln!(text, "weight_column = \"{weights}\"");
    }
    let defaults = if class.contains("compat.v1") {
        "tensorflow1"
    } else {
        "tensorflow2"
    };
    let _ = write!(
        text,
        "[input.train]\nfiles = [\"t\"]\nepochs = 1\n{features}[model]\nkind = \"{family}_{goal}\"\ndefaults = \"{defaults}\"\n"
    );
    let head = &args["head"];
    if let Some(class) = head["class"].as_str() {
        let name = match class {
            "BinaryClassHead" => "binary",
            "MultiLabelHead" => "multi_label",
            "PoissonRegressionHead" => "poisson",
            other => panic!("no head {other}"),
        };
        let _ = writeln!(text, "head = \"{name}\"");
    }
    for (ours, theirs) in [
        ("hidden_units", "hidden_units"),
        ("hidden_units", "dnn_hidden_units"),
        ("n_classes", "n_classes"),
        ("label_dimension", "label_dimension"),
        ("loss_reduction", "loss_reduction"),
        ("activation", "activation_fn"),
        ("batch_norm", "batch_norm"),
        ("sparse_combiner", "sparse_combiner"),
        ("sparse_combiner", "linear_sparse_combiner"),
        ("thresholds", "thresholds"),
    ] {
        for value in [args.get(theirs), head.get(theirs)]
            .into_iter()
            .flatten()
            .filter(|value| !value.is_null())
        {
            let _ = writeln!(text, "{ours} = {value}");
        }
    }
    let heading = if family == "dnn" {
        "dnn_optimizer"
    } else {
        "linear_optimizer"
    };
    for (heading, theirs) in [
        (heading, "optimizer"),
        ("linear_optimizer", "linear_optimizer"),
        ("dnn_optimizer", "dnn_optimizer"),
    ] {
        if args[theirs].is_object() {
            text.push_str(&optimizer(heading, &args[theirs]));
        }
    }
    text
}

/// Returns all columns of a case, with the label.
fn columns(case: &Value) -> BTreeMap<String, Recorded> {
    let mut columns = recorded(&case["data"]["features"]);
    let mut label = Recorded::new(&case["data"]["labels"]);
    if case["args"]["head"]["class"] == "MultiLabelHead" {
        // The record has a 0 or 1 for each class. Our label lists the classes.
        for row in &mut label.rows {
            let ones = row
                .iter()
                .enumerate()
                .filter(|(_, value)| value.as_i64() == Some(1));
            *row = ones.map(|(class, _)| Value::from(class)).collect();
        }
        label.sparse = true;
    } else if case["args"].get("label_vocabulary").is_none() {
        label.dtype = "float32".to_owned();
    }
    columns.insert("label__".to_owned(), label);
    columns
}

fn compare(what: &str, given: &[f32], expected: &Value) -> Result<(), String> {
    match difference(given, &flat(expected), RELATIVE, ABSOLUTE) {
        Some(problem) => Err(format!("{what}: {problem}")),
        None => Ok(()),
    }
}

/// Returns whether a variable of TensorFlow is a setting of an optimizer, or a counter.
fn is_setting(name: &str, value: &Value) -> bool {
    name == "global_step"
        || value["shape"].as_array().is_some_and(Vec::is_empty) && name.starts_with("training/")
}

fn check(case: &Value, folder: &Path) -> Result<(), String> {
    let mut trained = Trained::new(&job(case, folder), folder);
    for (name, value) in case["init"].as_object().unwrap() {
        trained.set(name, value);
    }
    let columns = columns(case);
    let count = list(&case["data"]["labels"]["values"]).len();
    let features = |trained: &Trained, rows: &[usize], number: u64| {
        let batch = batch(trained.model.schema(), &columns, rows, number).unwrap();
        trained.model.features(&batch).unwrap()
    };
    let size = case["train_batch_size"].as_u64().unwrap() as usize;
    for (step, expected) in list(&case["loss_per_step"]).iter().enumerate() {
        let rows: Vec<usize> = (step * size..(step + 1) * size)
            .map(|row| row % count)
            .collect();
        let features = features(&trained, &rows, step as u64);
        let loss = trained.step(&features);
        compare(
            &format!("loss of step {}", step + 1),
            &[loss as f32],
            expected,
        )?;
        if let Some(after) = case["trainable_after_step"].get((step + 1).to_string()) {
            for (name, value) in after.as_object().unwrap() {
                let given = trained
                    .variable(name)
                    .ok_or_else(|| format!("no variable {name}"))?;
                compare(&format!("{name} after step {}", step + 1), given, value)?;
            }
        }
    }
    for (name, value) in case["final"].as_object().unwrap() {
        if is_setting(name, value) {
            continue;
        }
        let given = trained.variable(name).or_else(|| trained.slot(name));
        let given = given.ok_or_else(|| format!("no variable or slot {name}"))?;
        compare(&format!("{name} at the end"), given, &value["value"])?;
    }
    evaluate(case, &trained, &features, count)?;
    predict(case, &trained, &features)
}

fn evaluate(
    case: &Value,
    trained: &Trained,
    features: &impl Fn(&Trained, &[usize], u64) -> <Canned as Model>::Features,
    count: usize,
) -> Result<(), String> {
    let size = case["eval_batch_size"].as_u64().unwrap() as usize;
    let mut metrics = trained.model.metrics();
    let mut scratch = Default::default();
    for rows in (0..count).collect::<Vec<_>>().chunks(size) {
        let features = features(trained, rows, 0);
        let (_, values) = trained.gather(&features);
        trained
            .model
            .evaluate(&features, &values, &mut metrics, &mut scratch)
            .unwrap();
    }
    let scores = trained.model.scores(&metrics);
    for (name, expected) in case["evaluate"].as_object().unwrap() {
        if name == "global_step" {
            continue;
        }
        let given = *scores
            .get(name)
            .ok_or_else(|| format!("no metric {name}"))? as f32;
        let absolute = if name.starts_with("auc") {
            1e-4
        } else {
            ABSOLUTE
        };
        if let Some(problem) = difference(&[given], &flat(expected), RELATIVE, absolute) {
            return Err(format!("metric {name}: {problem}"));
        }
    }
    Ok(())
}

fn predict(
    case: &Value,
    trained: &Trained,
    features: &impl Fn(&Trained, &[usize], u64) -> <Canned as Model>::Features,
) -> Result<(), String> {
    let recorded = list(&case["predict"]);
    let rows: Vec<usize> = (0..recorded.len()).collect();
    let features = features(trained, &rows, 0);
    let (_, values) = trained.gather(&features);
    let given = trained
        .model
        .predict(&features, &values, &mut Default::default())
        .unwrap();
    for (row, (given, expected)) in given.iter().zip(recorded).enumerate() {
        let expected = expected.as_object().unwrap();
        let keys: Vec<&String> = given.keys().collect();
        let mut wanted: Vec<&String> = expected.keys().collect();
        wanted.sort();
        if keys != wanted {
            return Err(format!("prediction has {keys:?}, not {wanted:?}"));
        }
        for (key, expected) in expected {
            let what = format!("{key} of row {row}");
            match &given[key] {
                Prediction::Floats(values) => compare(&what, values, expected)?,
                Prediction::Ints(values) if json!(values) == *expected => {}
                Prediction::Texts(values) if json!(values) == *expected => {}
                other => return Err(format!("{what}: {other:?} is not {expected}")),
            }
        }
    }
    Ok(())
}

#[test]
fn golden_premade_estimators_agree_step_by_step() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut steps = 0;
    let mut failures = Vec::new();
    for case in &golden.cases("canned.json", "cases") {
        let folder = tempfile::tempdir().unwrap();
        match check(case, folder.path()) {
            Ok(()) => equal += 1,
            Err(problem) => failures.push(format!("{}: {problem}", case["name"])),
        }
        steps += list(&case["loss_per_step"]).len();
    }
    report(
        &golden,
        "canned.json",
        &failures,
        &[("equal", equal, 30), ("steps", steps, 300)],
    );
}
