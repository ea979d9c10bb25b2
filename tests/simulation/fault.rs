//! What may happen to a cluster.

use std::fmt;
use std::time::Duration;

use trainyard_cluster_spec::Task;
use turmoil::Sim;

/// What may happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Processes die at once, and are started again. Their connections are closed by the system.
    Kill { tasks: Vec<Task>, after: Duration },
    /// A machine loses power: nobody is told.
    PowerCut { task: Task, after: Duration },
    /// A process is told to stop, and started again once it has.
    Terminate { task: Task },
    /// Nothing gets from these to the others, nor back.
    Partition { tasks: Vec<Task>, length: Duration },
    /// Nothing gets from one to the other; the other way is open.
    OneWay {
        from: Task,
        to: Task,
        length: Duration,
    },
    /// Messages between a task and all others are late by this, all at once.
    Hold { task: Task, length: Duration },
    /// Messages between two take as long as this.
    Slow {
        one: Task,
        other: Task,
        latency: Duration,
        length: Duration,
    },
    /// The model folder answers every call with an error.
    Store { length: Duration },
}

/// A fault and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// Returns the name of a task's host.
pub(crate) fn host(task: Task) -> String {
    format!("{}-{}", task.role, task.index)
}

impl Fault {
    /// Draws a fault; one of the network only where `cuts`.
    pub(crate) fn draw(below: &mut impl FnMut(u64) -> u64, tasks: &[Task], cuts: bool) -> Self {
        let place = below(tasks.len() as u64) as usize;
        let task = tasks[place];
        let other = tasks[(place + 1 + below(tasks.len() as u64 - 1) as usize) % tasks.len()];
        // Mostly short, and at times longer than it takes to notice a silent peer, and for a lease to end.
        let mut length = || {
            let most = [300, 1500, 1500, 9000][below(4) as usize];
            Duration::from_millis(20 + below(most))
        };
        let after = length();
        let length = length();
        let mut some: Vec<Task> = tasks.iter().copied().filter(|_| below(3) == 0).collect();
        if some.is_empty() || some.len() == tasks.len() {
            some = vec![task];
        }
        match below(if cuts { 17 } else { 8 }) {
            0..5 => Self::Kill {
                tasks: vec![task],
                after,
            },
            5 => Self::Kill { tasks: some, after },
            6..8 => Self::Terminate { task },
            8..10 => Self::PowerCut { task, after },
            10..12 => Self::Partition {
                tasks: some,
                length,
            },
            12..14 => Self::OneWay {
                from: task,
                to: other,
                length,
            },
            14..16 => Self::Hold { task, length },
            _ => {
                let latency = Duration::from_millis(50 + below(800));
                Self::Slow {
                    one: task,
                    other,
                    latency,
                    length,
                }
            }
        }
    }

    /// Returns the processes that it befalls.
    pub(crate) fn victims(&self) -> Vec<Task> {
        match self {
            Self::Kill { tasks, .. } => tasks.clone(),
            Self::PowerCut { task, .. } | Self::Terminate { task } => vec![*task],
            Self::Partition { .. }
            | Self::OneWay { .. }
            | Self::Hold { .. }
            | Self::Slow { .. }
            | Self::Store { .. } => Vec::new(),
        }
    }

    /// Whether something stays broken until it is mended.
    pub(crate) fn lasts(&self) -> bool {
        self.cuts() || matches!(self, Self::Store { .. })
    }

    /// Whether it keeps messages from somebody.
    pub(crate) fn cuts(&self) -> bool {
        !matches!(
            self,
            Self::Kill { .. } | Self::Terminate { .. } | Self::Store { .. }
        )
    }

    /// Returns the pairs of hosts between which it keeps messages, of all hosts.
    fn pairs(&self, tasks: &[Task]) -> Vec<(String, String)> {
        let among = |one: &[Task]| -> Vec<(String, String)> {
            let others = |task: &&Task| !one.contains(task);
            let pairs = one.iter().flat_map(|one| {
                tasks
                    .iter()
                    .filter(others)
                    .map(|other| (host(*one), host(*other)))
            });
            pairs.collect()
        };
        match self {
            Self::Kill { .. } | Self::Terminate { .. } | Self::Store { .. } => Vec::new(),
            Self::PowerCut { task, .. } | Self::Hold { task, .. } => among(&[*task]),
            Self::Partition { tasks, .. } => among(tasks),
            Self::OneWay { from, to, .. } => vec![(host(*from), host(*to))],
            Self::Slow { one, other, .. } => vec![(host(*one), host(*other))],
        }
    }

    /// Breaks the network.
    pub(crate) fn cut(&self, sim: &Sim<'_>, tasks: &[Task]) {
        for (one, other) in self.pairs(tasks) {
            match self {
                Self::Kill { .. } | Self::Terminate { .. } | Self::Store { .. } => {}
                Self::PowerCut { .. } | Self::Partition { .. } => {
                    sim.partition(one.as_str(), other.as_str())
                }
                Self::OneWay { .. } => sim.partition_oneway(one.as_str(), other.as_str()),
                Self::Hold { .. } => sim.hold(one.as_str(), other.as_str()),
                Self::Slow { latency, .. } => {
                    sim.set_link_latency(one.as_str(), other.as_str(), *latency)
                }
            }
        }
    }

    /// Mends the network.
    pub(crate) fn mend(&self, sim: &Sim<'_>, tasks: &[Task], latency: Duration) {
        for (one, other) in self.pairs(tasks) {
            match self {
                Self::Kill { .. } | Self::Terminate { .. } | Self::Store { .. } => {}
                Self::PowerCut { .. } | Self::Partition { .. } => {
                    sim.repair(one.as_str(), other.as_str())
                }
                Self::OneWay { .. } => sim.repair_oneway(one.as_str(), other.as_str()),
                Self::Hold { .. } => sim.release(one.as_str(), other.as_str()),
                Self::Slow { .. } => sim.set_link_latency(one.as_str(), other.as_str(), latency),
            }
        }
    }
}

impl Planned {
    /// Returns when the network is mended, or the process started again.
    pub(crate) fn until(&self) -> Duration {
        self.at
            + match &self.fault {
                Fault::Kill { after, .. } | Fault::PowerCut { after, .. } => *after,
                Fault::Terminate { .. } => Duration::ZERO,
                Fault::Partition { length, .. }
                | Fault::OneWay { length, .. }
                | Fault::Hold { length, .. }
                | Fault::Slow { length, .. }
                | Fault::Store { length } => *length,
            }
    }
}

fn names(tasks: &[Task]) -> String {
    tasks
        .iter()
        .map(Task::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

impl fmt::Display for Planned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        let until = self.until().as_secs_f64();
        write!(out, "{at:7.3} to {until:7.3} s: ")?;
        match &self.fault {
            Fault::Kill { tasks, .. } => write!(out, "kill {}", names(tasks)),
            Fault::PowerCut { task, .. } => write!(out, "cut the power of {task}"),
            Fault::Terminate { task } => write!(out, "terminate {task}"),
            Fault::Partition { tasks, .. } => {
                write!(out, "partition {} from the others", names(tasks))
            }
            Fault::OneWay { from, to, .. } => write!(out, "drop what {from} sends to {to}"),
            Fault::Hold { task, .. } => write!(out, "hold what comes from and goes to {task}"),
            Fault::Store { .. } => write!(out, "the model folder fails"),
            Fault::Slow {
                one,
                other,
                latency,
                ..
            } => {
                write!(out, "messages between {one} and {other} take {latency:?}")
            }
        }
    }
}
