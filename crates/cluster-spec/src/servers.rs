//! The addresses that all tasks of a cluster must agree on: the chief, the standby chiefs and the parameter servers.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use fnv::FnvHasher;

use crate::{ClusterSpec, Role};

/// Most characters of a peer's text that a message shows.
const ADDRESS_CHARS_MAX: usize = 128;
/// Most differences that a message lists.
const DIFFERENCES_MAX: usize = 4;

/// Names and addresses of the chief, the standby chiefs and the parameter servers.
///
/// Workers are not included. No task connects to a worker, so the cluster files of two tasks may list different
/// workers (TensorFlow's sparse worker maps, `ClusterDeviceFilters` and dynamic workers).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Servers(BTreeMap<String, String>);

impl Servers {
    /// Returns the servers of a cluster.
    pub fn of(cluster: &ClusterSpec) -> Self {
        let tasks = cluster
            .tasks
            .iter()
            .filter(|(task, _)| matches!(task.role, Role::Chief | Role::Ps));
        Self(
            tasks
                .chain(&cluster.standbys)
                .map(|(task, address)| (task.to_string(), address.clone()))
                .collect(),
        )
    }

    /// Parses the result of [`Servers::lines`]. A line without `=` names a task without address.
    pub fn from_lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let pairs = lines
            .into_iter()
            .map(|line| line.split_once('=').unwrap_or((line, "")));
        Self(
            pairs
                .map(|(task, address)| (task.to_owned(), address.to_owned()))
                .collect(),
        )
    }

    /// Returns one line per task, `ps:0=host:port`.
    pub fn lines(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|(task, address)| format!("{task}={address}"))
            .collect()
    }

    /// Returns a fingerprint that is equal in tasks with the same servers (FNV-1a of tasks and addresses).
    pub fn fingerprint(&self) -> u64 {
        let mut hash = FnvHasher::default();
        for line in self.lines() {
            hash.write(line.as_bytes());
            hash.write(b";");
        }
        hash.finish()
    }

    /// Describes how the servers of a peer, called `theirs`, differ from these, called `ours`; `None` if they are
    /// equal.
    pub fn differences(&self, other: &Self, ours: &str, theirs: &str) -> Option<String> {
        let mut told = Vec::new();
        for (task, address) in &self.0 {
            match other.0.get(task) {
                Some(given) if given == address => {}
                Some(given) => told.push(format!(
                    "{task} is {} for {theirs} and {address} for {ours}",
                    shown(given)
                )),
                None => told.push(format!("{theirs} does not know {task} at {address}")),
            }
        }
        let more = other
            .0
            .iter()
            .filter(|(task, _)| !self.0.contains_key(*task));
        told.extend(more.map(|(task, address)| {
            format!("{ours} does not know {} at {}", shown(task), shown(address))
        }));
        let rest = told.len().saturating_sub(DIFFERENCES_MAX);
        told.truncate(DIFFERENCES_MAX);
        if rest > 0 {
            told.push(format!("and {rest} more"));
        }
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// Returns a peer's text, truncated and escaped.
fn shown(text: &str) -> String {
    text.chars()
        .take(ADDRESS_CHARS_MAX)
        .flat_map(char::escape_debug)
        .collect()
}

impl ClusterSpec {
    /// Returns a fingerprint that is equal in tasks with the same chiefs and parameter servers; see [`Servers`].
    pub fn fingerprint(&self) -> u64 {
        Servers::of(self).fingerprint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalCounts;

    fn cluster(ps: usize, workers: usize) -> ClusterSpec {
        let ports: Vec<u16> = [7000]
            .into_iter()
            .chain(7100..7100 + workers as u16)
            .chain(7200..7300)
            .collect();
        ClusterSpec::local(
            LocalCounts {
                ps,
                workers,
                evaluators: 0,
            },
            &ports,
        )
    }

    #[test]
    fn a_longer_worker_list_is_the_same_cluster_and_another_server_is_not() {
        let own = Servers::of(&cluster(2, 1));
        let more = Servers::of(&cluster(2, 5));
        assert_eq!(own.fingerprint(), more.fingerprint());
        assert_eq!(own.differences(&more, "chief:0", "worker:4"), None);
        let mut moved = cluster(3, 1);
        for (task, address) in &mut moved.tasks {
            if task.role == Role::Ps && task.index == 1 {
                *address = "elsewhere:1".into();
            }
        }
        let moved = Servers::of(&moved);
        assert_ne!(own.fingerprint(), moved.fingerprint());
        assert_eq!(
            own.differences(&moved, "chief:0", "worker:0").as_deref(),
            Some(
                "ps:1 is elsewhere:1 for worker:0 and 127.0.0.1:7201 for chief:0; \
                 chief:0 does not know ps:2 at 127.0.0.1:7202"
            )
        );
        assert_eq!(
            moved.differences(&own, "chief:0", "worker:0").as_deref(),
            Some(
                "ps:1 is 127.0.0.1:7201 for worker:0 and elsewhere:1 for chief:0; \
                 worker:0 does not know ps:2 at 127.0.0.1:7202"
            )
        );
    }

    #[test]
    fn lines_bring_the_same_servers_back_and_a_long_list_of_differences_is_cut() {
        let own = Servers::of(&cluster(9, 0));
        let lines = own.lines();
        assert_eq!(Servers::from_lines(lines.iter().map(String::as_str)), own);
        let told = own
            .differences(&Servers::default(), "chief:0", "worker:0")
            .expect("all are missing");
        assert!(told.ends_with("; and 6 more"), "{told}");
    }
}
