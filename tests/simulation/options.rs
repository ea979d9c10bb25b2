//! What a seed stands for: a job, a cluster, a network, and the faults that come.

use std::fmt;
use std::time::Duration;

use trainyard_cluster_spec::{Role, Task};
use trainyard_tests::{Draw, Ledger};

use crate::fault::{Fault, Planned};

/// When pushes take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Update {
    /// As they come.
    Asynchronous,
    /// As they come, while nobody is more than so many steps ahead.
    StaleSynchronous(u64),
    /// So many together.
    Synchronous(u64),
}

/// Everything that a seed decides.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) update: Update,
    pub(crate) ledger: Ledger,
    pub(crate) workers: usize,
    pub(crate) chief_trains: bool,
    /// Whether the chief reads the data, and sends it.
    pub(crate) in_graph: bool,
    pub(crate) pipeline_depth: u64,
    pub(crate) durability: &'static str,
    /// 0 = the logs lie on the disk.
    pub(crate) shared_memory_bytes_max: u64,
    pub(crate) log_bytes_max: u64,
    pub(crate) save_checkpoints_secs: u64,
    /// Time by which each host goes on at a time; a message takes as long at least.
    pub(crate) tick: Duration,
    /// Most messages are faster by far.
    pub(crate) latency_max: Duration,
    /// Steps after which the job ends, before its data does.
    pub(crate) max_steps: Option<u64>,
    /// By the time at which they come.
    pub(crate) faults: Vec<Planned>,
}

/// Faults of a run.
const FAULTS: std::ops::Range<u64> = 3..13;
/// Mean time between two.
const GAP_MS: u64 = 700;

/// From this seed on `max_steps` ends the job, below [`SEEDS_WITH_STORE`].
pub(crate) const SEEDS_WITH_LIMIT: u64 = 1 << 31;
/// From this seed on the model folder fails, too. What the seeds below stand for stays as it is.
pub(crate) const SEEDS_WITH_STORE: u64 = 1 << 32;
/// From this seed on each shard has a backup on the other server.
pub(crate) const SEEDS_WITH_BACKUPS: u64 = 1 << 33;
/// Longest time for which it fails at a time.
const STORE_FAILS_MAX: Duration = Duration::from_secs(5);

/// Returns times in which the model folder fails, one behind the other.
fn failures_of_the_store(draw: &mut Draw) -> Vec<Planned> {
    let mut out = Vec::new();
    let mut at = Duration::ZERO;
    for _ in 0..1 + draw.below(3) {
        at += Duration::from_millis(200 + draw.below(3000));
        let length = Duration::from_millis(20 + draw.below(STORE_FAILS_MAX.as_millis() as u64));
        out.push(Planned {
            at,
            fault: Fault::Store { length },
        });
        at += length;
    }
    out
}

impl Options {
    /// Returns what a seed stands for. Its remainder by 3 says how updates take effect.
    pub(crate) fn of(seed: u64) -> Self {
        // What is drawn of one thing does not change when another is added.
        let stream = |number: u64| Draw::new(seed.wrapping_mul(16).wrapping_add(number));
        let mut job = stream(0);
        let mut cluster = stream(1);
        let mut network = stream(2);
        let mut faults = stream(3);
        let update = match seed % 3 {
            0 => Update::Asynchronous,
            1 => Update::StaleSynchronous(job.below(4)),
            _ => Update::Synchronous(2 << job.below(2)),
        };
        let lanes = match update {
            Update::Synchronous(lanes) => lanes,
            _ => 1,
        };
        let epochs = 2 + job.below(4);
        let chief_trains = cluster.below(5) > 0;
        // As many as a synchronous step has batches at least, and at times one more.
        let most = 2 + cluster.below(2) as usize;
        let workers = most.max(lanes as usize - usize::from(chief_trains));
        let log;
        let mut out = Self {
            seed,
            update,
            ledger: Ledger {
                rows: 3 * 160,
                epochs,
                batch_size: 4,
                lanes,
                servers: 2,
            },
            workers,
            chief_trains,
            in_graph: !chief_trains && cluster.below(2) == 0,
            // Synchronous updates read nothing ahead.
            pipeline_depth: if lanes > 1 { 0 } else { job.below(2) },
            durability: {
                log = job.below(5);
                match log {
                    _ if seed >= SEEDS_WITH_BACKUPS => "replica",
                    0 => "none",
                    _ => "shared_memory",
                }
            },
            // With little memory the log lies on the disk, and is cut again and again.
            shared_memory_bytes_max: match log {
                1 => 0,
                2 | 3 => 64 << 10,
                _ => 256 << 20,
            },
            log_bytes_max: if job.below(2) == 0 { 1 << 20 } else { 4 << 30 },
            save_checkpoints_secs: 1 + job.below(3),
            tick: Duration::from_millis([2, 5, 5, 10][network.below(4) as usize]),
            latency_max: Duration::from_millis([5, 20, 60][network.below(3) as usize]),
            max_steps: None,
            faults: Vec::new(),
        };
        let mut below = |bound: u64| faults.below(bound);
        let tasks = out.tasks();
        let mut at = Duration::from_millis(below(2000));
        // While messages are kept from some, they are from no others: a network that is broken in two ways at once is not
        // one that turmoil's links can be.
        let mut cut_until = Duration::ZERO;
        for _ in 0..FAULTS.start + below(FAULTS.end - FAULTS.start) {
            let fault = Fault::draw(&mut below, &tasks, at >= cut_until);
            let planned = Planned { at, fault };
            if planned.fault.cuts() {
                cut_until = planned.until();
            }
            out.faults.push(planned);
            at += Duration::from_millis(below(2 * GAP_MS));
        }
        if (SEEDS_WITH_LIMIT..SEEDS_WITH_STORE).contains(&seed) {
            let steps = out.ledger.steps();
            out.max_steps = Some(1 + stream(5).below(steps - 1));
        }
        if (SEEDS_WITH_STORE..SEEDS_WITH_BACKUPS).contains(&seed) {
            out.faults.extend(failures_of_the_store(&mut stream(4)));
            out.faults.sort_by_key(|planned| planned.at);
        }
        out
    }

    /// Returns all tasks: parameter servers, chief, workers.
    pub(crate) fn tasks(&self) -> Vec<Task> {
        let of = |role: Role, count: usize| (0..count).map(move |index| Task { role, index });
        of(Role::Ps, self.ledger.servers)
            .chain(of(Role::Chief, 1))
            .chain(of(Role::Worker, self.workers))
            .collect()
    }

    /// Returns the settings of the job, `section.key=value`.
    pub(crate) fn settings(&self) -> Vec<String> {
        let mut out = vec![
            // Longer than any run: nobody gives up, so that who waits for nothing is seen.
            "run.session_creation_timeout_secs=7200".to_owned(),
            "run.intra_op_parallelism_threads=1".to_owned(),
            format!("run.save_checkpoints_secs={}", self.save_checkpoints_secs),
            format!("parameter_servers.durability={}", self.durability),
            format!(
                "parameter_servers.shared_memory_bytes_max={}",
                self.shared_memory_bytes_max
            ),
            format!("parameter_servers.log_bytes_max={}", self.log_bytes_max),
            format!("strategy.pipeline_depth={}", self.pipeline_depth),
            format!("strategy.chief_trains={}", self.chief_trains),
            format!(
                "strategy.replication={}",
                if self.in_graph {
                    "in_graph"
                } else {
                    "between_graph"
                }
            ),
        ];
        out.extend(
            self.max_steps
                .map(|steps| format!("train.max_steps={steps}")),
        );
        match self.update {
            Update::Asynchronous => out.push("strategy.update=async".to_owned()),
            Update::StaleSynchronous(steps) => out.extend([
                "strategy.update=ssp".to_owned(),
                format!("strategy.staleness_steps_max={steps}"),
            ]),
            Update::Synchronous(lanes) => out.extend([
                "strategy.update=sync".to_owned(),
                // The mean of so many ones, times so many.
                "strategy.scale_learning_rate=true".to_owned(),
                format!("strategy.replicas_to_aggregate={lanes}"),
            ]),
        }
        out
    }
}

impl fmt::Display for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            update,
            ledger,
            workers,
            tick,
            latency_max,
            faults,
            ..
        } = self;
        writeln!(
            out,
            "seed {seed}: {update:?}, {workers} workers, {}",
            self.settings().join(" ")
        )?;
        writeln!(
            out,
            "  {ledger:?}, tick {tick:?}, latency below {latency_max:?}"
        )?;
        faults
            .iter()
            .try_for_each(|fault| writeln!(out, "  {fault}"))
    }
}
