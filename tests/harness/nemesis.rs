//! The nemesis: a counting job on real processes, and faults that come at random moments while it runs.

mod confines;
mod deaths;
mod fault;
mod limits;
mod operator;
mod report;
mod step_monitor;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};

use crate::{Account, Draw, Ledger, Supervisor, Way, is_ready};

use confines::Confines;
use fault::{Injected, Schedule};
pub use fault::{Kind, Periods};
pub use limits::Resource;
pub use operator::LimitReport;
use operator::Operator;
pub use report::{Recovery, Report};
use step_monitor::{Counted, StepMonitor};

/// Time between looks at the processes while nothing happens.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time for the cluster to begin.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// And of one under limits, of which the operator raises some.
const LIMITED_START_TIMEOUT: Duration = Duration::from_secs(180);
/// Time for the tasks to end by themselves behind the chief.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// A job under faults takes at most this many times as long as without.
const SLOWDOWN_MAX: u32 = 6;
/// And under limits, where the operator has to raise some of them first.
const LIMITED_SLOWDOWN_MAX: u32 = 20;

/// What a nemesis does, and to what.
#[derive(Debug, Clone)]
pub struct Nemesis {
    /// The program that is every task: one that calls [`crate::as_task`].
    pub program: PathBuf,
    /// Of every choice.
    pub seed: u64,
    /// Length of the job without faults.
    pub length: Duration,
    /// Length of the run before it that tells how fast the job is without faults.
    pub baseline: Duration,
    /// Parameter servers.
    pub servers: usize,
    /// Workers, besides the chief, which trains too.
    pub workers: usize,
    /// Row ids of the data, at least: a step is to have all its batches.
    pub rows: u32,
    /// The way to train.
    pub way: Way,
    /// How often each kind of fault comes.
    pub periods: Periods,
    /// Whether the tasks have limits of memory, disks and open files, drawn from the seed.
    pub limits: bool,
    /// Settings of the job, `section.key=value`.
    pub settings: Vec<String>,
}

/// A job that runs. What it runs in is dropped last.
struct Running {
    tasks: Supervisor,
    step_monitor: StepMonitor,
    model_dir: PathBuf,
    operator: Option<Operator>,
}

impl Running {
    /// Looks after the tasks.
    ///
    /// # Errors
    /// One has ended for good.
    fn look(&mut self, told: &mut dyn FnMut(&str)) -> Result<(), String> {
        self.tasks.look();
        if let Some(operator) = &mut self.operator {
            return operator.look(&mut self.tasks, self.step_monitor.total(), told);
        }
        match self.tasks.failed_for_good() {
            Some((task, code)) => Err(format!(
                "{task} has failed with code {code}: see {}",
                self.tasks.log(task).display()
            )),
            None => Ok(()),
        }
    }

    /// Begins a fault. Returns whether it could.
    fn begin(&mut self, fault: &Injected, draw: &mut Draw, told: &mut dyn FnMut(&str)) -> bool {
        let (kind, task) = (fault.kind, fault.task);
        match (kind.signal(), &mut self.operator) {
            (Some(signal), _) => {
                self.tasks.signal(task, signal);
                told(&format!("{kind} {task}"));
                true
            }
            (None, Some(operator)) => {
                let begun = operator.begin(kind, task, draw, &mut self.tasks);
                let words = begun.as_deref().unwrap_or("the kernel refuses it");
                told(&format!("{kind} {task}: {words}"));
                begun.is_some()
            }
            (None, None) => false,
        }
    }

    /// Ends a fault that lasts.
    fn end(&mut self, fault: &Injected) {
        if fault.kind == Kind::Pause {
            self.tasks.signal(fault.task, Signal::CONT);
        } else if let Some(operator) = &mut self.operator {
            operator.end(fault.kind, fault.task, &mut self.tasks);
        }
    }
}

impl Nemesis {
    /// Runs the job without faults for a while, then with them to its end, and says what became of the updates. Everything
    /// lies in `folder` then, the logs of the tasks too.
    ///
    /// # Errors
    /// The cluster did not begin, or the job did not end in time: what was waited for. The mean of the batches of a step is
    /// not exact.
    pub fn run(&self, folder: &Path, told: &mut dyn FnMut(&str)) -> Result<Report, String> {
        let lanes = self.way.lanes(self.workers);
        if !lanes.is_power_of_two() {
            return Err(format!(
                "{} adds up the batches of {} workers and the chief, {lanes} in all, which must be a power of two",
                self.way.name(),
                self.workers
            ));
        }
        let steps_per_second = self.baseline(&folder.join("baseline"))?;
        let one = self.ledger(1);
        let wanted = steps_per_second * self.length.as_secs_f64() / one.steps() as f64;
        let ledger = self.ledger((wanted.round() as u64).max(1));
        told(&format!(
            "without faults: {steps_per_second:.0} steps/s; {} epochs of {} steps follow, with faults",
            ledger.epochs,
            one.steps()
        ));
        self.with_faults(&folder.join("faults"), &ledger, steps_per_second, told)
    }

    fn ledger(&self, epochs: u64) -> Ledger {
        let lanes = self.way.lanes(self.workers);
        // Four lines for each three rows, 64 of them for each batch of a step.
        let rows = self.rows.next_multiple_of(48 * lanes as u32);
        Ledger {
            rows,
            epochs,
            batch_size: 64,
            lanes,
            servers: self.servers().max(1),
        }
    }

    fn servers(&self) -> usize {
        if self.way.has_servers() {
            self.servers
        } else {
            0
        }
    }

    /// Starts the job, within limits where there is a generator to draw them.
    fn start(
        &self,
        folder: &Path,
        ledger: &Ledger,
        limits: Option<&mut Draw>,
        told: &mut dyn FnMut(&str),
    ) -> Result<Running, String> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let job = ledger.write(folder);
        let counts = LocalCounts {
            ps: self.servers(),
            workers: self.workers,
            evaluators: 1,
        };
        let way = self.way.settings().iter().map(|text| (*text).to_owned());
        let exact = match self.way {
            Way::Sync | Way::Mirrored => Some("strategy.scale_learning_rate=true".to_owned()),
            Way::Hybrid => Some(format!("strategy.replicas_to_aggregate={}", ledger.lanes)),
            Way::Async | Way::Ssp | Way::InGraph | Way::Replica => None,
        };
        // A task that stands still may be left out, and does not know what has become of its last update. In the graph, the
        // chief applies what a worker has computed.
        let has_own_updates = self.periods.pause.is_none() && !self.limits;
        let checked = (has_own_updates && self.way != Way::InGraph)
            .then(|| format!("model.hidden_units=[{}, 1]", ledger.servers));
        let exact = exact.into_iter().chain(checked);
        let own = self.settings.iter().cloned();
        let settings: Vec<String> = way.chain(exact).chain(own).collect();
        let mut tasks = Supervisor::new(&self.program, folder, &job, counts, &settings);
        let (role, counted) = if self.way.has_servers() {
            (Role::Ps, Counted::Pushes)
        } else {
            (Role::Chief, Counted::Steps)
        };
        let stores = tasks
            .of_role(role)
            .into_iter()
            .map(|task| tasks.admin(task).to_owned());
        let step_monitor = StepMonitor::of(stores.collect(), counted);
        let mut model_dir = folder.join("model");
        let mut timeout = START_TIMEOUT;
        let operator = limits.map(|draw| {
            let confines = Confines::drawn(&tasks.tasks(), draw);
            told(&confines.to_string());
            confines.apply(&mut tasks);
            model_dir = confines.model_dir();
            tasks.set(&format!("model_dir=\"{}\"", model_dir.display()));
            timeout = LIMITED_START_TIMEOUT;
            Operator::of(confines)
        });
        tasks.start_all();
        let mut running = Running {
            tasks,
            step_monitor,
            model_dir,
            operator,
        };
        let until = Instant::now() + timeout;
        while running.step_monitor.total() == 0 {
            if Instant::now() > until {
                return Err(format!(
                    "nothing was trained within {timeout:?}: see {}",
                    folder.display()
                ));
            }
            running.look(told)?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(running)
    }

    /// Steps a second of a run without faults.
    fn baseline(&self, folder: &Path) -> Result<f64, String> {
        // It is cut off, so that its length is as good as endless.
        let mut running = self.start(folder, &self.ledger(5000), None, &mut |_| ())?;
        let begun = Instant::now();
        let before = running.step_monitor.total();
        while begun.elapsed() < self.baseline {
            running.tasks.look();
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut steps = (running.step_monitor.total() - before) as f64;
        if self.way.has_servers() {
            // Each server gets each batch of a step.
            steps /= (self.servers as u64 * self.way.lanes(self.workers)) as f64;
        }
        Ok((steps / begun.elapsed().as_secs_f64()).max(1.0))
    }

    fn with_faults(
        &self,
        folder: &Path,
        ledger: &Ledger,
        steps_per_second: f64,
        told: &mut dyn FnMut(&str),
    ) -> Result<Report, String> {
        // The faults of a seed are the same with limits and without.
        let mut of_limits = self.limits.then(|| Draw::new(!self.seed));
        let mut running = self.start(folder, ledger, of_limits.as_mut(), told)?;
        let chief = Task {
            role: Role::Chief,
            index: 0,
        };
        let begun = Instant::now();
        let fault_free = ledger.steps() as f64 / steps_per_second;
        let slowdown = match self.limits {
            true => LIMITED_SLOWDOWN_MAX,
            false => SLOWDOWN_MAX,
        };
        let limit = START_TIMEOUT + Duration::from_secs_f64(fault_free * f64::from(slowdown));
        let periods = Periods {
            server: self.periods.server.filter(|_| self.way.has_servers()),
            shortage: self.periods.shortage.filter(|_| self.limits),
            files: self.periods.files.filter(|_| self.limits),
            ..self.periods
        };
        let mut schedule = Schedule::new(periods, Draw::new(self.seed));
        let mut open: Vec<Injected> = Vec::new();
        let mut report = Report::new(self.seed);
        let ends = |tasks: &Supervisor| tasks.exit(chief) == Some(0) && !tasks.is_due(chief);
        while running.tasks.runs(chief) || !ends(&running.tasks) {
            if begun.elapsed() > limit {
                return Err(format!(
                    "the job did not end within {limit:?}: see {}",
                    folder.display()
                ));
            }
            let mut told = |line: &str| {
                told(&format!("{:8.3} s: {line}", begun.elapsed().as_secs_f64()));
            };
            running.look(&mut told)?;
            for kind in schedule.due() {
                let busy = |task: &Task| {
                    let mut others = open.iter().filter(|fault| fault.task == *task);
                    others.any(|fault| fault.kind.excludes(kind))
                };
                let victims: Vec<Task> = kind
                    .victims(&running.tasks)
                    .into_iter()
                    .filter(|task| !busy(task))
                    .collect();
                let mut victims: Vec<Task> = victims
                    .into_iter()
                    .filter(|task| running.tasks.runs(*task))
                    .collect();
                for _ in 0..kind.victims_at_once() {
                    let Some(victim) = schedule.draw.one_of(&victims).copied() else {
                        break;
                    };
                    victims.retain(|task| *task != victim);
                    let draw = &mut schedule.draw;
                    let fault = Injected::now(kind, victim, &running.step_monitor, draw);
                    if running.begin(&fault, draw, &mut told) {
                        open.push(fault);
                    }
                }
            }
            open.retain_mut(|fault| {
                if fault.is_to_end() {
                    running.end(fault);
                    fault.ended(&running.step_monitor);
                }
                fault.look(&running.tasks, &running.step_monitor, is_ready);
                let over = fault.is_over();
                if over {
                    report.add(fault);
                }
                !over
            });
            std::thread::sleep(POLL_INTERVAL);
        }
        // Those that stand still at the end are let go.
        for fault in &open {
            running.end(fault);
            report.add(fault);
        }
        report.seconds = begun.elapsed().as_secs_f64();
        let late = running.tasks.finish(END_TIMEOUT);
        report.account = Account::of_model_dir(&running.model_dir, ledger)?;
        let step = running.tasks.lines(chief, "restoring").len();
        (report.restores, report.starts) = (step, running.tasks.starts());
        report.steps = ledger.steps();
        report.goodput = fault_free / report.seconds;
        let came = |kind: &Kind| report.recovery.contains_key(kind);
        report.absent = schedule.kinds().filter(|kind| !came(kind)).collect();
        report.late = late.into_iter().map(|task| task.to_string()).collect();
        report.limits = running
            .operator
            .take()
            .map(|operator| operator.report(&mut running.tasks, told));
        Ok(report)
    }
}
