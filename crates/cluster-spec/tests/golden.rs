//! `TF_CONFIG` as TensorFlow's RunConfig reads it, line by line.
#![expect(clippy::unwrap_used, reason = "a recorded case that is not as its README says fails the test")]

use std::collections::BTreeMap;

use serde_json::Value;
use trainyard_cluster_spec::{Role, TfConfig};

/// Where we differ on purpose; docs/tensorflow.md says why.
fn refused_on_purpose(case: &Value) -> bool {
    let category = case["category"].as_str().unwrap();
    let index =
        serde_json::from_str::<Value>(case["tf_config"].as_str().unwrap_or("null")).unwrap_or(Value::Null);
    let index = &index["task"]["index"];
    let odd_index = index.is_boolean() || index.is_f64();
    let evaluator_index = case["train_and_evaluate"].get("error").is_some();
    let named_port = case["tf_config"].as_str().is_some_and(|text| text.contains("host:port"));
    named_port
        || odd_index
        || evaluator_index
        || ["odd_address", "duplicate_address", "type_extra_job"].contains(&category)
}

fn agrees(config: &TfConfig, ok: &Value, evaluator_dropped: bool) -> Result<(), String> {
    let role = match ok["task_type"].as_str().unwrap() {
        "master" => "chief",
        other => other,
    };
    let expected_id = ok["global_id_in_cluster"].as_u64().map(|id| id as usize);
    let checks = [
        ("task_type", config.task.role.as_str() == role),
        ("task_id", config.task.index as u64 == ok["task_id"].as_u64().unwrap()),
        ("is_chief", config.is_chief() == ok["is_chief"].as_bool().unwrap()),
        (
            "num_worker_replicas",
            config.num_worker_replicas() as u64 == ok["num_worker_replicas"].as_u64().unwrap(),
        ),
        ("num_ps_replicas", config.num_ps_replicas() as u64 == ok["num_ps_replicas"].as_u64().unwrap()),
        ("global_id_in_cluster", evaluator_dropped || config.global_id_in_cluster() == expected_id),
        ("cluster", addresses(config) == expected_addresses(config, &ok["cluster"])),
        ("service", config.service.as_ref().unwrap_or(&Value::Null) == &ok["service"]),
    ];
    match checks.iter().find(|(_, holds)| !holds) {
        Some((field, _)) => Err(format!("{field} differs: {config:?}")),
        None => Ok(()),
    }
}

/// Tasks and addresses of the training cluster; an evaluator is told none, as in TensorFlow.
fn addresses(config: &TfConfig) -> BTreeMap<String, String> {
    match &config.cluster {
        Some(cluster) if config.task.role != Role::Evaluator => {
            cluster.tasks.iter().map(|(task, address)| (task.to_string(), address.clone())).collect()
        }
        _ => BTreeMap::new(),
    }
}

/// `cluster_spec.as_dict()`: job -> addresses, or job -> {index: address} where indices have gaps. `master` is our
/// chief, and evaluators are dropped.
fn expected_addresses(config: &TfConfig, jobs: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (job, tasks) in jobs.as_object().unwrap() {
        let role = if job == "master" { "chief" } else { job };
        let mut put = |index: String, address: &Value| {
            out.insert(format!("{role}:{index}"), address.as_str().unwrap().to_owned());
        };
        match tasks {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| put(index.to_string(), item));
            }
            _ => tasks.as_object().unwrap().iter().for_each(|(index, item)| put(index.clone(), item)),
        }
    }
    out.retain(|task, _| !task.starts_with("evaluator:"));
    // Without a cluster TensorFlow's is empty, and so is ours.
    assert!(config.cluster.is_some() || out.is_empty(), "{config:?}: {out:?}");
    out
}

#[test]
fn golden_tf_config_is_read_as_tensorflow_reads_it() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden");
    let folder = std::env::var("TRAINYARD_GOLDEN").unwrap_or_else(|_| default.into());
    let Ok(text) = std::fs::read_to_string(format!("{folder}/tf_config.jsonl")) else {
        println!("skipped: {folder}/tf_config.jsonl is not here");
        return;
    };
    let (mut equal, mut on_purpose, mut wrong) = (0, 0, Vec::new());
    for (number, line) in text.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        let Some(given) = case["tf_config"].as_str() else {
            equal += 1; // the variable is not set: nothing to parse
            continue;
        };
        let config = TfConfig::parse(given);
        let in_cluster = case["category"] == "evaluator_in_cluster";
        let model_dir = case["run_config_args"]["model_dir"].as_str();
        let clash = |config: &TfConfig| {
            matches!((model_dir, &config.model_dir), (Some(job), Some(environment)) if job != environment)
                || model_dir == Some("")
        };
        match (&config, case.get("ok")) {
            (Ok(_), Some(_)) if refused_on_purpose(&case) => {
                wrong.push(format!("line {}: accepted {given}", number + 1))
            }
            (Ok(config), Some(ok))
                if config.model_dir.as_deref().or(model_dir) != ok["model_dir"].as_str() =>
            {
                wrong.push(format!("line {}: model_dir differs: {config:?}", number + 1));
            }
            (Ok(config), Some(ok)) => match agrees(config, ok, in_cluster && config.task.role != Role::Chief)
            {
                Ok(()) if in_cluster => on_purpose += 1,
                Ok(()) => equal += 1,
                Err(difference) => wrong.push(format!("line {}: {difference}", number + 1)),
            },
            (Err(_), Some(_)) if refused_on_purpose(&case) => on_purpose += 1,
            (Err(problem), Some(_)) => wrong.push(format!("line {}: refused with {problem}", number + 1)),
            (Ok(config), None) if clash(config) => equal += 1, // the job file's check
            (Ok(_), None) => wrong.push(format!("line {}: accepted {given}", number + 1)),
            (Err(problem), None) => {
                assert!(problem.place.is_some(), "line {}: no place in {problem}", number + 1);
                equal += 1;
            }
        }
    }
    println!("tf_config.jsonl: {equal} equal, {on_purpose} different on purpose");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
