//! The threads of the runtimes of tasks that share a machine.

use trainyard_cluster_spec::Role;

/// Environment variable for the number of threads of a tokio runtime.
const RUNTIME_THREADS: &str = "TOKIO_WORKER_THREADS";

/// Returns the number of cores of this machine for each of `tasks` tasks, at least 1.
pub(crate) fn share_of_cores(tasks: usize) -> usize {
    share(cores(), tasks)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn share(cores: usize, among: usize) -> usize {
    (cores / among.max(1)).max(1)
}

/// How many threads the runtime of a task has, by its role. With one thread for each core in each process, the runtimes would move their
/// work and its memory from core to core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeThreads {
    /// Of a parameter server. The servers divide all cores among themselves, not with the trainers: a server that had a tenth of
    /// the cores would be full while trainers wait for it and cores idle.
    server: usize,
    /// Of another task, whose computation has threads of its own.
    other: usize,
}

impl RuntimeThreads {
    /// Returns the threads if so many tasks share this machine, of which some are parameter servers.
    pub fn shared_by(tasks: usize, servers: usize) -> Self {
        Self::of_cores(cores(), tasks, servers)
    }

    fn of_cores(cores: usize, tasks: usize, servers: usize) -> Self {
        Self {
            server: share(cores, servers),
            other: share(cores, tasks),
        }
    }

    /// Returns the threads of a task of this role.
    pub fn of(self, role: Role) -> usize {
        match role {
            Role::Ps => self.server,
            Role::Chief | Role::Worker | Role::Evaluator => self.other,
        }
    }

    /// Returns the environment variable that gives a task its threads; `None` if the caller of this program has set it for all.
    pub fn variable(self, role: Role) -> Option<(&'static str, String)> {
        let is_set = std::env::var_os(RUNTIME_THREADS).is_some();
        (!is_set).then(|| (RUNTIME_THREADS, self.of(role).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_share_all_cores_and_other_tasks_have_their_part() {
        // Cores, tasks and servers; threads of a server and of a trainer.
        for (given, expected) in [
            ([16, 10, 2], (8, 1)),
            ([16, 17, 4], (4, 1)),
            ([16, 9, 1], (16, 1)),
            ([16, 4, 1], (16, 4)),
            ([2, 3, 1], (2, 1)),
            ([2, 4, 2], (1, 1)),
            ([1, 3, 1], (1, 1)),
            ([4, 2, 0], (4, 2)),
            ([16, 40, 32], (1, 1)),
        ] {
            let [cores, tasks, servers] = given;
            let threads = RuntimeThreads::of_cores(cores, tasks, servers);
            let found = (threads.of(Role::Ps), threads.of(Role::Worker));
            assert_eq!(found, expected, "{given:?}");
        }
    }
}
