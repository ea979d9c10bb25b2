//! The nemesis: a counting job on real processes, and faults that come at random moments while it runs.

mod fault;
mod report;
mod step_monitor;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};

use crate::{Account, Draw, Ledger, Supervisor, Way, is_ready};

use fault::{Injected, Schedule};
pub use fault::{Kind, Periods};
pub use report::{Recovery, Report};
use step_monitor::{Counted, StepMonitor};

/// Time between looks at the processes while nothing happens.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time for the cluster to begin.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for the tasks to end by themselves behind the chief.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// A job under faults takes at most this many times as long as without.
const SLOWDOWN_MAX: u32 = 6;

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
    /// Settings of the job, `section.key=value`.
    pub settings: Vec<String>,
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

    fn start(&self, folder: &Path, ledger: &Ledger) -> Result<(Supervisor, StepMonitor), String> {
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
        tasks.start_all();
        let until = Instant::now() + START_TIMEOUT;
        while step_monitor.total() == 0 {
            if Instant::now() > until {
                return Err(format!(
                    "nothing was trained within {START_TIMEOUT:?}: see {}",
                    folder.display()
                ));
            }
            tasks.look();
            failed(&tasks)?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok((tasks, step_monitor))
    }

    /// Steps a second of a run without faults.
    fn baseline(&self, folder: &Path) -> Result<f64, String> {
        // It is cut off, so that its length is as good as endless.
        let (mut tasks, step_monitor) = self.start(folder, &self.ledger(5000))?;
        let begun = Instant::now();
        let before = step_monitor.total();
        while begun.elapsed() < self.baseline {
            tasks.look();
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut steps = (step_monitor.total() - before) as f64;
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
        let (mut tasks, step_monitor) = self.start(folder, ledger)?;
        let chief = Task {
            role: Role::Chief,
            index: 0,
        };
        let begun = Instant::now();
        let fault_free = ledger.steps() as f64 / steps_per_second;
        let limit = START_TIMEOUT + Duration::from_secs_f64(fault_free * f64::from(SLOWDOWN_MAX));
        let periods = Periods {
            server: self.periods.server.filter(|_| self.way.has_servers()),
            ..self.periods
        };
        let mut schedule = Schedule::new(periods, Draw::new(self.seed));
        let mut open: Vec<Injected> = Vec::new();
        let mut report = Report::new(self.seed);
        while tasks.runs(chief) || tasks.exit(chief) != Some(0) || tasks.is_due(chief) {
            if begun.elapsed() > limit {
                return Err(format!(
                    "the job did not end within {limit:?}: see {}",
                    folder.display()
                ));
            }
            tasks.look();
            failed(&tasks)?;
            for kind in schedule.due() {
                let busy = |task: &Task| open.iter().any(|fault| fault.task == *task);
                let victims: Vec<Task> = kind
                    .victims(&tasks)
                    .into_iter()
                    .filter(|task| !busy(task))
                    .collect();
                let mut victims: Vec<Task> = victims
                    .into_iter()
                    .filter(|task| tasks.runs(*task))
                    .collect();
                for _ in 0..kind.victims_at_once() {
                    let Some(victim) = schedule.draw.one_of(&victims).copied() else {
                        break;
                    };
                    victims.retain(|task| *task != victim);
                    let fault = Injected::now(kind, victim, &step_monitor, &mut schedule.draw);
                    tasks.signal(victim, kind.signal());
                    told(&format!(
                        "{:8.3} s: {kind} {victim}",
                        begun.elapsed().as_secs_f64()
                    ));
                    open.push(fault);
                }
            }
            open.retain_mut(|fault| {
                fault.look(&mut tasks, &step_monitor, is_ready);
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
            tasks.signal(fault.task, Signal::CONT);
            report.add(fault);
        }
        report.seconds = begun.elapsed().as_secs_f64();
        let late = tasks.finish(END_TIMEOUT);
        report.account = Account::of_model_dir(&folder.join("model"), ledger)?;
        let step = tasks.lines(chief, "restoring").len();
        (report.restores, report.starts) = (step, tasks.starts());
        report.steps = ledger.steps();
        report.goodput = fault_free / report.seconds;
        let came = |kind: &Kind| report.recovery.contains_key(kind);
        report.absent = schedule.kinds().filter(|kind| !came(kind)).collect();
        report.late = late.into_iter().map(|task| task.to_string()).collect();
        Ok(report)
    }
}

fn failed(tasks: &Supervisor) -> Result<(), String> {
    match tasks.failed_for_good() {
        Some((task, code)) => Err(format!(
            "{task} has failed with code {code}: see {}",
            tasks.log(task).display()
        )),
        None => Ok(()),
    }
}
