//! The tasks of a cluster and where they listen.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Role, Task};

/// The tasks of a training cluster, checked. Sparse worker maps keep their indices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClusterSpec {
    /// Address (`host:port`) of every task of the training cluster; never holds an evaluator.
    pub tasks: BTreeMap<Task, String>,
    /// Addresses of the admin ports (`/metrics`), where the cluster file gives them; may hold evaluators.
    pub admin: BTreeMap<Task, String>,
}

impl ClusterSpec {
    /// Returns the number of parameter servers.
    pub fn num_ps(&self) -> usize {
        self.tasks.keys().filter(|task| task.role == Role::Ps).count()
    }

    /// Returns the number of training tasks: the chief and the workers.
    pub fn num_worker_replicas(&self) -> usize {
        self.tasks.keys().filter(|task| matches!(task.role, Role::Chief | Role::Worker)).count()
    }
}
