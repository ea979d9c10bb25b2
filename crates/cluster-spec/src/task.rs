//! Roles and tasks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Highest index of a worker that may join a job without being expected, plus 1.
pub const WORKERS_MAX: usize = 4096;

/// The role of a process in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Leads the job, and trains.
    Chief,
    /// Trains.
    Worker,
    /// Holds parameters and applies gradients.
    Ps,
    /// Evaluates checkpoints; not part of the training cluster.
    Evaluator,
}

impl Role {
    /// All roles, in the order of a cluster file.
    pub const ALL: [Self; 4] = [Self::Chief, Self::Worker, Self::Ps, Self::Evaluator];

    /// Returns the role with a name; the inverse of [`Role::as_str`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Returns TensorFlow's name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chief => "chief",
            Self::Worker => "worker",
            Self::Ps => "ps",
            Self::Evaluator => "evaluator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// One process of a job: a role and an index. Displays as `worker:2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The role.
    pub role: Role,
    /// Index of the task in its role, from 0.
    pub index: usize,
}

impl Task {
    /// Parses the name of a task, such as `worker:2`.
    pub fn named(name: &str) -> Option<Self> {
        let (role, index) = name.split_once(':')?;
        Some(Self {
            role: Role::named(role)?,
            index: index.parse().ok()?,
        })
    }
}

impl fmt::Display for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.role, self.index)
    }
}
