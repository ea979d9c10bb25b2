//! What is seen of a cluster from outside: memory and open files of its tasks, bytes of its folders, and its metrics.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use trainyard_cluster_spec::{Role, Task};

use crate::{Supervisor, get};

/// Longest time for a task's metrics.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(500);
/// Share of steps that are faster than the time that is told of them.
const QUANTILE: f64 = 0.99;

/// What a task is seen to use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Usage {
    /// Bytes of its memory that are resident.
    pub(super) resident: f64,
    /// Files and connections that it holds open.
    pub(super) files: f64,
}

impl Usage {
    /// Looks at a process; nothing where it has ended.
    pub(super) fn of(process: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: f64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
        let files = std::fs::read_dir(format!("/proc/{process}/fd"))
            .ok()?
            .count();
        Some(Self {
            resident: kibibytes * 1024.0,
            files: files as f64,
        })
    }
}

/// Bytes of all files in a folder and below it. Files that go while it is looked count for nothing.
fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Bytes of all checkpoints of a model folder.
pub(super) fn checkpoint_bytes(model_dir: &Path) -> u64 {
    let entries = std::fs::read_dir(model_dir).into_iter().flatten().flatten();
    let checkpoints =
        entries.filter(|entry| entry.file_name().to_string_lossy().contains("model.ckpt-"));
    checkpoints.map(|entry| bytes_in(&entry.path())).sum()
}

/// The counts of a histogram, by the upper bounds of its buckets; each holds those of all lower ones.
type Buckets = Vec<(f64, f64)>;

/// What the metrics of the tasks that train say, counted on over the lives of each.
#[derive(Debug, Default)]
pub(super) struct Meter {
    examples: BTreeMap<Task, f64>,
    steps: BTreeMap<Task, Buckets>,
    /// Steps of all tasks since it was last asked.
    since: Buckets,
    /// Losses that were seen since it was last asked.
    losses: Vec<f64>,
    /// Examples of all tasks and all their lives.
    pub(super) examples_trained: f64,
}

/// How much a counter has grown: a new life counts from 0.
fn grown(now: f64, before: f64) -> f64 {
    if now >= before { now - before } else { now }
}

impl Meter {
    /// Asks every task that trains.
    pub(super) fn look(&mut self, tasks: &Supervisor) {
        let trained = [Role::Chief, Role::Worker]
            .into_iter()
            .flat_map(|role| tasks.of_role(role));
        for task in trained {
            if let Some((_, body)) = get(tasks.admin(task), "/metrics", REQUEST_TIMEOUT) {
                self.take(task, &body);
            }
        }
    }

    /// Takes note of what a task says.
    fn take(&mut self, task: Task, metrics: &str) {
        let value = |name: &str| {
            let line = metrics
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse::<f64>().ok()
        };
        self.losses.extend(value("trainyard_loss"));
        if let Some(now) = value("trainyard_examples_total") {
            let before = self.examples.insert(task, now).unwrap_or_default();
            self.examples_trained += grown(now, before);
        }
        let buckets: Buckets = metrics
            .lines()
            .filter_map(|line| {
                line.strip_prefix("trainyard_step_seconds_bucket{le=\"")?
                    .split_once("\"} ")
            })
            .filter_map(|(bound, count)| Some((bound.parse().ok()?, count.trim().parse().ok()?)))
            .collect();
        let before = self.steps.insert(task, buckets.clone()).unwrap_or_default();
        // The last bucket holds all steps: where it has fewer than before, the task has begun anew.
        let is_new = before
            .last()
            .is_some_and(|(_, count)| buckets.last().is_none_or(|(_, now)| now < count));
        self.since
            .resize(buckets.len().max(self.since.len()), (0.0, 0.0));
        for (place, (bound, now)) in buckets.iter().enumerate() {
            let before = if is_new {
                0.0
            } else {
                before.get(place).map_or(0.0, |(_, count)| *count)
            };
            let (all_bound, all) = &mut self.since[place];
            *all_bound = *bound;
            *all += now - before;
        }
    }

    /// Returns the mean loss since this was last asked, and the time that 99 % of the steps took at most, in seconds. The
    /// latter lies within a bucket of the histogram, as `histogram_quantile` of Prometheus has it.
    pub(super) fn minute(&mut self) -> (Option<f64>, Option<f64>) {
        let losses = std::mem::take(&mut self.losses);
        let loss = (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64);
        (loss, quantile(&std::mem::take(&mut self.since)))
    }
}

fn quantile(buckets: &Buckets) -> Option<f64> {
    let rank = QUANTILE * buckets.last().filter(|(_, all)| *all > 0.0)?.1;
    let place = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (bound, count) = buckets[place];
    let (lower, below) = place
        .checked_sub(1)
        .map_or((0.0, 0.0), |place| buckets[place]);
    // Nothing is known of how long the slowest took.
    Some(if bound.is_infinite() {
        lower
    } else {
        lower + (bound - lower) * (rank - below) / (count - below)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: Task = Task {
        role: Role::Worker,
        index: 0,
    };

    fn told(examples: u32, steps: [u32; 3]) -> String {
        let [fast, slow, all] = steps;
        format!(
            "trainyard_loss 0.5\ntrainyard_examples_total {examples}\n\
             trainyard_step_seconds_bucket{{le=\"0.01\"}} {fast}\ntrainyard_step_seconds_bucket{{le=\"0.03\"}} {slow}\n\
             trainyard_step_seconds_bucket{{le=\"+Inf\"}} {all}\n"
        )
    }

    #[test]
    fn examples_are_counted_on_over_the_lives_of_a_task() {
        let mut meter = Meter::default();
        for (examples, steps) in [
            (100, [1, 1, 1]),
            (300, [3, 3, 3]),
            (50, [1, 1, 1]),
            (80, [2, 2, 2]),
        ] {
            meter.take(WORKER, &told(examples, steps));
        }
        assert_eq!(meter.examples_trained, 380.0);
        assert_eq!(meter.since.last(), Some(&(f64::INFINITY, 5.0)));
    }

    #[test]
    fn the_time_of_the_slowest_steps_lies_in_their_bucket_and_each_minute_begins_anew() {
        let mut meter = Meter::default();
        meter.take(WORKER, &told(0, [980, 1000, 1000]));
        let (loss, slowest) = meter.minute();
        assert_eq!(loss, Some(0.5));
        assert!(
            slowest.is_some_and(|seconds| (seconds - 0.02).abs() < 1e-9),
            "{slowest:?}"
        );
        meter.take(WORKER, &told(0, [1960, 2000, 2000]));
        assert_eq!(meter.minute().1, slowest);
        assert_eq!(meter.minute(), (None, None));
    }

    #[test]
    fn this_process_uses_memory_and_files() {
        let usage = Usage::of(std::process::id()).expect("it runs");
        assert!(usage.resident > 1e6 && usage.files >= 3.0, "{usage:?}");
    }
}
