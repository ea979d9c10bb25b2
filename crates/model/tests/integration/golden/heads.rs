//! `metrics.json`, `heads`: metrics that heads report.

use serde_json::{Value, json};
use trainyard_input::{Batch, Bytes, Cells, Column, FieldKind, Position, Schema};
use trainyard_model::{Head, HeadMetrics};
use trainyard_run_config::Job;
use trainyard_testing::{Golden, difference, flat, list};

use super::report;

/// Returns the job of a case's head.
fn head(case: &Value) -> Head {
    let head = &case["head"];
    let kind = match head["class"].as_str().unwrap() {
        "BinaryClassHead" => "binary",
        "MultiClassHead" => "multi_class",
        "MultiLabelHead" => "multi_label",
        "RegressionHead" => "regression",
        "PoissonRegressionHead" => "poisson",
        "LogisticRegressionHead" => "logistic_regression",
        other => panic!("no head {other}"),
    };
    let mut text = format!("[model]\nkind = \"baseline_estimator\"\nhead = \"{kind}\"\n");
    for key in [
        "n_classes",
        "label_dimension",
        "loss_reduction",
        "thresholds",
        "classes_for_class_based_metrics",
    ] {
        if let Some(value) = head.get(key).filter(|value| !value.is_null()) {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    let vocabulary = head
        .get("label_vocabulary")
        .filter(|value| !value.is_null());
    let vocabulary = vocabulary.map_or_else(String::new, |names| format!(", vocabulary = {names}"));
    let text = format!(
        "model_dir = \"m\"\n{text}[input]\nlabel = {{ column = \"y\"{vocabulary} }}\n\
         [input.train]\nfiles = [\"t\"]\nepochs = 1\n"
    );
    let job = Job::parse(std::path::Path::new("job.toml"), &text, &[])
        .unwrap_or_else(|problems| panic!("{}", trainyard_diagnostic::render_all(&problems)));
    Head::new(&job.model, &job.input.label)
}

/// Returns the labels of a batch, parsed by the head as if from a file.
fn labels(head: &Head, recorded: &Value) -> Result<Vec<f32>, String> {
    let mut schema = Schema::default();
    let field = head.want(&mut schema);
    let rows = list(recorded);
    let (cells, offsets) = match &schema.fields[field].kind {
        FieldKind::Bytes { .. } => {
            let mut texts = Bytes::default();
            rows.iter()
                .for_each(|row| texts.push(row[0].as_str().unwrap().as_bytes()));
            (Cells::Bytes(texts), None)
        }
        FieldKind::Int { .. } => {
            let mut classes = Vec::new();
            let mut offsets = vec![0];
            for row in rows {
                let ones = list(row)
                    .iter()
                    .enumerate()
                    .filter(|(_, value)| flat(value) == [1.0]);
                classes.extend(ones.map(|(class, _)| class as i64));
                offsets.push(classes.len() as u32);
            }
            (Cells::Int(classes), Some(offsets))
        }
        FieldKind::Float { width, .. } => {
            let numbers = flat(recorded);
            if numbers.len() != width * rows.len() {
                return Err(format!(
                    "{} numbers for {} records of {width}",
                    numbers.len(),
                    rows.len()
                ));
            }
            (Cells::Float(numbers), None)
        }
        FieldKind::Floats { .. } => panic!("a head wants as many numbers in every record"),
    };
    let batch = Batch {
        rows: rows.len(),
        columns: vec![Column { cells, offsets }],
        position: Position::default(),
    };
    head.labels(&batch, field)
        .map_err(|error| error.to_string())
}

fn check(case: &Value) -> Result<(), String> {
    let head = head(case);
    let mut metrics = HeadMetrics::default();
    let mut delta = Vec::new();
    for (number, batch) in list(&case["batches"]).iter().enumerate() {
        let labels = match labels(&head, &batch["labels"]) {
            Ok(labels) => labels,
            Err(_) if case.get("error").is_some() => return Ok(()),
            Err(problem) => return Err(problem),
        };
        let logits = flat(&batch["logits"]);
        let weights = batch.get("weights").map(flat);
        let loss = head.loss(&logits, &labels, weights.as_deref(), &mut delta) as f32;
        let expected = case
            .get("loss_per_batch")
            .map(|losses| flat(&losses[number]));
        if let Some(problem) =
            expected.and_then(|expected| difference(&[loss], &expected, 1e-5, 1e-6))
        {
            return Err(format!("loss of batch {number}: {problem}"));
        }
        metrics.add(&head, &logits, &labels, weights.as_deref(), None);
    }
    if case.get("error").is_some() {
        return Err(format!("no error, TensorFlow says {}", case["error"]));
    }
    let scores = metrics.scores(&head);
    for (name, expected) in case["evaluate"].as_object().unwrap() {
        let given = *scores
            .get(name)
            .ok_or_else(|| format!("no metric {name}"))? as f32;
        let absolute = if name.starts_with("auc") { 1e-5 } else { 1e-6 };
        if let Some(problem) = difference(&[given], &flat(&json!(expected)), 1e-5, absolute) {
            return Err(format!("{name}: {problem}"));
        }
    }
    Ok(())
}

#[test]
fn golden_heads_report_tensorflows_metrics() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut refused = 0;
    let mut failures = Vec::new();
    for case in &golden.cases("metrics.json", "heads") {
        match check(case) {
            Ok(()) if case.get("error").is_some() => refused += 1,
            Ok(()) => equal += 1,
            Err(problem) => failures.push(format!("{}: {problem}", case["name"])),
        }
    }
    let counts = [("equal", equal, 22), ("refused by both", refused, 4)];
    report(&golden, "metrics.json, heads", &failures, &counts);
}
