//! The tasks of a cluster and their addresses.

use std::collections::BTreeMap;

use serde::Serialize;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::{CredentialFiles, Role, Task};

/// The validated tasks of a training cluster. Sparse worker maps keep their indices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterSpec {
    /// Address (`host:port`, or `unix:` and a path) of each task of the training cluster, evaluators excluded.
    #[serde(serialize_with = "by_name")]
    pub tasks: BTreeMap<Task, String>,
    /// Addresses of the admin ports (`/metrics`), if the cluster file has them; evaluators included.
    #[serde(serialize_with = "by_name")]
    pub admin: BTreeMap<Task, String>,
    /// Addresses of the standby chiefs, `chief:1` and above. One of them leads when `chief:0` is gone for good. They
    /// are not tasks of their own: the leading chief is always `chief:0`.
    #[serde(serialize_with = "by_name")]
    pub standbys: BTreeMap<Task, String>,
    /// Number of evaluators. An evaluator takes no part in training, so it is not among the tasks.
    pub evaluators: usize,
    /// Paths of the tasks' credentials, from the cluster file.
    pub credentials: CredentialFiles,
    /// Addresses of the evaluators, if the cluster file has them. No task connects to them: they name the evaluator's
    /// host.
    #[serde(skip)]
    pub evaluator_addresses: Vec<String>,
}

fn by_name<S: serde::Serializer>(
    tasks: &BTreeMap<Task, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        tasks
            .iter()
            .map(|(task, address)| (task.to_string(), address)),
    )
}

/// Numbers of the tasks of a cluster on this machine, besides its chief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalCounts {
    /// Parameter servers.
    pub ps: usize,
    /// Workers besides the chief.
    pub workers: usize,
    /// Evaluators, 0 or 1.
    pub evaluators: usize,
}

impl LocalCounts {
    /// Most workers of a cluster on one machine.
    pub const WORKERS_MAX: usize = 256;

    /// Parses `local:ps=2,worker=3`; `None` if the text does not begin with `local`. Defaults: `ps` servers, no
    /// worker, one evaluator.
    ///
    /// # Errors
    /// A part is not `role=count`, or a count is out of range.
    pub fn parse(text: &str, ps: usize) -> Option<Result<Self, Diagnostic>> {
        let rest = text.strip_prefix("local")?;
        if !rest.is_empty() && !rest.starts_with(':') {
            return None;
        }
        let mut counts = Self {
            ps,
            workers: 0,
            evaluators: 1,
        };
        for part in rest
            .trim_start_matches(':')
            .split(',')
            .filter(|part| !part.is_empty())
        {
            let (role, count) = part.split_once('=').unwrap_or((part, ""));
            let (slot, range) = match role.trim() {
                "ps" => (&mut counts.ps, 0..=64),
                "worker" | "workers" => (&mut counts.workers, 0..=Self::WORKERS_MAX),
                "evaluator" => (&mut counts.evaluators, 0..=1),
                _ => {
                    return Some(Err(bad_local(
                        text,
                        &format!("`{role}` is not ps, worker or evaluator"),
                    )));
                }
            };
            match count.trim().parse::<usize>() {
                Ok(count) if range.contains(&count) => *slot = count,
                _ => {
                    let rule = format!(
                        "{role} must be {} to {}, given `{count}`",
                        range.start(),
                        range.end()
                    );
                    return Some(Err(bad_local(text, &rule)));
                }
            }
        }
        Some(Ok(counts))
    }

    /// Returns the number of ports that the cluster needs.
    pub fn ports(&self) -> usize {
        1 + self.workers + self.ps
    }
}

fn bad_local(text: &str, rule: &str) -> Diagnostic {
    Diagnostic::error(Code::E1000, format!("--cluster {text}: {rule}"))
        .help("for example --cluster local:ps=2,worker=3")
}

impl ClusterSpec {
    /// Returns a cluster without tasks, for a process that belongs to none.
    pub fn without_tasks() -> Self {
        Self {
            tasks: BTreeMap::new(),
            admin: BTreeMap::new(),
            standbys: BTreeMap::new(),
            evaluators: 0,
            credentials: CredentialFiles::default(),
            evaluator_addresses: Vec::new(),
        }
    }

    /// Returns a cluster on this machine with the given ports, in the order chief, workers, parameter servers.
    pub fn local(counts: LocalCounts, ports: &[u16]) -> Self {
        let roles = [
            (Role::Chief, 1),
            (Role::Worker, counts.workers),
            (Role::Ps, counts.ps),
        ];
        let tasks = roles
            .into_iter()
            .flat_map(|(role, count)| (0..count).map(move |index| Task { role, index }));
        let tasks = tasks
            .zip(ports)
            .map(|(task, port)| (task, format!("127.0.0.1:{port}")))
            .collect();
        Self {
            tasks,
            admin: BTreeMap::new(),
            standbys: BTreeMap::new(),
            evaluators: counts.evaluators,
            credentials: CredentialFiles::default(),
            evaluator_addresses: Vec::new(),
        }
    }

    /// Returns the number of parameter servers.
    pub fn num_ps(&self) -> usize {
        self.tasks
            .keys()
            .filter(|task| task.role == Role::Ps)
            .count()
    }

    /// Returns the number of training tasks: the chief and the workers.
    pub fn num_worker_replicas(&self) -> usize {
        self.tasks
            .keys()
            .filter(|task| matches!(task.role, Role::Chief | Role::Worker))
            .count()
    }

    /// Returns the tasks of a role and their addresses, in order.
    pub fn of_role(&self, role: Role) -> impl Iterator<Item = (Task, &str)> {
        self.tasks
            .iter()
            .filter(move |(task, _)| task.role == role)
            .map(|(task, address)| (*task, address.as_str()))
    }

    /// Returns the address of a task.
    pub fn address(&self, task: Task) -> Option<&str> {
        self.tasks
            .get(&task)
            .or_else(|| self.standbys.get(&task))
            .map(String::as_str)
    }

    /// Returns the possible addresses of the leading chief: `chief:0`, then the standby chiefs.
    pub fn chiefs(&self) -> Vec<String> {
        let chief = self
            .of_role(Role::Chief)
            .map(|(_, address)| address.to_owned());
        chief.chain(self.standbys.values().cloned()).collect()
    }

    /// Returns the task of a role by index.
    ///
    /// # Errors
    /// The cluster has no such task. The message lists the tasks that it has.
    pub fn task(&self, role: Role, index: usize) -> Result<Task, Diagnostic> {
        let task = Task { role, index };
        if self.address(task).is_some()
            || task
                == (Task {
                    role: Role::Evaluator,
                    index: 0,
                })
        {
            return Ok(task);
        }
        Err(self.no_task(role, index))
    }

    pub(crate) fn no_task(&self, role: Role, index: usize) -> Diagnostic {
        let error = |message: String| Diagnostic::error(Code::E1004, message);
        if role == Role::Evaluator {
            let message =
                format!("there can be only one evaluator, evaluator:0, given index {index}");
            return error(message).help("use index 0");
        }
        let of_role = || {
            self.tasks
                .iter()
                .chain(&self.standbys)
                .filter(|(task, _)| task.role == role)
        };
        let known: Vec<String> = of_role()
            .map(|(task, address)| format!("{} = {address}", task.index))
            .collect();
        let indices: Vec<String> = of_role().map(|(task, _)| task.index.to_string()).collect();
        if known.is_empty() {
            return error(format!("the cluster has no {role}"))
                .help(format!("add {role} addresses to the cluster"));
        }
        error(format!(
            "task index {index} is out of range for role `{role}`"
        ))
        .note(format!(
            "the cluster has {} {role}: {}",
            known.len(),
            known.join(", ")
        ))
        .help(format!(
            "use index {}, or add a {role} address to the cluster",
            indices.join(" or ")
        ))
    }

    /// Returns a task's number in the cluster: chief 0, then workers, then parameter servers
    /// (`global_id_in_cluster`); `None` for an evaluator.
    pub(crate) fn global_id(&self, task: Task) -> Option<usize> {
        let before = |role: Role| match self.of_role(role).map(|(task, _)| task.index).max() {
            // TensorFlow numbers by the highest index, so the gaps of a sparse map remain.
            Some(highest) => highest + 1,
            None => 0,
        };
        match task.role {
            Role::Chief => Some(0),
            Role::Worker => Some(before(Role::Chief) + task.index),
            Role::Ps => Some(before(Role::Chief) + before(Role::Worker) + task.index),
            Role::Evaluator => None,
        }
    }

    /// Returns the cluster as text of a cluster file.
    pub fn to_toml(&self) -> String {
        let none = BTreeMap::new();
        let mut out = String::new();
        for (title, tasks, more) in [
            ("cluster", &self.tasks, &self.standbys),
            ("admin", &self.admin, &none),
        ] {
            let list = |role: Role| {
                let addresses = tasks
                    .iter()
                    .chain(more)
                    .filter(|(task, _)| task.role == role);
                addresses
                    .map(|(_, address)| format!("\"{address}\""))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            if tasks.is_empty() {
                continue;
            }
            out.push_str(&format!("[{title}]\n"));
            for role in Role::ALL {
                let addresses = list(role);
                if !addresses.is_empty() {
                    out.push_str(&format!("{role} = [{addresses}]\n"));
                }
            }
        }
        out + &self.credentials.to_toml()
    }

    /// Returns the value of `TF_CONFIG` for a task.
    pub fn to_tf_config(&self, task: Task) -> serde_json::Value {
        let mut cluster = serde_json::Map::new();
        for role in [Role::Chief, Role::Worker, Role::Ps] {
            let addresses: Vec<&str> = self.of_role(role).map(|(_, address)| address).collect();
            if !addresses.is_empty() {
                cluster.insert(role.to_string(), addresses.into());
            }
        }
        serde_json::json!({"cluster": cluster, "task": {"type": task.role, "index": task.index}})
    }
}

/// Checks an address. The error is the rule that it violates.
pub(crate) fn check_address(address: &str) -> Result<(), &'static str> {
    if let Some(path) = address.strip_prefix("unix:") {
        return check_path(path);
    }
    let Some((host, port)) = address.rsplit_once(':') else {
        return Err("must be host:port");
    };
    if host.contains("://") || address.contains("//") {
        return Err("must be host:port without a scheme");
    }
    let odd = |character: char| {
        character.is_whitespace() || character.is_control() || "\"'\\/@,".contains(character)
    };
    if host.is_empty() || host.contains(odd) {
        return Err("must name a host");
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err("must put an IPv6 host in brackets, as in [::1]:2222");
    }
    match port.parse::<u16>() {
        Ok(_) => Ok(()),
        Err(_) => Err("must end with a port, 0 to 65535"),
    }
}

/// Checks the path of a socket file. It has at most 107 bytes (`sun_path` of `unix(7)`).
fn check_path(path: &str) -> Result<(), &'static str> {
    let odd = |character: char| {
        character.is_whitespace() || character.is_control() || "\"'\\,".contains(character)
    };
    if !path.starts_with('/') || path.ends_with('/') || path.contains(odd) {
        Err("must name an absolute path behind unix:, as in unix:/run/trainyard/ps-0.sock")
    } else if path.len() > 107 {
        Err("must name a path of at most 107 bytes behind unix:")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for good in [
            "unix:/run/trainyard/ps-0.sock",
            "a:1",
            "10.0.0.4:2222",
            "[::1]:0",
            "[fe80::1%eth0]:65535",
            "h\u{f4}te-1.example:2",
        ] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for (bad, rule) in [
            ("a", "must be host:port"),
            (":1", "must name a host"),
            ("a b:1", "must name a host"),
            ("a\"b:1", "must name a host"),
            ("a,b:1", "must name a host"),
            ("a\u{1b}:1", "must name a host"),
            ("grpc://a:1", "without a scheme"),
            ("::1:2222", "in brackets"),
            ("a:", "must end with a port"),
            ("a:65536", "must end with a port"),
            ("a:-1", "must end with a port"),
            ("unix:ps.sock", "absolute path"),
            ("unix:/run/a b.sock", "absolute path"),
            ("unix:/run/", "absolute path"),
            (&format!("unix:/{}", "a".repeat(107)), "at most 107 bytes"),
        ] {
            assert!(
                check_address(bad).is_err_and(|told| told.contains(rule)),
                "{bad}"
            );
        }
    }
}
