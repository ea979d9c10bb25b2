//! `TF_CONFIG`: cluster and task in one JSON object (`tf.estimator.RunConfig`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use trainyard_diagnostic::{Code, Diagnostic, Place, suggest};

use crate::spec::check_address;
use crate::{ClusterSpec, Role, Task};

/// Highest index of a task.
const INDEX_MAX: usize = 1 << 20;

/// The contents of `TF_CONFIG`.
#[derive(Debug, Clone, PartialEq)]
pub struct TfConfig {
    /// Task of this process. Without a cluster it is `worker:0`, which runs the whole job.
    pub task: Task,
    /// The cluster; absent = everything in one process.
    pub cluster: Option<ClusterSpec>,
    /// Overrides the job's `model_dir`.
    pub model_dir: Option<String>,
    /// `service`, passed through.
    pub service: Option<Value>,
    /// `session_master`, passed through.
    pub session_master: Option<String>,
    /// `eval_session_master`, passed through.
    pub eval_session_master: Option<String>,
}

impl TfConfig {
    /// Returns whether this task leads the job.
    pub fn is_chief(&self) -> bool {
        self.cluster.is_none() || self.task.role == Role::Chief
    }

    /// Returns the number of training tasks; 0 for an evaluator.
    pub fn num_worker_replicas(&self) -> usize {
        match (&self.cluster, self.task.role) {
            (_, Role::Evaluator) => 0,
            (Some(cluster), _) => cluster.num_worker_replicas(),
            (None, _) => 1,
        }
    }

    /// Returns the number of parameter servers; 0 for an evaluator.
    pub fn num_ps_replicas(&self) -> usize {
        match (&self.cluster, self.task.role) {
            (Some(cluster), role) if role != Role::Evaluator => cluster.num_ps(),
            _ => 0,
        }
    }

    /// Returns this task's number in the cluster; `None` for an evaluator.
    pub fn global_id_in_cluster(&self) -> Option<usize> {
        match &self.cluster {
            Some(cluster) => cluster.global_id(self.task),
            None => Some(0),
        }
    }

    /// Parses the value of the environment variable.
    ///
    /// # Errors
    /// The text is not JSON, or the cluster or the task is invalid.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let value: Value = serde_json::from_str(text).map_err(|error| not_json(text, &error))?;
        let Value::Object(top) = &value else {
            return Err(wrong(
                "",
                format!("TF_CONFIG must be a JSON object, given {}", kind(&value)),
            ));
        };
        let service = match top.get("service") {
            None => None,
            Some(service @ Value::Object(_)) => Some(service.clone()),
            Some(other) => {
                return Err(wrong(
                    "service",
                    format!("service must be a JSON object, given {}", kind(other)),
                ));
            }
        };
        let text_of = |key: &str| match top.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong(
                key,
                format!("{key} must be a string, given {}", kind(other)),
            )),
        };
        let model_dir = text_of("model_dir")?;
        if model_dir.as_deref() == Some("") {
            return Err(wrong(
                "model_dir",
                "model_dir in TF_CONFIG must not be empty".to_owned(),
            ));
        }
        let task = read_task(top.get("task"))?;
        let spec = match top.get("cluster") {
            None => None,
            Some(Value::Object(map)) if map.is_empty() => None,
            Some(Value::Object(map)) => Some(read_cluster(map)?),
            Some(other) => {
                let message = format!(
                    "cluster must map jobs to lists of addresses, given {}",
                    kind(other)
                );
                return Err(wrong("cluster", message));
            }
        };
        let (task, cluster) = match spec {
            Some((spec, chief_job)) => (in_cluster(&spec, &task, chief_job)?, Some(spec)),
            None => (alone(&task)?, None),
        };
        let session_master = text_of("session_master")?;
        let eval_session_master = text_of("eval_session_master")?;
        Ok(Self {
            task,
            cluster,
            model_dir,
            service,
            session_master,
            eval_session_master,
        })
    }
}

/// `task` as written, with checked types.
struct RawTask {
    role: Option<String>,
    index: Option<usize>,
}

fn read_task(task: Option<&Value>) -> Result<RawTask, Diagnostic> {
    let task = match task {
        None => {
            return Ok(RawTask {
                role: None,
                index: None,
            });
        }
        Some(Value::Object(task)) => task,
        Some(other) => {
            return Err(wrong(
                "task",
                format!("task must be a JSON object, given {}", kind(other)),
            ));
        }
    };
    let role = match task.get("type") {
        None | Some(Value::Null) => None,
        Some(Value::String(role)) => Some(role.clone()),
        Some(other) => {
            return Err(wrong(
                "task.type",
                format!("task.type must be a string, given {other}"),
            ));
        }
    };
    let index = match task.get("index") {
        None => None,
        Some(Value::Null) => {
            return Err(wrong(
                "task.index",
                "task.index must be set, given null".to_owned(),
            ));
        }
        Some(Value::Number(number)) if number.is_u64() => number
            .as_u64()
            .and_then(|index| usize::try_from(index).ok()),
        Some(Value::String(text)) => match text.trim().parse() {
            Ok(index) => Some(index),
            Err(_) => {
                return Err(wrong(
                    "task.index",
                    format!("task.index must be a whole number >= 0, given \"{text}\""),
                ));
            }
        },
        Some(other) => {
            return Err(wrong(
                "task.index",
                format!("task.index must be a whole number >= 0, given {other}"),
            ));
        }
    };
    Ok(RawTask { role, index })
}

/// Returns the task without a cluster. It runs the whole job in this process.
fn alone(task: &RawTask) -> Result<Task, Diagnostic> {
    match (task.role.as_deref(), task.index) {
        (None | Some("worker"), None | Some(0)) => Ok(Task {
            role: Role::Worker,
            index: 0,
        }),
        (None | Some("worker"), Some(index)) => Err(wrong(
            "task.index",
            format!("without a cluster task.index must be 0, given {index}"),
        )),
        (Some(role), _) => {
            let message = format!("without a cluster task.type must be `worker`, given `{role}`");
            Err(wrong("task.type", message)
                .help("add `cluster`, or leave TF_CONFIG out to run everything in one process"))
        }
    }
}

/// Job of the chief in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChiefJob {
    /// `chief`.
    Chief,
    /// `master`, the legacy chief, which also evaluates.
    Master,
}

fn in_cluster(spec: &ClusterSpec, task: &RawTask, chief_job: ChiefJob) -> Result<Task, Diagnostic> {
    let Some(role_name) = task.role.as_deref() else {
        return Err(
            wrong("task", "with a cluster task.type must be set".to_owned())
                .help("for example \"task\": {\"type\": \"worker\", \"index\": 0}"),
        );
    };
    let Some(index) = task.index else {
        return Err(wrong(
            "task",
            "with a cluster task.index must be set".to_owned(),
        ));
    };
    let role = match role_name {
        "chief" if chief_job == ChiefJob::Chief => Role::Chief,
        "master" if chief_job == ChiefJob::Master => Role::Chief,
        "worker" => Role::Worker,
        "ps" => Role::Ps,
        "evaluator" if chief_job == ChiefJob::Chief => Role::Evaluator,
        "evaluator" => {
            let message =
                "a cluster with the legacy job `master` has no evaluator: the master evaluates";
            return Err(wrong("task.type", message.to_owned()).help("rename `master` to `chief`"));
        }
        other => {
            let known = ["chief", "worker", "ps", "evaluator"];
            let problem = wrong(
                "task.type",
                format!("task.type `{other}` is not in the cluster"),
            );
            let problem = problem.note(format!("known: {}", known.join(", ")));
            return Err(match suggest(other, known) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem,
            });
        }
    };
    spec.task(role, index)
        .map_err(|problem| problem.at(named("task.index")))
}

/// Parses the cluster. Also returns the job of its chief.
fn read_cluster(
    map: &serde_json::Map<String, Value>,
) -> Result<(ClusterSpec, ChiefJob), Diagnostic> {
    let mut spec = ClusterSpec {
        tasks: BTreeMap::new(),
        admin: BTreeMap::new(),
        standbys: BTreeMap::new(),
        evaluators: 0,
        credentials: Default::default(),
        evaluator_addresses: Vec::new(),
    };
    let chief_job = if map.contains_key("master") {
        ChiefJob::Master
    } else {
        ChiefJob::Chief
    };
    if chief_job == ChiefJob::Master && map.contains_key("chief") {
        return Err(wrong(
            "cluster",
            "a cluster with the job `master` cannot have the job `chief`".to_owned(),
        ));
    }
    for (job, tasks) in map {
        let role = match job.as_str() {
            "chief" | "master" => Role::Chief,
            "worker" => Role::Worker,
            "ps" => Role::Ps,
            "evaluator" => Role::Evaluator,
            other => {
                let known = ["chief", "worker", "ps", "evaluator", "master"];
                let problem = wrong("cluster", format!("unknown job `{other}` in the cluster"))
                    .note(format!("known: {}", known.join(", ")));
                return Err(match suggest(other, known) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help("remove it: no daemon runs it"),
                });
            }
        };
        for (index, address) in read_addresses(job, tasks)? {
            let task = Task { role, index };
            if let Err(rule) = check_address(&address) {
                return Err(wrong(
                    &format!("cluster.{job}"),
                    format!("address of {task} {rule}, given `{address}`"),
                ));
            }
            if let Some((other, _)) = spec.tasks.iter().find(|(_, other)| **other == address) {
                let message = format!("address of {task} must be its own, {address} is {other}'s");
                return Err(wrong(&format!("cluster.{job}"), message));
            }
            // An evaluator takes no part in training, so it is dropped before tasks are numbered.
            match role {
                Role::Evaluator => spec.evaluators += 1,
                _ => drop(spec.tasks.insert(task, address)),
            }
        }
    }
    match spec.of_role(Role::Chief).count() {
        1 => Ok((spec, chief_job)),
        count => {
            let message = format!("a cluster must have one \"chief\", given {count}");
            Err(wrong("cluster", message).help("for example \"chief\": [\"host0:2222\"]"))
        }
    }
}

fn read_addresses(job: &str, tasks: &Value) -> Result<Vec<(usize, String)>, Diagnostic> {
    let at = format!("cluster.{job}");
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong(
            &at,
            format!("an address must be a string, given {other}"),
        )),
    };
    match tasks {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| Ok((index, text(item)?)))
            .collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, item)| match key.trim().parse::<usize>() {
                Ok(index) if index <= INDEX_MAX => Ok((index, text(item)?)),
                _ => Err(wrong(
                    &at,
                    format!("a task's key must be its index, given `{key}`"),
                )),
            })
            .collect(),
        other => {
            let message = format!(
                "tasks of job `{job}` must be a list, or a map from index to address, given {}",
                kind(other)
            );
            Err(wrong(&at, message))
        }
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!(
            "the string \"{}\"",
            text.chars().take(40).collect::<String>()
        ),
        other => other.to_string(),
    }
}

fn named(key: &str) -> Place {
    let at = if key.is_empty() {
        String::new()
    } else {
        format!(", at {key}")
    };
    Place::Named(format!("environment variable TF_CONFIG{at}"))
}

fn wrong(key: &str, message: String) -> Diagnostic {
    let code = if key.starts_with("task") {
        Code::E1004
    } else {
        Code::E1007
    };
    Diagnostic::error(code, message).at(named(key))
}

fn not_json(text: &str, error: &serde_json::Error) -> Diagnostic {
    let line = text
        .lines()
        .nth(error.line().saturating_sub(1))
        .unwrap_or("");
    // The column of serde_json counts bytes; messages count characters.
    let before = line
        .char_indices()
        .take_while(|(at, _)| at + 1 < error.column())
        .count();
    let place = Place::Source {
        file: Path::new("environment variable TF_CONFIG").into(),
        line: error.line().max(1),
        column: before + 1,
        text: line.into(),
        length: 1,
        label: String::new(),
    };
    let message = if text.trim().is_empty() {
        "TF_CONFIG is empty".to_owned()
    } else {
        format!(
            "TF_CONFIG is not valid JSON: {} at line {} column {}",
            reason(error),
            error.line().max(1),
            before + 1
        )
    };
    Diagnostic::error(Code::E1003, message)
        .at(place)
        .help("unset TF_CONFIG, or set it to a JSON object with `cluster` and `task`")
}

/// Returns the message of serde_json without its position, which counts bytes.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
