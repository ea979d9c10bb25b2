//! `TF_CONFIG`, compared with TensorFlow's RunConfig line by line.
#![expect(
    clippy::unwrap_used,
    reason = "a recorded case that is not as its README says fails the test"
)]

use std::collections::BTreeMap;

use serde_json::Value;
use trainyard_cluster_spec::{Role, TfConfig};
use trainyard_testing::Golden;

/// Returns whether Trainyard refuses a case on purpose; docs/tensorflow.md has the reasons.
fn refused_on_purpose(case: &Value) -> bool {
    let category = case["category"].as_str().unwrap();
    let index = serde_json::from_str::<Value>(case["tf_config"].as_str().unwrap_or("null"))
        .unwrap_or(Value::Null);
    let index = &index["task"]["index"];
    let odd_index = index.is_boolean() || index.is_f64();
    let evaluator_index = case["train_and_evaluate"].get("error").is_some();
    let named_port = case["tf_config"]
        .as_str()
        .is_some_and(|text| text.contains("host:port"));
    named_port
        || odd_index
        || evaluator_index
        || ["odd_address", "duplicate_address", "type_extra_job"].contains(&category)
}

/// Compares everything but the task's number in the cluster.
fn agrees(config: &TfConfig, ok: &Value) -> Result<(), String> {
    let role = match ok["task_type"].as_str().unwrap() {
        "master" => "chief",
        other => other,
    };
    let checks = [
        ("task_type", config.task.role.as_str() == role),
        (
            "task_id",
            config.task.index as u64 == ok["task_id"].as_u64().unwrap(),
        ),
        (
            "is_chief",
            config.is_chief() == ok["is_chief"].as_bool().unwrap(),
        ),
        (
            "num_worker_replicas",
            config.num_worker_replicas() as u64 == ok["num_worker_replicas"].as_u64().unwrap(),
        ),
        (
            "num_ps_replicas",
            config.num_ps_replicas() as u64 == ok["num_ps_replicas"].as_u64().unwrap(),
        ),
        (
            "cluster",
            addresses(config) == expected_addresses(config, &ok["cluster"]),
        ),
        (
            "service",
            config.service.as_ref().unwrap_or(&Value::Null) == &ok["service"],
        ),
    ];
    match checks.iter().find(|(_, holds)| !holds) {
        Some((field, _)) => Err(format!("{field} differs: {config:?}")),
        None => Ok(()),
    }
}

/// Returns the tasks and addresses of the training cluster; empty for an evaluator, as in TensorFlow.
fn addresses(config: &TfConfig) -> BTreeMap<String, String> {
    match &config.cluster {
        Some(cluster) if config.task.role != Role::Evaluator => cluster
            .tasks
            .iter()
            .map(|(task, address)| (task.to_string(), address.clone()))
            .collect(),
        _ => BTreeMap::new(),
    }
}

/// Converts `cluster_spec.as_dict()`: job -> addresses, or job -> {index: address} if indices have gaps. `master`
/// becomes the chief, and evaluators are dropped.
fn expected_addresses(config: &TfConfig, jobs: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (job, tasks) in jobs.as_object().unwrap() {
        let role = if job == "master" { "chief" } else { job };
        let mut put = |index: String, address: &Value| {
            out.insert(
                format!("{role}:{index}"),
                address.as_str().unwrap().to_owned(),
            );
        };
        match tasks {
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| put(index.to_string(), item));
            }
            _ => tasks
                .as_object()
                .unwrap()
                .iter()
                .for_each(|(index, item)| put(index.clone(), item)),
        }
    }
    out.retain(|task, _| !task.starts_with("evaluator:"));
    // Without a cluster both are empty.
    assert!(
        config.cluster.is_some() || out.is_empty(),
        "{config:?}: {out:?}"
    );
    out
}

/// Outcome of the comparison with a recorded case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Both read the same values.
    Equal,
    /// Both refuse the case.
    BothRefuse,
    /// Trainyard refuses on purpose a case that TensorFlow reads.
    RefusedHere,
    /// Both read the same values, except for the number of a task among evaluators, which Trainyard does not have.
    EvaluatorDropped,
    /// The variable is not set. The test parses an empty object instead, and both read the same values.
    Unset,
    /// TensorFlow refuses a `model_dir` that differs from the job's. Here the daemon refuses it.
    LeftToTheDaemon,
}

fn compare(case: &Value) -> Result<Outcome, String> {
    let given = case["tf_config"].as_str();
    let job_model_dir = case["run_config_args"]["model_dir"].as_str();
    let config = TfConfig::parse(given.unwrap_or("{}"));
    let Some(ok) = case.get("ok") else {
        return match config {
            Err(problem) if problem.place.is_none() => Err(format!("no place in {problem}")),
            Err(_) => Ok(Outcome::BothRefuse),
            Ok(config) => match (job_model_dir, &config.model_dir) {
                (Some(job), Some(environment)) if job != environment => {
                    Ok(Outcome::LeftToTheDaemon)
                }
                _ => Err("accepted, TensorFlow refuses it".to_owned()),
            },
        };
    };
    let config = match config {
        Err(_) if refused_on_purpose(case) => return Ok(Outcome::RefusedHere),
        Err(problem) => return Err(format!("refused with {problem}")),
        Ok(_) if refused_on_purpose(case) => {
            return Err("accepted, against docs/tensorflow.md".to_owned());
        }
        Ok(config) => config,
    };
    if config.model_dir.as_deref().or(job_model_dir) != ok["model_dir"].as_str() {
        return Err(format!("model_dir differs: {config:?}"));
    }
    let entered = case["train_and_evaluate"].as_str();
    if Some(procedure(&config))
        != entered.map(|name| {
            if name == "run_master" {
                "run_chief"
            } else {
                name
            }
        })
    {
        return Err(format!(
            "train_and_evaluate differs: {}",
            procedure(&config)
        ));
    }
    agrees(&config, ok)?;
    let same_number =
        config.global_id_in_cluster() == ok["global_id_in_cluster"].as_u64().map(|id| id as usize);
    match given {
        None if same_number => Ok(Outcome::Unset),
        Some(_) if same_number => Ok(Outcome::Equal),
        Some(_) if case["category"] == "evaluator_in_cluster" => Ok(Outcome::EvaluatorDropped),
        _ => Err(format!("global_id_in_cluster differs: {config:?}")),
    }
}

/// Returns the procedure of `train_and_evaluate` that the task enters. A master is a chief.
fn procedure(config: &TfConfig) -> &'static str {
    match (&config.cluster, config.task.role) {
        (None, _) => "run_local",
        (_, Role::Chief) => "run_chief",
        (_, Role::Worker) => "run_worker",
        (_, Role::Ps) => "run_ps",
        (_, Role::Evaluator) => "run_evaluator",
    }
}

#[test]
fn golden_tf_config_is_read_as_tensorflow_reads_it() {
    let golden = Golden::find();
    let Some(text) = golden.bytes("tf_config.jsonl") else {
        return;
    };
    let (mut outcomes, mut wrong) = (BTreeMap::<Outcome, usize>::new(), Vec::new());
    for (number, line) in String::from_utf8(text).unwrap().lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        match compare(&case) {
            Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
            Err(problem) => wrong.push(format!(
                "line {}: {problem}: {}",
                number + 1,
                case["tf_config"]
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let count = |outcome: Outcome| outcomes.get(&outcome).copied().unwrap_or(0);
    golden.assert_counts(
        "tf_config.jsonl",
        &[
            ("equal", count(Outcome::Equal), 55),
            ("refused by both", count(Outcome::BothRefuse), 79),
            ("refused here alone", count(Outcome::RefusedHere), 22),
            (
                "equal but for evaluators",
                count(Outcome::EvaluatorDropped),
                2,
            ),
            ("not set", count(Outcome::Unset), 1),
            ("left to the daemon", count(Outcome::LeftToTheDaemon), 1),
        ],
    );
}
