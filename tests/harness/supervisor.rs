//! A cluster of real processes under a supervisor that starts again what has died.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use trainyard_cluster_spec::{ClusterSpec, LocalCounts, Role, Task};

use crate::free_ports;

/// Wait before a task is started again.
const RESTART_DELAY: Duration = Duration::from_millis(50);
/// Longest wait: it doubles each time that a task ends by itself soon after its start.
const RESTART_DELAY_MAX: Duration = Duration::from_secs(1);
/// Life after which a task counts as having started well.
const STABLE_AFTER: Duration = Duration::from_secs(2);
/// Exit codes after which a restart would end in the same way: command line, data, files, ports, versions, rights,
/// configuration.
const PERMANENT: [i32; 7] = [64, 65, 66, 73, 76, 77, 78];
/// Time between looks at the processes.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Tasks of one job. All are killed when it is dropped.
#[derive(Debug)]
pub struct Supervisor {
    program: PathBuf,
    job: PathBuf,
    /// Cluster file, logs and state of the job lie here.
    folder: PathBuf,
    settings: Vec<String>,
    arguments: BTreeMap<Task, Vec<String>>,
    cluster: ClusterSpec,
    children: BTreeMap<Task, Child>,
    started: BTreeMap<Task, Instant>,
    pauses: BTreeMap<Task, Duration>,
    due: BTreeMap<Task, Instant>,
    /// What a task is started by, such as one that puts it into a namespace.
    homes: BTreeMap<Task, Vec<String>>,
    /// What the next life of a task is started by, such as a tracer.
    wrappers: BTreeMap<Task, Vec<String>>,
    told_to_stop: BTreeSet<Task>,
    /// Servers that have heard of the end and were started again, for a chief that dies before it has told the others.
    spare: BTreeSet<Task>,
    /// Tasks whose machines are gone.
    lost: BTreeSet<Task>,
    exits: BTreeMap<Task, i32>,
    /// Tasks whose present life the user of this supervisor has ended.
    signalled: BTreeSet<Task>,
    /// Length of the log of a task at its latest start.
    log_begins: BTreeMap<Task, u64>,
    ends: Vec<End>,
    starts: u64,
}

/// The end of a task's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The task.
    pub task: Task,
    /// Exit code; 128 + n after signal n.
    pub code: i32,
    /// Whether the user of the supervisor has killed it, or told it to stop.
    pub is_signalled: bool,
    /// Part of the task's log that it has written.
    pub log: Range<u64>,
}

impl Supervisor {
    /// Prepares a cluster of this machine whose tasks are all the same program, told their roles by `run --role`. It takes
    /// `settings` (`section.key=value`) beside those of the job file. Nothing runs yet.
    ///
    /// # Panics
    /// The cluster file cannot be written, or there are too few free ports.
    pub fn new(
        program: &Path,
        folder: &Path,
        job: &Path,
        counts: LocalCounts,
        settings: &[String],
    ) -> Self {
        let ports = free_ports(2 * counts.ports() + counts.evaluators);
        let mut cluster = ClusterSpec::local(counts, &ports);
        let evaluators = (0..counts.evaluators).map(|index| Task {
            role: Role::Evaluator,
            index,
        });
        let tasks: Vec<Task> = cluster.tasks.keys().copied().chain(evaluators).collect();
        let admin = tasks.into_iter().zip(&ports[counts.ports()..]);
        cluster.admin = admin
            .map(|(task, port)| (task, format!("127.0.0.1:{port}")))
            .collect();
        let out = Self {
            program: program.to_owned(),
            job: job.to_owned(),
            folder: folder.to_owned(),
            settings: settings.to_vec(),
            arguments: BTreeMap::new(),
            cluster,
            children: BTreeMap::new(),
            started: BTreeMap::new(),
            pauses: BTreeMap::new(),
            due: BTreeMap::new(),
            spare: BTreeSet::new(),
            homes: BTreeMap::new(),
            wrappers: BTreeMap::new(),
            told_to_stop: BTreeSet::new(),
            lost: BTreeSet::new(),
            exits: BTreeMap::new(),
            signalled: BTreeSet::new(),
            log_begins: BTreeMap::new(),
            ends: Vec::new(),
            starts: 0,
        };
        out.write_cluster();
        out
    }

    /// Adds a chief that stands by, `chief:1`. To be said before anything is started.
    ///
    /// # Panics
    /// The cluster file cannot be written, or there are too few free ports.
    pub fn add_standby(&mut self) -> Task {
        let task = Task {
            role: Role::Chief,
            index: 1,
        };
        let address: Vec<String> = free_ports(2)
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        self.cluster.standbys.insert(task, address[0].clone());
        self.cluster.admin.insert(task, address[1].clone());
        self.write_cluster();
        task
    }

    fn write_cluster(&self) {
        std::fs::write(self.folder.join("cluster.toml"), self.cluster.to_toml())
            .expect("the cluster is written");
    }

    /// Returns the folder of the cluster file, the logs and, where it is a counting job, of its `model`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the address at which the others reach a task.
    ///
    /// # Panics
    /// There is no such task.
    pub fn address(&self, task: Task) -> &str {
        self.cluster.address(task).expect("a task of the cluster")
    }

    /// Has the others reach a task at another address than the one it listens at, such as that of a proxy. To be said
    /// before anything is started.
    ///
    /// # Panics
    /// There is no such task, or the cluster file cannot be written.
    pub fn reach_through(&mut self, task: Task, address: &str) {
        let listen = self
            .cluster
            .tasks
            .insert(task, address.to_owned())
            .expect("a task of the cluster");
        self.arguments
            .entry(task)
            .or_default()
            .extend(["--listen".to_owned(), listen]);
        self.write_cluster();
    }

    /// Gives the tasks certificates, in the folders that this path names: `{role}` and `{index}` stand for the task's. To be said
    /// before anything is started.
    ///
    /// # Panics
    /// The cluster file cannot be written.
    pub fn protect(&mut self, tls_dir: &str) {
        self.cluster.credentials.tls_dir = Some(tls_dir.to_owned());
        self.write_cluster();
    }

    /// Has a task live at another address of this machine, where a program brings it: a name and arguments. To be said before
    /// anything is started.
    ///
    /// # Panics
    /// There is no such task, or the cluster file cannot be written.
    pub fn live_at(&mut self, task: Task, host: &str, home: Vec<String>) {
        let at = |address: &mut String| {
            let (_, port) = address.rsplit_once(':').expect("host and port");
            *address = format!("{host}:{port}");
        };
        let standby = self.cluster.standbys.get_mut(&task);
        self.cluster.tasks.get_mut(&task).or(standby).map(at);
        self.cluster
            .admin
            .get_mut(&task)
            .map(at)
            .expect("a task of the cluster");
        self.homes.insert(task, home);
        // Others reach it there; what it is a test of is not who they are.
        self.cluster.credentials.insecure_no_auth = true;
        self.write_cluster();
    }

    /// Returns the addresses of the tasks.
    pub fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// Returns all tasks: parameter servers, chief, workers, evaluators.
    pub fn tasks(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.cluster.admin.keys().copied().collect();
        tasks.sort_by_key(|task| (task.role != Role::Ps, *task));
        tasks
    }

    /// Returns the tasks of a role.
    pub fn of_role(&self, role: Role) -> Vec<Task> {
        self.tasks()
            .into_iter()
            .filter(|task| task.role == role)
            .collect()
    }

    /// Returns the address of a task's admin port.
    ///
    /// # Panics
    /// There is no such task.
    pub fn admin(&self, task: Task) -> &str {
        self.cluster
            .admin
            .get(&task)
            .expect("a task of the cluster")
    }

    /// Returns the file that holds everything a task has written, all its lives together.
    pub fn log(&self, task: Task) -> PathBuf {
        self.folder
            .join(format!("{}-{}.log", task.role, task.index))
    }

    /// Returns the lines of a task's log that hold a text.
    pub fn lines(&self, task: Task, text: &str) -> Vec<String> {
        let log = std::fs::read(self.log(task)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        log.lines()
            .filter(|line| line.contains(text))
            .map(str::to_owned)
            .collect()
    }

    /// Gives a task arguments that others do not have. To be said before it is started.
    pub fn give(&mut self, task: Task, arguments: &[&str]) {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        self.arguments.entry(task).or_default().extend(arguments);
    }

    /// Has another program start every life of a task: a name and arguments, such as `env` with what the task needs.
    pub fn start_by(&mut self, task: Task, home: Vec<String>) {
        self.homes.insert(task, home);
    }

    /// Has another program start the next life of a task, and that one alone: a name and arguments, such as a tracer's.
    pub fn wrap_next(&mut self, task: Task, wrapper: Vec<String>) {
        self.wrappers.insert(task, wrapper);
    }

    /// Has chiefs and workers pause in each step, for a test that waits for something else than steps: it leaves the cores to
    /// others. To be said before they are started.
    pub fn slow_down(&mut self) {
        let slow = ["env", "FAILPOINTS=worker.after_pull=sleep(5)"].map(str::to_owned);
        for task in self.tasks() {
            if matches!(task.role, Role::Chief | Role::Worker) {
                self.start_by(task, slow.to_vec());
            }
        }
    }

    /// Starts a task.
    ///
    /// # Panics
    /// It cannot be started, or runs already.
    pub fn start(&mut self, task: Task) {
        assert!(!self.children.contains_key(&task), "{task} runs already");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log(task))
            .expect("a log");
        self.log_begins.insert(task, self.log_bytes(task));
        let home = self.homes.get(&task).cloned().unwrap_or_default();
        let mut words = home
            .into_iter()
            .chain(self.wrappers.remove(&task).unwrap_or_default());
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        // Its own group: a tracer and what it traces are ended together.
        command.process_group(0);
        command.args([
            "run",
            "--role",
            task.role.as_str(),
            "--index",
            &task.index.to_string(),
            "--job",
        ]);
        command
            .arg(&self.job)
            .arg("--cluster")
            .arg(self.folder.join("cluster.toml"));
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.args(self.arguments.get(&task).into_iter().flatten());
        command
            .env_remove("TF_CONFIG")
            .env_remove("TRAINYARD_LOG")
            .stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        self.children.insert(task, child);
        self.started.insert(task, Instant::now());
        self.told_to_stop.remove(&task);
        self.signalled.remove(&task);
        self.starts += 1;
    }

    /// Starts every task but those that are lost.
    pub fn start_all(&mut self) {
        let there = self.tasks().into_iter().filter(|task| !self.is_lost(*task));
        there
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|task| self.start(task));
    }

    /// Starts every task, those that stand by once the chief leads: of chiefs that start at once the quicker one leads.
    ///
    /// # Panics
    /// As [`Supervisor::wait_until`] does.
    pub fn start_all_then_standbys(&mut self, limit: Duration) {
        let (standbys, others): (Vec<Task>, Vec<Task>) = self
            .tasks()
            .into_iter()
            .partition(|task| self.cluster.standbys.contains_key(task));
        others.into_iter().for_each(|task| self.start(task));
        let chief = Task {
            role: Role::Chief,
            index: 0,
        };
        self.wait_until("the chief leads", limit, |tasks| {
            !tasks.lines(chief, "training is open").is_empty()
        });
        standbys.into_iter().for_each(|task| self.start(task));
    }

    /// Gives tasks that are started from now on another setting, `section.key=value`.
    pub fn set(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
    }

    /// Tells all tasks of a role to stop, and starts none of them again.
    ///
    /// # Errors
    /// One did not within `limit`, or ended with another code than 0, or than 143 where it had only just been started.
    pub fn stop(&mut self, role: Role, limit: Duration) -> Result<(), String> {
        let tasks = self.of_role(role);
        self.due.retain(|task, _| task.role != role);
        let runs: Vec<Task> = tasks.into_iter().filter(|task| self.runs(*task)).collect();
        runs.iter()
            .for_each(|task| self.signal(*task, Signal::TERM));
        let until = Instant::now() + limit;
        while runs.iter().any(|task| self.runs(*task)) {
            if Instant::now() > until {
                return Err(format!(
                    "{role}s did not stop within {limit:?}: {}",
                    self.last_lines()
                ));
            }
            self.look();
            self.due.retain(|task, _| task.role != role);
            std::thread::sleep(POLL_INTERVAL);
        }
        let terminated = Some(128 + Signal::TERM.as_raw());
        match runs
            .into_iter()
            .find(|task| ![Some(0), terminated].contains(&self.exit(*task)))
        {
            None => Ok(()),
            Some(task) => {
                let code = self.exit(task);
                Err(format!(
                    "{task} was told to stop, and ended with {code:?}: {}",
                    self.last_lines()
                ))
            }
        }
    }

    /// Looks after the tasks: one that has died, or was told to stop and did, is started again when it is time.
    pub fn look(&mut self) {
        for (task, code) in self.reap() {
            if PERMANENT.contains(&code) || self.lost.contains(&task) {
                continue;
            }
            if code == 0 && !self.told_to_stop.contains(&task) {
                if task.role == Role::Ps {
                    // The chief follows soon. One that has died just as the job ended comes back and needs it.
                    self.spare.insert(task);
                    self.due.insert(task, Instant::now() + RESTART_DELAY_MAX);
                }
                continue;
            }
            // One that was killed on its way out, too.
            if (code == 0 || code > 128) && self.has_heard_of_the_end(task) {
                // Nobody would come to tell its next life.
                continue;
            }
            let lived = self
                .started
                .get(&task)
                .map_or(Duration::ZERO, Instant::elapsed);
            // Signals are the work of tests; a task that ends by itself, again and again, is given time.
            let pause = if code < 128 && code != 0 && lived < STABLE_AFTER {
                (2 * self.pauses.get(&task).copied().unwrap_or(RESTART_DELAY))
                    .min(RESTART_DELAY_MAX)
            } else {
                RESTART_DELAY
            };
            self.pauses.insert(task, pause);
            self.due.insert(task, Instant::now() + pause);
        }
        let now = Instant::now();
        let due: Vec<Task> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(task, _)| *task)
            .collect();
        for task in due {
            self.due.remove(&task);
            self.start(task);
        }
    }

    /// Takes note of the tasks that have ended, and returns them with their exit codes; 128 + n after signal n.
    fn reap(&mut self) -> Vec<(Task, i32)> {
        let ended = |(task, child): (&Task, &mut Child)| {
            let status = child.try_wait().expect("a child can be waited for")?;
            Some((
                *task,
                status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            ))
        };
        let ended: Vec<(Task, i32)> = self.children.iter_mut().filter_map(ended).collect();
        for (task, code) in &ended {
            self.children.remove(task);
            self.exits.insert(*task, *code);
            let begin = self.log_begins.get(task).copied().unwrap_or_default();
            self.ends.push(End {
                task: *task,
                code: *code,
                is_signalled: self.signalled.contains(task),
                log: begin..self.log_bytes(*task),
            });
        }
        ended
    }

    /// Returns the length of a task's log.
    pub fn log_bytes(&self, task: Task) -> u64 {
        std::fs::metadata(self.log(task)).map_or(0, |file| file.len())
    }

    /// Returns the lives that have ended since it was last asked for them.
    pub fn take_ends(&mut self) -> Vec<End> {
        std::mem::take(&mut self.ends)
    }

    /// Returns a part of a task's log.
    pub fn log_part(&self, task: Task, part: Range<u64>) -> String {
        let log = std::fs::read(self.log(task)).unwrap_or_default();
        let part = log.get(part.start as usize..part.end as usize);
        String::from_utf8_lossy(part.unwrap_or_default()).into_owned()
    }

    /// Whether a task that has ended will be started again.
    pub fn is_due(&self, task: Task) -> bool {
        self.due.contains_key(&task)
    }

    /// Whether a task runs, paused or not.
    pub fn runs(&self, task: Task) -> bool {
        self.children.contains_key(&task)
    }

    /// Process id of a task that runs.
    pub fn id(&self, task: Task) -> Option<u32> {
        self.children.get(&task).map(Child::id)
    }

    /// Exit code of a task's latest life that has ended.
    pub fn exit(&self, task: Task) -> Option<i32> {
        self.exits.get(&task).copied()
    }

    /// A task that has ended in a way that no restart mends, with its exit code.
    pub fn failed_for_good(&self) -> Option<(Task, i32)> {
        self.exits
            .iter()
            .find(|(_, code)| PERMANENT.contains(code))
            .map(|(task, code)| (*task, *code))
    }

    /// Whether a task that ends with this code is not started again: a restart would end in the same way.
    pub fn is_permanent(code: i32) -> bool {
        PERMANENT.contains(&code)
    }

    /// Times that a task was started, all tasks together.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Kills a task that is never started again: its machine is gone.
    pub fn lose(&mut self, task: Task) {
        self.lost.insert(task);
        self.signal(task, Signal::KILL);
    }

    /// Whether a task is never started again.
    pub fn is_lost(&self, task: Task) -> bool {
        self.lost.contains(&task)
    }

    /// Sends a signal to a task, if it runs.
    pub fn signal(&mut self, task: Task, signal: Signal) {
        let Some(pid) = self.id(task).and_then(|id| Pid::from_raw(id.cast_signed())) else {
            return;
        };
        if signal == Signal::TERM {
            self.told_to_stop.insert(task);
        }
        if [Signal::TERM, Signal::KILL].contains(&signal) {
            self.signalled.insert(task);
        }
        // It may have ended this very moment.
        let _ = kill_process(pid, signal);
    }

    /// Returns the last lines that each task has written, for those who read why a test failed.
    pub fn last_lines(&self) -> String {
        let mut text = String::new();
        for task in self.tasks() {
            let lines = self.lines(task, "");
            let from = lines.len().saturating_sub(6);
            text.push_str(&format!("\n{task}:\n{}", lines[from..].join("\n")));
        }
        text
    }

    /// Waits until something holds, while the tasks are looked after, and returns how long it took.
    ///
    /// # Panics
    /// It does not within `limit`, or a task has ended in a way that no restart mends.
    pub fn wait_until(
        &mut self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> Duration {
        let begun = Instant::now();
        while !holds(self) {
            assert!(
                begun.elapsed() < limit,
                "not within {limit:?}: {what}; {}",
                self.last_lines()
            );
            self.look();
            assert_eq!(
                self.failed_for_good(),
                None,
                "{what}; {}",
                self.last_lines()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
        begun.elapsed()
    }

    /// Whether the chief has told a server that the job is over. The chief may be gone since then.
    fn has_heard_of_the_end(&self, task: Task) -> bool {
        task.role == Role::Ps && !self.lines(task, "the job has ended").is_empty()
    }

    /// Waits until a task has ended by itself with code 0, while the others are looked after. Returns whether it did in time.
    pub fn wait_for_end_of(&mut self, task: Task, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            self.look();
            if !self.runs(task) && !self.is_due(task) {
                // With another code it is not started again.
                return self.exit(task) == Some(0) || self.has_heard_of_the_end(task);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        false
    }

    /// Waits until all tasks have ended, starting none again; after `limit` those that are left are killed. Returns these.
    #[must_use = "one that is late has not ended by itself"]
    pub fn finish(&mut self, limit: Duration) -> Vec<Task> {
        let until = Instant::now() + limit;
        self.due.clear();
        // Nobody is left who would tell them a second time.
        for task in std::mem::take(&mut self.spare) {
            self.signal(task, Signal::TERM);
        }
        while !self.children.is_empty() && Instant::now() < until {
            self.reap();
            std::thread::sleep(POLL_INTERVAL);
        }
        let late = self.children.keys().copied().collect();
        self.kill_all();
        late
    }

    /// Kills every task.
    pub fn kill_all(&mut self) {
        for child in self.children.values() {
            if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        for (task, mut child) in std::mem::take(&mut self.children) {
            let _ = child.wait();
            self.exits.insert(task, 128 + Signal::KILL.as_raw());
        }
        self.due.clear();
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.kill_all();
    }
}
