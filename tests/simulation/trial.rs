//! One run of a seed: the cluster under faults, then without, and what must hold all the time and at the end.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use trainyard_checkpoint::latest_good;
use trainyard_cluster_spec::{Role, Task};
use trainyard_diagnostic::Code;
use trainyard_model_dir::cluster_id;
use trainyard_tests::Account;
use turmoil::{Builder, Sim};

use crate::fault::{Fault, Planned, host};
use crate::monitor::{Seen, watch};
use crate::options::Options;
use crate::process::{Life, Process};
use crate::trace::Trace;

/// Time in which the job must end once nothing is broken any more: the slowest, 800 steps in turn over the slowest network, takes
/// 55 s where nearly all of them are left.
const LIVENESS: Duration = Duration::from_secs(120);
/// Time after a fault in which calls may go unanswered: that of a silent peer to be noticed, and for a try that waits.
const ECHO: Duration = Duration::from_secs(15);
/// Time in which the others must have ended behind the chief; then they are told to.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which they must then.
const DRAIN: Duration = Duration::from_secs(12);
/// Wait before a process that has ended is started again.
const RESTART_DELAY: Duration = Duration::from_millis(50);
/// The same where it had no reason to end but its own: the chief follows at once, where the job is over.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Exit codes after which a restart would end in the same way.
const PERMANENT: [u8; 7] = [64, 65, 66, 73, 76, 77, 78];
/// Time between looks at the model folder.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Port of every task.
const PORT: u16 = 2222;
/// Segments that wait for a reader: more than there ever are.
const SEGMENTS_MAX: usize = 1 << 16;

/// What a run was like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// Of everything that was said.
    pub(crate) hash: u64,
    /// Simulated time.
    pub(crate) simulated: Duration,
    /// Of it, after the last fault.
    pub(crate) healed: Duration,
    /// Faults that befell something.
    pub(crate) faults: u64,
    /// Lives of all tasks.
    pub(crate) starts: u64,
    /// Epochs of the chief.
    pub(crate) epochs: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hash,
            simulated,
            healed,
            faults,
            starts,
            epochs,
        } = self;
        let [simulated, healed] = [simulated, healed].map(Duration::as_secs_f64);
        write!(
            out,
            "hash={hash:016x} simulated={simulated:.3} healed={healed:.3} faults={faults} starts={starts} epochs={epochs}"
        )
    }
}

/// How a task's host stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Runs,
    /// Until then.
    Down(Duration),
    Ended,
}

struct Host {
    set_status: Standing,
    told_to_stop: bool,
    life: Arc<Mutex<Life>>,
}

/// A cluster and what befalls it.
struct Trial<'a> {
    options: &'a Options,
    trace: Trace,
    model_dir: PathBuf,
    sim: Sim<'a>,
    hosts: BTreeMap<Task, Host>,
    planned: VecDeque<Planned>,
    open: Vec<Planned>,
    seen: Arc<Mutex<Seen>>,
    faults: u64,
    epoch: u64,
    has_checkpoint: bool,
    looked: Duration,
    /// When the latest fault was over.
    broken: Duration,
}

/// Runs a seed's cluster in `folder`.
///
/// # Errors
/// Says what did not hold.
pub(crate) fn run(options: &Options, folder: &Path, trace: &Trace) -> Result<Report, String> {
    let panics = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&panics);
    std::panic::set_hook(Box::new(move |panic| told.lock().push(panic.to_string())));
    let outcome = Trial::new(options, folder, trace.clone()).run();
    drop(std::panic::take_hook());
    match panics.lock().first() {
        Some(panic) => Err(format!("a task has panicked: {panic}")),
        None => outcome,
    }
}

impl<'a> Trial<'a> {
    fn new(options: &'a Options, folder: &Path, trace: Trace) -> Self {
        let job = options.ledger.write(folder);
        let model_dir = folder.join("model");
        // Drawn by the first chief otherwise.
        cluster_id(&model_dir, u128::from(options.seed) + 1).expect("the id is written");
        let tasks = options.tasks();
        let address = |task: Task| format!("{}:{PORT}", host(task));
        let list = |role: Role| {
            let of = tasks.iter().filter(|task| task.role == role);
            of.map(|task| format!("\"{}\"", address(*task)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let text = format!(
            "[cluster]\nchief = [{}]\nworker = [{}]\nps = [{}]\n",
            list(Role::Chief),
            list(Role::Worker),
            list(Role::Ps)
        );
        let cluster = folder.join("cluster.toml");
        std::fs::write(&cluster, text).expect("the cluster is written");
        let mut sim = Builder::new()
            .rng_seed(options.seed)
            .enable_random_order()
            .tick_duration(options.tick)
            .min_message_latency(Duration::ZERO)
            .max_message_latency(options.latency_max)
            .tcp_capacity(SEGMENTS_MAX)
            .simulation_duration(Duration::MAX)
            .build();
        let mut hosts = BTreeMap::new();
        for task in &tasks {
            let life = Arc::new(Mutex::new(Life::default()));
            let process = Process {
                task: *task,
                job: job.clone(),
                cluster: cluster.clone(),
                settings: options.settings(),
                seed: options.seed,
                life: Arc::clone(&life),
            };
            sim.host(host(*task), move || {
                let process = process.clone();
                async move {
                    process.live().await;
                    Ok(())
                }
            });
            hosts.insert(
                *task,
                Host {
                    set_status: Standing::Runs,
                    told_to_stop: false,
                    life,
                },
            );
        }
        let seen = Arc::new(Mutex::new(Seen::default()));
        let servers = tasks
            .iter()
            .filter(|task| task.role == Role::Ps)
            .map(|task| (*task, address(*task)));
        let watching = watch(
            servers.collect(),
            options.durability != "none",
            Arc::clone(&seen),
        );
        sim.client("monitor", async move {
            watching.await;
            Ok(())
        });
        Self {
            options,
            trace,
            model_dir,
            sim,
            hosts,
            planned: options.faults.iter().cloned().collect(),
            open: Vec::new(),
            seen,
            faults: 0,
            epoch: 0,
            has_checkpoint: false,
            looked: Duration::ZERO,
            broken: Duration::ZERO,
        }
    }

    fn run(mut self) -> Result<Report, String> {
        let mut healed = None;
        let chief = Task {
            role: Role::Chief,
            index: 0,
        };
        while self.hosts[&chief].set_status != Standing::Ended {
            self.befall();
            self.step()?;
            let down = |host: &Host| matches!(host.set_status, Standing::Down(_));
            if !self.open.is_empty() || self.hosts.values().any(down) {
                self.broken = self.sim.elapsed();
            }
            if !self.planned.is_empty() || !self.open.is_empty() {
                continue;
            }
            let since = *healed.get_or_insert(self.sim.elapsed());
            if self.sim.elapsed() - since > LIVENESS {
                return Err(format!(
                    "the job has not ended within {LIVENESS:?} without faults"
                ));
            }
        }
        let healed = self.sim.elapsed() - healed.unwrap_or_else(|| self.sim.elapsed());
        // The job is over: what is still broken is mended, so that the others can end.
        self.planned.clear();
        for fault in std::mem::take(&mut self.open) {
            self.mend(&fault);
        }
        self.end()?;
        let ledger = &self.options.ledger;
        let account = match self.options.max_steps {
            None => Account::of_model_dir(&self.model_dir, ledger)?,
            Some(steps) => Account::of_limited(&self.model_dir, ledger, steps)?,
        };
        if !account.is_exact() {
            return Err(account.to_string());
        }
        if self.seen.lock().answers == 0 {
            return Err("no server has ever answered the monitor".to_owned());
        }
        Ok(Report {
            hash: self.trace.hash(),
            simulated: self.sim.elapsed(),
            healed,
            faults: self.faults,
            starts: self
                .hosts
                .values()
                .map(|host| host.life.lock().starts)
                .sum(),
            epochs: self.epoch,
        })
    }

    /// Waits until all have ended: by themselves, or told to.
    fn end(&mut self) -> Result<(), String> {
        let told = self.sim.elapsed() + LEAVE_TIMEOUT;
        let until = self.sim.elapsed() + LEAVE_TIMEOUT + DRAIN;
        let mut stopped = false;
        loop {
            let running: Vec<Task> = self.running();
            if running.is_empty() {
                return Ok(());
            }
            if self.sim.elapsed() >= told && !stopped {
                stopped = true;
                for task in &running {
                    self.trace
                        .tell(format_args!("{task} is told to stop: the chief has ended"));
                    self.hosts[task].life.lock().stop.cancel();
                }
            }
            if self.sim.elapsed() >= until {
                let names: Vec<String> = running.iter().map(Task::to_string).collect();
                return Err(format!(
                    "the job is over, and these have not stopped: {}",
                    names.join(" ")
                ));
            }
            self.step()?;
            if stopped {
                // Nobody is started again.
                self.hosts
                    .values_mut()
                    .for_each(|host| match host.set_status {
                        Standing::Down(_) => host.set_status = Standing::Ended,
                        Standing::Runs | Standing::Ended => {}
                    });
            }
        }
    }

    fn running(&self) -> Vec<Task> {
        let hosts = self
            .hosts
            .iter()
            .filter(|(_, host)| host.set_status != Standing::Ended);
        hosts.map(|(task, _)| *task).collect()
    }

    /// Lets the faults come that are due, and ends those that are over.
    fn befall(&mut self) {
        let now = self.sim.elapsed();
        self.trace.set_now(now);
        while self
            .planned
            .front()
            .is_some_and(|planned| planned.at <= now)
        {
            let Some(planned) = self.planned.pop_front() else {
                break;
            };
            self.begin(planned);
        }
        let (over, open) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|fault| fault.until() <= now);
        self.open = open;
        let over: Vec<Planned> = over;
        for fault in over {
            self.mend(&fault);
        }
    }

    fn begin(&mut self, planned: Planned) {
        let victims = planned.fault.victims();
        let until = planned.until();
        let runs = |task: &Task| self.hosts[task].set_status == Standing::Runs;
        let running: Vec<Task> = victims.iter().copied().filter(runs).collect();
        if running.is_empty() && !victims.is_empty() {
            return;
        }
        self.trace.tell(format_args!("== {planned}"));
        self.faults += 1;
        // Before the process dies: nobody hears of it.
        planned.fault.cut(&self.sim, &self.options.tasks());
        for task in running {
            if let Fault::Terminate { .. } = planned.fault {
                let host = self.hosts.get_mut(&task).expect("a task of the cluster");
                host.told_to_stop = true;
                host.life.lock().stop.cancel();
            } else {
                self.kill(task, until);
            }
        }
        if let Fault::Store { .. } = planned.fault {
            self.break_store();
        }
        if planned.fault.lasts() {
            self.open.push(planned);
        }
    }

    fn mend(&mut self, planned: &Planned) {
        self.trace.tell(format_args!("== mended: {planned}"));
        planned.fault.mend(
            &self.sim,
            &self.options.tasks(),
            self.options.latency_max / 4,
        );
        if let Fault::Store { .. } = planned.fault {
            self.mend_store();
        }
    }

    /// Puts a file in the place of the model folder: everything there fails, and nothing is said not to be there.
    fn break_store(&self) {
        std::fs::rename(&self.model_dir, self.away()).expect("the model folder is there");
        std::fs::write(&self.model_dir, "no folder").expect("its place is free");
    }

    fn mend_store(&self) {
        std::fs::remove_file(&self.model_dir).expect("nobody has put a folder in its place");
        std::fs::rename(self.away(), &self.model_dir).expect("nobody else moves it");
    }

    /// Where the model folder is while it fails.
    fn away(&self) -> PathBuf {
        self.model_dir.with_extension("away")
    }

    /// Whether the model folder fails now.
    fn store_fails(&self) -> bool {
        self.open
            .iter()
            .any(|planned| matches!(planned.fault, Fault::Store { .. }))
    }

    fn kill(&mut self, task: Task, until: Duration) {
        self.sim.crash(host(task));
        self.hosts
            .get_mut(&task)
            .expect("a task of the cluster")
            .set_status = Standing::Down(until);
    }

    /// Goes on by a tick, and looks after the tasks as a supervisor does.
    fn step(&mut self) -> Result<(), String> {
        self.trace.set_now(self.sim.elapsed());
        self.sim
            .step()
            .map_err(|error| format!("the simulation has failed: {error}"))?;
        let now = self.sim.elapsed();
        self.trace.set_now(now);
        for task in self.options.tasks() {
            let host = self.hosts.get_mut(&task).expect("a task of the cluster");
            match host.set_status {
                Standing::Down(until) if until <= now => {
                    (host.set_status, host.told_to_stop) = (Standing::Runs, false);
                    self.trace.tell(format_args!("== start {task}"));
                    self.sim.bounce(crate::fault::host(task));
                }
                Standing::Runs => self.look_at(task, now)?,
                Standing::Down(_) | Standing::Ended => {}
            }
        }
        if now - self.looked >= POLL_INTERVAL {
            self.looked = now;
            if !self.store_fails() {
                self.look_at_folder()?;
            }
            if let Some(violation) = self.seen.lock().violations.first() {
                return Err(violation.clone());
            }
        }
        Ok(())
    }

    /// Looks whether a process has ended.
    fn look_at(&mut self, task: Task, now: Duration) -> Result<(), String> {
        let host = self.hosts.get_mut(&task).expect("a task of the cluster");
        let Some(outcome) = host.life.lock().outcome.take() else {
            return Ok(());
        };
        let told_to_stop = host.told_to_stop;
        // What it had begun besides ends with it.
        self.kill(task, now + RESTART_DELAY);
        let chief = Task {
            role: Role::Chief,
            index: 0,
        };
        let chief_ended = self.hosts[&chief].set_status == Standing::Ended;
        let host = self.hosts.get_mut(&task).expect("a task of the cluster");
        match outcome {
            Ok(()) => {
                self.trace.tell(format_args!("== {task} has ended"));
                if !told_to_stop {
                    host.set_status = match task.role {
                        Role::Ps if !chief_ended => Standing::Down(now + PAUSE_MAX),
                        _ => Standing::Ended,
                    };
                }
            }
            Err(problem) => {
                let text = problem.render();
                self.trace
                    .tell(format_args!("== {task} has failed: {text}"));
                // While calls go unanswered it may be late. A daemon is ended then, and started again.
                let late = problem.code == Code::E9003 && now > self.broken + ECHO;
                if PERMANENT.contains(&problem.exit_code()) || late {
                    return Err(format!("{task} has failed: {text}"));
                }
                host.set_status = Standing::Down(now + PAUSE_MAX);
            }
        }
        Ok(())
    }

    fn look_at_folder(&mut self) -> Result<(), String> {
        let text =
            std::fs::read_to_string(self.model_dir.join("cluster_epoch")).unwrap_or_default();
        let epoch: u64 = text.trim().parse().unwrap_or(0);
        if epoch < self.epoch {
            return Err(format!(
                "the epoch of the model folder went back from {} to {epoch}",
                self.epoch
            ));
        }
        self.epoch = epoch;
        let mut damaged = Vec::new();
        let found = latest_good(&self.model_dir, &mut |warning| {
            damaged.push(warning.render())
        });
        let found = found.map_err(|error| format!("no checkpoint can be looked for: {error}"))?;
        if let Some(damage) = damaged.first() {
            return Err(format!("a checkpoint is damaged: {damage}"));
        }
        if self.has_checkpoint && found.is_none() {
            return Err("there was a checkpoint, and there is none any more".to_owned());
        }
        self.has_checkpoint = found.is_some();
        Ok(())
    }
}
