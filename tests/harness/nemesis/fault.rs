//! Faults: which, when, to whom, and how long until the cluster and the victim have recovered.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{Role, Task};

use super::limits::Resource;
use super::step_monitor::StepMonitor;
use crate::{Draw, Supervisor};

/// Longest time that a task stands still.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// Longest time that something is short, or that files do not work.
const SHORTAGE_MAX: Duration = Duration::from_secs(6);

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `SIGKILL` to a task of the role.
    Kill(Role),
    /// `SIGKILL` to two tasks in the same instant, any but the evaluator.
    KillPair,
    /// `SIGSTOP` to any task but the evaluator, `SIGCONT` some time later.
    Pause,
    /// `SIGTERM` to any task.
    Terminate,
    /// Something is short for a while.
    Shortage(Resource),
    /// Calls on files of any task fail for a while.
    FileErrors,
    /// Calls on files of any task are slow for a while.
    SlowFiles,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(role) => write!(formatter, "kill {role}"),
            Self::KillPair => formatter.write_str("kill pair"),
            Self::Pause => formatter.write_str("pause"),
            Self::Terminate => formatter.write_str("terminate"),
            Self::Shortage(resource) => write!(formatter, "short {resource}"),
            Self::FileErrors => formatter.write_str("file errors"),
            Self::SlowFiles => formatter.write_str("slow files"),
        }
    }
}

impl Kind {
    /// Returns the signal with which it comes, if it comes with one.
    pub(super) fn signal(self) -> Option<Signal> {
        match self {
            Self::Kill(_) | Self::KillPair => Some(Signal::KILL),
            Self::Pause => Some(Signal::STOP),
            Self::Terminate => Some(Signal::TERM),
            Self::Shortage(_) | Self::FileErrors | Self::SlowFiles => None,
        }
    }

    /// Whether a task that it has struck may not be struck by another one meanwhile.
    pub(super) fn excludes(self, other: Self) -> bool {
        let is_of_files = |kind| matches!(kind, Self::FileErrors | Self::SlowFiles);
        self == other
            || is_of_files(self) && is_of_files(other)
            || self.signal().is_some() && other.signal().is_some()
    }

    /// Returns the longest time that it lasts, if it lasts.
    fn lasts_max(self) -> Option<Duration> {
        match self {
            Self::Kill(_) | Self::KillPair | Self::Terminate => None,
            Self::Pause => Some(PAUSE_MAX),
            Self::Shortage(_) | Self::FileErrors | Self::SlowFiles => Some(SHORTAGE_MAX),
        }
    }

    /// Returns the number of tasks that the fault strikes at once.
    pub(super) fn victims_at_once(self) -> usize {
        match self {
            Self::KillPair => 2,
            _ => 1,
        }
    }

    pub(super) fn victims(self, tasks: &Supervisor) -> Vec<Task> {
        match self {
            Self::Kill(role) => tasks.of_role(role),
            Self::KillPair | Self::Pause => tasks
                .tasks()
                .into_iter()
                .filter(|task| task.role != Role::Evaluator)
                .collect(),
            Self::Terminate | Self::FileErrors | Self::SlowFiles => tasks.tasks(),
            Self::Shortage(Resource::ModelDisk) => tasks.of_role(Role::Chief),
            Self::Shortage(_) => tasks.of_role(Role::Ps),
        }
    }
}

/// Mean time between faults of each kind; nothing = never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Periods {
    /// Killed workers.
    pub worker: Option<Duration>,
    /// Killed parameter servers.
    pub server: Option<Duration>,
    /// Killed chiefs.
    pub chief: Option<Duration>,
    /// Killed evaluators.
    pub evaluator: Option<Duration>,
    /// Two killed tasks of any roles but the evaluator's.
    pub pair: Option<Duration>,
    /// Tasks that stand still.
    pub pause: Option<Duration>,
    /// Tasks told to stop.
    pub terminate: Option<Duration>,
    /// Shortages of each resource, of a job under limits.
    pub shortage: Option<Duration>,
    /// Errors of files, and slow files, of a job under limits.
    pub files: Option<Duration>,
}

/// When which fault comes.
pub(super) struct Schedule {
    next: Vec<(Kind, Duration, Instant)>,
    pub(super) draw: Draw,
}

/// From half the period to one and a half.
fn wait(period: Duration, draw: &mut Draw) -> Duration {
    period.mul_f64(0.5 + draw.fraction())
}

impl Schedule {
    pub(super) fn new(periods: Periods, mut draw: Draw) -> Self {
        let kinds = [
            (Kind::Kill(Role::Worker), periods.worker),
            (Kind::Kill(Role::Ps), periods.server),
            (Kind::Kill(Role::Chief), periods.chief),
            (Kind::Kill(Role::Evaluator), periods.evaluator),
            (Kind::KillPair, periods.pair),
            (Kind::Pause, periods.pause),
            (Kind::Terminate, periods.terminate),
            (Kind::FileErrors, periods.files),
            (Kind::SlowFiles, periods.files),
        ];
        let shortages = Resource::ALL.map(|resource| (Kind::Shortage(resource), periods.shortage));
        let now = Instant::now();
        let given = kinds
            .into_iter()
            .chain(shortages)
            .filter_map(|(kind, period)| Some((kind, period?)));
        let next = given
            .map(|(kind, period)| (kind, period, now + wait(period, &mut draw)))
            .collect();
        Self { next, draw }
    }

    /// Returns the kinds of faults that are to come.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.next.iter().map(|(kind, ..)| *kind)
    }

    /// Returns the faults whose time has come.
    pub(super) fn due(&mut self) -> Vec<Kind> {
        let now = Instant::now();
        let mut due = Vec::new();
        for (kind, period, at) in &mut self.next {
            if *at <= now {
                due.push(*kind);
                *at = now + wait(*period, &mut self.draw);
            }
        }
        due
    }
}

/// A fault that was injected.
#[derive(Debug)]
pub(super) struct Injected {
    pub(super) kind: Kind,
    pub(super) task: Task,
    at: Instant,
    /// When a fault that lasts ends.
    ends: Option<Instant>,
    /// Updates that each server had applied.
    before: Vec<u64>,
    /// Whether the old process was seen to be gone.
    gone: bool,
    old_process: Option<u32>,
    /// Time to the next applied update: at the victim, where it is a server, otherwise anywhere.
    pub(super) update: Option<Duration>,
    /// Time until the victim does its work again, in a new process where the fault has ended the old one at once.
    pub(super) back: Option<Duration>,
}

impl Injected {
    pub(super) fn now(kind: Kind, task: Task, step_monitor: &StepMonitor, draw: &mut Draw) -> Self {
        let at = Instant::now();
        let ends = kind
            .lasts_max()
            .map(|max| at + max.mul_f64(draw.fraction()));
        let gone = ends.is_some();
        let old_process = None;
        Self {
            kind,
            task,
            at,
            ends,
            before: step_monitor.applied(),
            gone,
            old_process,
            update: None,
            back: None,
        }
    }

    /// Whether a fault that lasts has lasted long enough.
    pub(super) fn is_to_end(&self) -> bool {
        self.ends.is_some_and(|at| at <= Instant::now())
    }

    /// Takes note that a fault that lasts has ended. Recovery counts from here: before, there was nothing to recover.
    pub(super) fn ended(&mut self, step_monitor: &StepMonitor) {
        (self.ends, self.at, self.before) = (None, Instant::now(), step_monitor.applied());
    }

    /// Looks whether the cluster and the victim have recovered.
    pub(super) fn look(
        &mut self,
        tasks: &Supervisor,
        step_monitor: &StepMonitor,
        is_ready: impl Fn(&str) -> bool,
    ) {
        if self.ends.is_some() {
            return;
        }
        let process = tasks.id(self.task);
        let old = *self
            .old_process
            .get_or_insert_with(|| process.unwrap_or_default());
        self.gone |= process != Some(old);
        if self.update.is_none() {
            let now = step_monitor.applied();
            let moved = |server: usize| {
                now.get(server)
                    .zip(self.before.get(server))
                    .is_some_and(|(now, then)| now > then)
            };
            let moved = match self.task.role {
                // Updates that the old process had applied before it died may be noticed late.
                Role::Ps if !self.gone => false,
                Role::Ps => moved(self.task.index),
                _ => (0..now.len()).any(moved),
            };
            if !self.gone && self.task.role == Role::Ps {
                self.before = now;
            }
            self.update = moved.then(|| self.at.elapsed());
        }
        if self.back.is_none() && self.gone && process.is_some() && is_ready(tasks.admin(self.task))
        {
            self.back = Some(self.at.elapsed());
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.update.is_some() && self.back.is_some()
    }
}
