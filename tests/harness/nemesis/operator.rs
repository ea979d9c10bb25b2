//! The operator of a job that runs under limits: reads why tasks have died, raises limits that cannot be met, and starts the
//! job again.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{Role, Task};

use super::confines::Confines;
use super::deaths::{Deaths, Limit, message};
use super::fault::Kind;
use super::limits::FileFault;
use crate::{Draw, Supervisor};

/// Time without a step after which the operator reads the logs. Nothing that comes and goes lasts as long.
const STANDSTILL_MAX: Duration = Duration::from_secs(20);
/// What is read then is at least as old: the reason may have been told before the last step.
const READ_INTERVAL: Duration = Duration::from_secs(5);
/// Time for the tasks to stop before they are started again.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// What the limits have led to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitReport {
    /// Deaths that name a limit, by kind.
    pub named: BTreeMap<String, usize>,
    /// Deaths and standstills that do not.
    pub unnamed: Vec<String>,
    /// Limits that were raised.
    pub raised: Vec<String>,
    /// Starts of the whole job beyond the first.
    pub restarts: usize,
    /// Servers that the kernel has killed for their memory.
    pub kills: u64,
}

/// A task that has died by itself.
#[derive(Debug)]
struct Death {
    task: Task,
    code: i32,
    limit: Option<Limit>,
    message: String,
}

/// The operator.
#[derive(Debug)]
pub(super) struct Operator {
    confines: Confines,
    deaths: Deaths,
    steps: u64,
    /// When the job last moved on.
    moved: Instant,
    /// Lengths of the logs some seconds before, and at `read_at`.
    read_from: [BTreeMap<Task, u64>; 2],
    read_at: Instant,
    raised: Vec<String>,
    restarts: usize,
}

impl Operator {
    /// Watches a job within these limits.
    pub(super) fn of(confines: Confines) -> Self {
        Self {
            confines,
            deaths: Deaths::default(),
            steps: 0,
            moved: Instant::now(),
            read_from: Default::default(),
            read_at: Instant::now(),
            raised: Vec::new(),
            restarts: 0,
        }
    }

    /// Begins a fault that lasts. Returns what it is, in words; nothing where it cannot begin.
    pub(super) fn begin(
        &mut self,
        kind: Kind,
        task: Task,
        draw: &mut Draw,
        tasks: &mut Supervisor,
    ) -> Option<String> {
        let fault = match kind {
            Kind::Shortage(resource) => return self.confines.begin_shortage(resource, task, draw),
            Kind::FileErrors => FileFault::errors(draw),
            Kind::SlowFiles => FileFault::delays(draw),
            _ => return None,
        };
        self.confines.begin_fault(fault, task, tasks);
        Some(fault.to_string())
    }

    /// Ends a fault that lasts.
    pub(super) fn end(&mut self, kind: Kind, task: Task, tasks: &mut Supervisor) {
        match kind {
            Kind::Shortage(resource) => self.confines.end_shortage(resource, task),
            Kind::FileErrors | Kind::SlowFiles => self.confines.end_fault(task, tasks),
            _ => {}
        }
    }

    /// Looks after a job that has made so many steps.
    ///
    /// # Errors
    /// A task dies again and again without a reason, or has ended for good without one.
    pub(super) fn look(
        &mut self,
        tasks: &mut Supervisor,
        steps: u64,
        told: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        self.confines.look(tasks);
        if steps != self.steps {
            (self.steps, self.moved) = (steps, Instant::now());
            self.deaths.moved_on();
            if self.read_at.elapsed() > READ_INTERVAL {
                let lengths = tasks
                    .tasks()
                    .into_iter()
                    .map(|task| (task, tasks.log_bytes(task)));
                self.read_from.rotate_left(1);
                (self.read_from[1], self.read_at) = (lengths.collect(), Instant::now());
            }
        }
        for death in self.deaths(tasks, told) {
            if let Some(task) = self.deaths.in_a_loop() {
                return Err(format!("{task} dies again and again, and names no limit"));
            }
            if !Supervisor::is_permanent(death.code) {
                continue;
            }
            let task = death.task;
            let Some(limit) = death.limit else {
                return Err(format!("{task} has ended for good: {}", death.message));
            };
            self.raise(limit, task, &death.message, tasks, told);
            if task.role == Role::Chief {
                self.start_again(tasks, told);
                return Ok(());
            }
            // It died before the job was started again.
            if !tasks.runs(task) {
                tasks.start(task);
            }
        }
        if self.moved.elapsed() > STANDSTILL_MAX {
            self.end_standstill(tasks, told);
            self.moved = Instant::now();
        }
        Ok(())
    }

    /// Takes note of the tasks that have died by themselves.
    fn deaths(&mut self, tasks: &mut Supervisor, told: &mut dyn FnMut(&str)) -> Vec<Death> {
        let mut deaths = Vec::new();
        for end in tasks.take_ends() {
            let is_killed = end.is_signalled && end.code == 128 + Signal::KILL.as_raw();
            let is_stopped = end.is_signalled && end.code == 128 + Signal::TERM.as_raw();
            if end.code == 0 || is_killed || is_stopped {
                continue;
            }
            let output = tasks.log_part(end.task, end.log);
            let message = message(&output).to_owned();
            let first = message.lines().next().unwrap_or("no message");
            told(&format!(
                "{} has ended with {}: {first}",
                end.task, end.code
            ));
            deaths.push(Death {
                task: end.task,
                code: end.code,
                limit: self.deaths.add(end.task, end.code, &message),
                message,
            });
        }
        deaths
    }

    fn raise(
        &mut self,
        limit: Limit,
        task: Task,
        text: &str,
        tasks: &mut Supervisor,
        told: &mut dyn FnMut(&str),
    ) {
        let raised = self.confines.raise(limit, task, text, tasks);
        raised
            .iter()
            .for_each(|what| told(&format!("raised: {what}")));
        self.raised.extend(raised);
    }

    /// Raises the limits that the logs name.
    fn end_standstill(&mut self, tasks: &mut Supervisor, told: &mut dyn FnMut(&str)) {
        told(&format!("no step within {STANDSTILL_MAX:?}"));
        let before = self.raised.len();
        for task in tasks.tasks() {
            let begin = self.read_from[0].get(&task).copied().unwrap_or_default();
            let text = tasks.log_part(task, begin..tasks.log_bytes(task));
            // The latest line on each limit.
            let named = text
                .lines()
                .filter_map(|line| Some((Limit::named_in(line)?, line)));
            for (limit, line) in named.collect::<BTreeMap<_, _>>() {
                self.raise(limit, task, line, tasks, told);
            }
        }
        if self.raised.len() == before {
            let text = format!("no step within {STANDSTILL_MAX:?}, and no log names a limit");
            self.deaths.unnamed.push(text);
        }
    }

    /// Stops what is left of the job, and starts all of it.
    fn start_again(&mut self, tasks: &mut Supervisor, told: &mut dyn FnMut(&str)) {
        told("the job is started again");
        for task in tasks.tasks() {
            tasks.signal(task, Signal::CONT);
            tasks.signal(task, Signal::TERM);
        }
        let late = tasks.finish(STOP_TIMEOUT);
        late.iter()
            .for_each(|task| told(&format!("{task} did not stop, and is killed")));
        tasks.start_all();
        self.restarts += 1;
        self.moved = Instant::now();
    }

    /// Returns what the limits have led to, when all tasks have ended.
    pub(super) fn report(
        mut self,
        tasks: &mut Supervisor,
        told: &mut dyn FnMut(&str),
    ) -> LimitReport {
        self.deaths(tasks, told);
        LimitReport {
            named: self.deaths.named,
            unnamed: self.deaths.unnamed,
            raised: self.raised,
            restarts: self.restarts,
            kills: self.confines.kills(),
        }
    }
}

impl fmt::Display for LimitReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.named {
            writeln!(formatter, "{count:5} {kind}")?;
        }
        for death in &self.unnamed {
            writeln!(formatter, "names no limit: {death}")?;
        }
        writeln!(
            formatter,
            "raised {} times; the whole job started again {} times; {} servers killed by the kernel",
            self.raised.len(),
            self.restarts,
            self.kills
        )
    }
}
