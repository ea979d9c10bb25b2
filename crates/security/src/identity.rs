//! The identity of a peer: a role, and the index of its task.

use std::fmt;

use trainyard_cluster_spec::{Role, Task};

/// Scheme of the names of tasks.
const SCHEME: &str = "spiffe://";
/// The identity that a peer has proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Role of the peer.
    pub role: Role,
    /// Index of the task; absent = any task of the role, as for a peer that proves its role by a token.
    pub index: Option<usize>,
}

impl Identity {
    /// Returns the name of a task: a SPIFFE URI (SPIFFE-ID, section 2) with the path `/role/ROLE/INDEX`.
    pub fn name(task: Task) -> String {
        format!("{SCHEME}trainyard/role/{}/{}", task.role, task.index)
    }

    /// Parses a name: `spiffe://DOMAIN/role/ROLE/INDEX`, or without the index for any task of the role. Any domain is
    /// accepted: the authority that signs certificates decides which names it gives.
    pub fn parse(name: &str) -> Option<Self> {
        let (domain, path) = name.strip_prefix(SCHEME)?.split_once('/')?;
        let mut parts = path.strip_prefix("role/")?.split('/');
        let role = Role::named(parts.next()?)?;
        let index = parts.next().map(str::parse).transpose().ok()?;
        (!domain.is_empty() && parts.next().is_none()).then_some(Self { role, index })
    }

    /// Returns whether the peer may speak as a task.
    pub fn is(self, task: Task) -> bool {
        self.role == task.role && self.index.is_none_or(|index| index == task.index)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => Task {
                role: self.role,
                index,
            }
            .fmt(formatter),
            None => write!(formatter, "any {}", self.role),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_nothing_else_is_one() {
        let task = Task {
            role: Role::Worker,
            index: 12,
        };
        let read = Identity::parse(&Identity::name(task)).expect("a name");
        assert!(
            read.is(task)
                && !read.is(Task {
                    role: Role::Worker,
                    index: 1
                })
        );
        let any = Identity::parse("spiffe://ads.example/role/ps").expect("a name without an index");
        assert!(
            any.is(Task {
                role: Role::Ps,
                index: 7
            }) && !any.is(Task {
                role: Role::Chief,
                index: 0
            })
        );
        for wrong in [
            "spiffe://trainyard/role/worker/",
            "spiffe://trainyard/role/worker/-1",
            "spiffe://trainyard/role/worker/1/2",
            "spiffe:///role/worker/1",
            "spiffe://trainyard/role/operator/0",
            "https://trainyard/role/worker/1",
            "worker/1",
            "",
        ] {
            assert_eq!(Identity::parse(wrong), None, "{wrong}");
        }
    }
}
