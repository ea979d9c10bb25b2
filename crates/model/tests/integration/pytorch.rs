//! `pytorch/premade.json`: kinds that TensorFlow's estimators lack, trained step by step as by PyTorch.

use serde_json::Value;
use trainyard_input::{Dataset, Format, Options};
use trainyard_model::{Model, Prediction};
use trainyard_testing::{difference, flat};

use crate::golden::canned::Trained;

const RELATIVE: f32 = 1e-4;
const ABSOLUTE: f32 = 1e-5;

#[test]
fn kinds_that_tensorflow_lacks_train_step_by_step_as_in_pytorch() {
    let recorded: Value = serde_json::from_str(include_str!("../pytorch/premade.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.csv");
    std::fs::write(&file, recorded["rows"].as_str().unwrap()).unwrap();
    let passes = recorded["passes"].as_u64().unwrap();
    for case in recorded["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let mut trained = Trained::new(case["job"].as_str().unwrap(), folder.path());
        let start = case["start"].as_object().unwrap();
        let mut names: Vec<&str> = start.keys().map(String::as_str).collect();
        let variables = trained.model.variables().iter();
        let mut given: Vec<&str> = variables.map(|spec| spec.name.as_str()).collect();
        names.sort_unstable();
        given.sort_unstable();
        assert_eq!(given, names, "{name}: variables");
        for (variable, value) in start {
            trained.set(variable, value);
        }
        let batches = |batch_size: usize| {
            let options = Options {
                batch_size,
                ..Options::new(vec![file.clone()], Format::Csv)
            };
            let batches = Dataset::open(options, trained.model.schema().clone()).unwrap();
            let batches = batches.map(|batch| trained.model.features(&batch.unwrap()).unwrap());
            batches.collect::<Vec<_>>()
        };
        let of_steps = batches(recorded["batch_size"].as_u64().unwrap() as usize);
        let all = batches(usize::from(u16::MAX)).remove(0);
        let mut losses = Vec::new();
        for _ in 0..passes {
            losses.extend(of_steps.iter().map(|batch| trained.step(batch) as f32));
        }
        let agree = |what: &str, given: &[f32], expected: &Value| {
            let found = difference(given, &flat(expected), RELATIVE, ABSOLUTE);
            assert!(found.is_none(), "{name}: {what}: {found:?}");
        };
        agree("losses", &losses, &case["losses"]);
        for (variable, value) in case["end"].as_object().unwrap() {
            agree(variable, trained.variable(variable).unwrap(), value);
        }
        let (_, values) = trained.gather(&all);
        let predictions = trained
            .model
            .predict(&all, &values, &mut Default::default());
        // Of a regression, the logits are the predictions.
        let keys = case["keys"].as_array().unwrap();
        let logits = predictions.unwrap().into_iter().flat_map(|mut row| {
            let logits = keys.iter().map(|key| row.remove(key.as_str().unwrap()));
            let logits = logits.map(|logits| match logits {
                Some(Prediction::Floats(logits)) => logits,
                _ => panic!("{name}: no logits"),
            });
            logits.flatten().collect::<Vec<f32>>()
        });
        agree("logits", &logits.collect::<Vec<f32>>(), &case["logits"]);
    }
}
