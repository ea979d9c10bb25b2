//! Scaling of a running cluster: orders that add or remove workers, and their progress.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_cluster_spec::{ClusterSpec, LocalCounts, Role, Task};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::{Job, Replication, Update};

use super::child::Added;
use super::control::{Answer, Control, Request};
use super::free_ports_beside;
use crate::http;

/// Time in which a new worker must join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Time in which a worker must leave before it is killed.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time between two polls of a new worker.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of one poll.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The order in progress.
#[derive(Debug)]
struct Current {
    answers: mpsc::Sender<Answer>,
    from: usize,
    to: usize,
    /// Workers that were started for the order.
    new: BTreeSet<Task>,
    /// Workers that have not joined yet.
    starting: BTreeSet<Task>,
    /// Workers that have not ended yet.
    stopping: BTreeSet<Task>,
    /// Failures so far.
    failures: Vec<String>,
    until: Instant,
}

/// Workers to start and to stop for an order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Workers to start, with their arguments.
    pub(super) start: Vec<(Task, Added)>,
    /// Workers to stop.
    pub(super) stop: Vec<Task>,
}

/// Workers to stop while an order is in progress.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// Workers to ask to stop.
    pub(super) terminate: Vec<Task>,
    /// Workers to kill, because they have not stopped in time.
    pub(super) kill: Vec<Task>,
}

/// Outcome of a restart of a process that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    /// It may succeed.
    MaySucceed,
    /// It would fail again.
    Fails,
}

/// Meaning of the end of a process for the order in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The process was asked to stop.
    Stopped,
    /// The process is a new worker that cannot run. The job continues without it.
    Unfit,
    /// The end is unrelated to an order.
    Other,
}

/// The number of workers, and the orders that change it.
#[derive(Debug)]
pub(super) struct Scaling {
    control: Control,
    elastic: Result<(), &'static str>,
    /// Fewest workers with which the job still trains.
    least: usize,
    /// Advice for the user who scales this strategy.
    advice: Option<String>,
    cluster: ClusterSpec,
    /// Cluster file with all workers that were ever added. Other tasks keep the original file: a chief that restarts
    /// must find the number of workers with which the job began.
    file: PathBuf,
    workers: usize,
    current: Option<Current>,
    joining: JoinSet<Task>,
}

impl Scaling {
    /// Starts to listen for orders.
    ///
    /// # Errors
    /// Another `up` runs for the same model directory, or a file cannot be written.
    pub(super) fn open(job: &Job, cluster: &ClusterSpec) -> Result<Self, Diagnostic> {
        let workers = cluster.of_role(Role::Worker).count();
        let least = usize::from(!job.strategy.chief_trains);
        let update = job.strategy.update;
        let advice = match update.mode {
            Update::Sync => {
                let lanes = update.replicas_to_aggregate.unwrap_or(workers + 1 - least);
                Some(format!(
                    "a synchronous step stays the mean of {lanes} batches: tasks beyond that are backup workers"
                ))
            }
            Update::Async | Update::StaleSynchronous { .. }
                if job.strategy.replication == Replication::InGraph =>
            {
                Some("the chief reads the input for all workers".to_owned())
            }
            Update::Async | Update::StaleSynchronous { .. } => None,
        };
        Ok(Self {
            control: Control::open(&job.local_dir())?,
            elastic: job.elastic(),
            least,
            advice,
            // Added workers get their admin ports as a flag.
            cluster: cluster.clone(),
            file: job.local_dir().join("up/workers.toml"),
            workers,
            current: None,
            joining: JoinSet::new(),
        })
    }

    /// Returns the next order, after the order in progress has finished.
    pub(super) async fn next(&mut self) -> Request {
        match self.current {
            Some(_) => std::future::pending().await,
            None => self.control.next().await,
        }
    }

    /// Starts an order, and returns its changes. Refused orders need no changes.
    pub(super) fn begin(&mut self, (order, answers): Request) -> Changes {
        let from = self.workers;
        let to = order.workers;
        let changes = match self.decide(to) {
            Ok(changes) => changes,
            Err(refusal) => {
                let _ = answers.try_send(refusal);
                return Changes::default();
            }
        };
        if from != to {
            info!(from, to, "scaling the workers");
        }
        self.workers = to;
        let starting: BTreeSet<Task> = changes.start.iter().map(|(task, _)| *task).collect();
        for (task, added) in &changes.start {
            self.joining.spawn(joined(*task, added.admin.clone()));
        }
        let stopping = changes.stop.iter().copied().collect();
        if let Some(advice) = self.advice.as_ref().filter(|_| from != to) {
            let _ = answers.try_send(Answer::Note(advice.clone()));
        }
        let until = Instant::now()
            + if starting.is_empty() {
                LEAVE_TIMEOUT
            } else {
                JOIN_TIMEOUT
            };
        self.current = Some(Current {
            answers,
            from,
            to,
            new: starting.clone(),
            starting,
            stopping,
            failures: Vec::new(),
            until,
        });
        changes
    }

    fn decide(&mut self, to: usize) -> Result<Changes, Answer> {
        if let Err(reason) = self.elastic {
            let message = format!("this job's workers cannot be scaled: {reason}");
            let help = "start `trainyard up` again with other counts in --cluster, or with --set \
                        input.train.sharding=dynamic and strategy.kind=parameter_server, which can be scaled";
            return Err(Answer::refused(Code::E1006, message, help));
        }
        let most = LocalCounts::WORKERS_MAX;
        if to < self.least {
            let message = format!(
                "--workers must be at least {}, given {to}: no task would train",
                self.least
            );
            let help = "the chief of this job does not train (strategy.chief_trains)";
            return Err(Answer::refused(Code::E1000, message, help));
        }
        if to > most {
            let message = format!("--workers must be at most {most}, given {to}");
            return Err(Answer::refused(
                Code::E1000,
                message,
                "more workers need more machines: see the cluster file",
            ));
        }
        let worker = |index| Task {
            role: Role::Worker,
            index,
        };
        let mut changes = Changes {
            start: Vec::new(),
            stop: (to..self.workers).map(worker).collect(),
        };
        let new: Vec<Task> = (self.workers..to).map(worker).collect();
        if !new.is_empty() {
            changes.start = self.settle(&new).map_err(|message| {
                Answer::refused(
                    Code::E9002,
                    message,
                    "the job continues unchanged; correct this and repeat the command",
                )
            })?;
        }
        Ok(changes)
    }

    /// Assigns addresses to new workers, and writes the cluster file that contains them.
    fn settle(&mut self, new: &[Task]) -> Result<Vec<(Task, Added)>, String> {
        let taken: BTreeSet<u16> = self
            .cluster
            .tasks
            .values()
            .chain(self.cluster.admin.values())
            .filter_map(|address| port(address))
            .collect();
        let ports = free_ports_beside(2 * new.len(), &taken)
            .map_err(|error| format!("this machine has too few free ports: {error}"))?;
        let mut start = Vec::new();
        for (task, ports) in new.iter().zip(ports.chunks(2)) {
            let [address, admin] = [ports[0], ports[1]].map(|port| format!("127.0.0.1:{port}"));
            self.cluster.tasks.entry(*task).or_insert(address);
            let admin = self.cluster.admin.entry(*task).or_insert(admin).clone();
            start.push((
                *task,
                Added {
                    cluster: self.file.clone(),
                    admin,
                },
            ));
        }
        let spec = ClusterSpec {
            admin: BTreeMap::new(),
            ..self.cluster.clone()
        };
        write(&self.file, &spec.to_toml())?;
        Ok(start)
    }

    /// Reports that a new worker was started.
    pub(super) fn started(&self, task: Task, process_id: Option<u32>) {
        if let (Some(current), Some(id)) = (&self.current, process_id) {
            let _ = current
                .answers
                .try_send(Answer::Note(format!("{task} is starting: pid {id}")));
        }
    }

    /// Records that a process has ended.
    pub(super) fn ended(&mut self, task: Task, code: i32, restart: Restart) -> Fate {
        let wanted = task.role != Role::Worker || task.index < self.workers;
        let Some(current) = &mut self.current else {
            return if wanted { Fate::Other } else { Fate::Stopped };
        };
        if !wanted {
            if current.stopping.remove(&task) {
                let _ = current
                    .answers
                    .try_send(Answer::Note(format!("{task} has left: exit code {code}")));
            }
            return Fate::Stopped;
        }
        if current.starting.contains(&task) && (code == 0 || restart == Restart::Fails) {
            current.starting.remove(&task);
            if code == 0 {
                let _ = current
                    .answers
                    .try_send(Answer::Note(format!("{task} found nothing left to do")));
                return Fate::Other;
            }
            current.new.remove(&task);
            current
                .failures
                .push(format!("{task} cannot run: exit code {code}"));
            // Indices have no gaps, so the first worker that cannot run bounds the number of workers.
            self.workers = self.workers.min(task.index);
            return Fate::Unfit;
        }
        Fate::Other
    }

    /// Checks the progress of the order. Returns the workers to stop.
    pub(super) fn look(&mut self) -> Looked {
        let mut looked = Looked::default();
        while let Some(joined) = self.joining.try_join_next() {
            let (Ok(task), Some(current)) = (joined, &mut self.current) else {
                continue;
            };
            if current.starting.remove(&task) {
                let _ = current
                    .answers
                    .try_send(Answer::Note(format!("{task} has joined")));
            }
        }
        let Some(current) = &mut self.current else {
            return looked;
        };
        let workers = self.workers;
        // Indices have no gaps: workers behind one that cannot run are stopped.
        let above = |task: &Task| task.index >= workers;
        looked.terminate = current.new.iter().copied().filter(above).collect();
        if !looked.terminate.is_empty() {
            current.new.retain(|task| !above(task));
            current.starting.retain(|task| !above(task));
            current.stopping.extend(&looked.terminate);
            current.until = Instant::now() + LEAVE_TIMEOUT;
        }
        let late = Instant::now() > current.until;
        if late && !current.stopping.is_empty() {
            looked.kill = std::mem::take(&mut current.stopping).into_iter().collect();
            let failure = format!(
                "{} did not stop within {} s and were killed",
                names(&looked.kill),
                LEAVE_TIMEOUT.as_secs()
            );
            current.failures.push(failure);
        }
        if late && !current.starting.is_empty() {
            let starting: Vec<Task> = std::mem::take(&mut current.starting).into_iter().collect();
            let failure = format!(
                "{} did not join within {} s, and continue to try",
                names(&starting),
                JOIN_TIMEOUT.as_secs()
            );
            current.failures.push(failure);
        }
        if current.starting.is_empty()
            && current.stopping.is_empty()
            && let Some(current) = self.current.take()
        {
            self.joining.abort_all();
            let from = current.from;
            let to = current.to;
            let answer = match current.failures.as_slice() {
                [] => {
                    if from != to {
                        info!(from, to, "the workers are scaled");
                    }
                    Answer::Done { from, to }
                }
                failures => {
                    let failures = failures.join("; ");
                    warn!(
                        from,
                        wanted = to,
                        workers,
                        "the workers are not scaled as asked: {failures}"
                    );
                    let help = format!(
                        "the job continues with {workers} workers; `trainyard up` shows the log lines of each task"
                    );
                    Answer::refused(Code::E2003, failures, help)
                }
            };
            let _ = current.answers.try_send(answer);
        }
        looked
    }

    /// Refuses the order in progress, because the job has ended.
    pub(super) fn end(&mut self) {
        if let Some(current) = self.current.take() {
            let help = "nothing is to be done: `trainyard up` has the result";
            let _ = current.answers.try_send(Answer::refused(
                Code::E2003,
                "the job has ended meanwhile",
                help,
            ));
        }
    }
}

fn names(tasks: &[Task]) -> String {
    tasks
        .iter()
        .map(Task::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn port(address: &str) -> Option<u16> {
    address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    trainyard_model_dir::write_atomically(path, text.as_bytes())
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Polls a worker's admin port until the worker is ready.
async fn joined(task: Task, admin: String) -> Task {
    while http::get(&admin, "/readyz", REQUEST_TIMEOUT).await.is_err() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    task
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::Order;

    fn worker(index: usize) -> Task {
        Task {
            role: Role::Worker,
            index,
        }
    }

    /// Returns the scaling of a job with one worker beside its chief. `more` holds keys of `[input.train]` and further
    /// sections.
    fn scaling(folder: &Path, more: &str) -> Scaling {
        let text = format!(
            "model_dir = \"{0}/model\"\n[input]\nlabel = {{ column = \"y\" }}\n[[feature]]\ncolumn = \"x\"\n\
             kind = \"numeric\"\n[model]\nkind = \"linear_regressor\"\n[input.train]\nfiles = [\"x.csv\"]\nepochs = 1\n{more}",
            folder.display()
        );
        let path = folder.join("job.toml");
        std::fs::write(&path, text).unwrap();
        let job = Job::load(&path, &[]).unwrap();
        let counts = LocalCounts {
            ps: 1,
            workers: 1,
            evaluators: 0,
        };
        Scaling::open(&job, &ClusterSpec::local(counts, &[21_000, 21_001, 21_002])).unwrap()
    }

    fn order(scaling: &mut Scaling, workers: usize) -> (Changes, mpsc::Receiver<Answer>) {
        let (sender, answers) = mpsc::channel(16);
        (scaling.begin((Order { workers }, sender)), answers)
    }

    fn last(mut answers: mpsc::Receiver<Answer>) -> Answer {
        let mut last = None;
        while let Ok(answer) = answers.try_recv() {
            last = Some(answer);
        }
        last.expect("an answer")
    }

    #[tokio::test]
    async fn added_workers_get_addresses_of_their_own_and_a_cluster_file_that_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut scaling = scaling(folder.path(), "");
        let (changes, _answers) = order(&mut scaling, 3);
        let names: Vec<Task> = changes.start.iter().map(|(task, _)| *task).collect();
        assert_eq!((names, changes.stop), (vec![worker(1), worker(2)], vec![]));
        let spec = ClusterSpec::load(&changes.start[0].1.cluster).unwrap();
        let mut addresses: Vec<&str> = spec.tasks.values().map(String::as_str).collect();
        addresses.extend(changes.start.iter().map(|(_, added)| added.admin.as_str()));
        let count = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(
            (spec.of_role(Role::Worker).count(), addresses.len()),
            (3, count),
            "{addresses:?}"
        );
    }

    #[tokio::test]
    async fn behind_a_worker_that_cannot_run_none_is_kept_and_the_order_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut scaling = scaling(folder.path(), "");
        let (_, answers) = order(&mut scaling, 4);
        assert_eq!(
            scaling.ended(worker(0), 1, Restart::MaySucceed),
            Fate::Other,
            "it was there before"
        );
        assert_eq!(scaling.ended(worker(2), 65, Restart::Fails), Fate::Unfit);
        assert_eq!(scaling.look().terminate, [worker(3)]);
        assert_eq!(scaling.look(), Looked::default(), "once");
        assert_eq!(
            scaling.ended(worker(3), 0, Restart::MaySucceed),
            Fate::Stopped
        );
        assert_eq!(
            scaling.ended(worker(1), 0, Restart::MaySucceed),
            Fate::Other,
            "the job's data was used up"
        );
        scaling.look();
        let Answer::Refused {
            code,
            message,
            help,
        } = last(answers)
        else {
            panic!("refused")
        };
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("E2003", "worker:2 cannot run: exit code 65")
        );
        assert!(help.contains("continues with 2 workers"), "{help}");
        let (changes, answers) = order(&mut scaling, 0);
        assert_eq!(changes.stop, [worker(0), worker(1)]);
        assert_eq!(
            scaling.ended(worker(1), 143, Restart::MaySucceed),
            Fate::Stopped
        );
        assert_eq!(
            scaling.ended(worker(0), 0, Restart::MaySucceed),
            Fate::Stopped
        );
        scaling.look();
        assert_eq!(last(answers), Answer::Done { from: 2, to: 0 });
        assert_eq!(
            scaling.ended(worker(0), 1, Restart::MaySucceed),
            Fate::Stopped,
            "nobody wants it back"
        );
    }

    #[tokio::test]
    async fn orders_that_cannot_be_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |more: &str, workers: usize| {
            let mut scaling = scaling(folder.path(), more);
            let (changes, answers) = order(&mut scaling, workers);
            assert_eq!(changes, Changes::default());
            match last(answers) {
                Answer::Refused { code, message, .. } => format!("{code} {message}"),
                other => panic!("{other:?}"),
            }
        };
        assert!(
            refusal("sharding = \"file\"\n", 2)
                .starts_with("E1006 this job's workers cannot be scaled: under")
        );
        assert!(
            refusal("[strategy]\nchief_trains = false\n", 0)
                .starts_with("E1000 --workers must be at least 1")
        );
        assert!(refusal("", 257).starts_with("E1000 --workers must be at most 256"));
    }

    #[tokio::test]
    async fn a_second_one_of_the_same_folder_is_refused_and_one_after_the_other_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let first = scaling(folder.path(), "");
        let job = Job::load(&folder.path().join("job.toml"), &[]).unwrap();
        let cluster = first.cluster.clone();
        let problem = Scaling::open(&job, &cluster).unwrap_err();
        assert_eq!(problem.code, Code::E2008, "{}", problem.message);
        drop(first);
        Scaling::open(&job, &cluster).unwrap();
    }
}
