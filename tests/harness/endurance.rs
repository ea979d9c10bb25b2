//! A job that runs for hours on a stream that never ends, while tasks are killed: does anything grow?

mod clicks;
mod report;
mod sample;
mod trend;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_write_ahead_log::SegmentFile;

pub use clicks::Clicks;
pub use report::{EnduranceReport, Series, Unit};
pub use trend::Trend;

use crate::{Draw, Ledger, Supervisor, metric};
use sample::{Meter, Usage, checkpoint_bytes};

/// Time between looks at the processes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time between looks at memory, files, folders and metrics.
const SAMPLE: Duration = Duration::from_secs(1);
/// Longest time for the cluster to begin.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time for anything at the end.
const END_TIMEOUT: Duration = Duration::from_secs(300);
/// Records of an evaluation.
const EVAL_ROWS: u32 = 20_000;
/// Lines of a batch.
const BATCH_SIZE: u32 = 512;

/// What is run, and for how long.
#[derive(Debug, Clone)]
pub struct Endurance {
    /// The program that is every task: one that hands [`Clicks::from_job`] to `main_with`.
    pub program: PathBuf,
    /// Of every choice.
    pub seed: u64,
    /// Length of the run.
    pub length: Duration,
    /// Time between two points of a slope.
    pub point: Duration,
    /// Time at its start that says nothing of slopes: tables and buffers fill.
    pub warm_up: Duration,
    /// Parameter servers. The last one is killed now and then.
    pub servers: usize,
    /// Workers, besides the chief, which trains too. The last one is killed now and then.
    pub workers: usize,
    /// Mean time between kills of the last worker; nothing = never.
    pub kill_worker: Option<Duration>,
    /// Mean time between kills of the last server; nothing = never.
    pub kill_server: Option<Duration>,
    /// Row ids of the data.
    pub rows: u32,
    /// Bytes of a server's log from which it asks for a checkpoint.
    pub log_bytes_max: u64,
    /// Settings of the job, `section.key=value`.
    pub settings: Vec<String>,
}

/// What is seen between two points.
#[derive(Default)]
struct Seen {
    values: BTreeMap<(String, &'static str), Vec<f64>>,
}

/// A task that is killed now and then.
struct Victim {
    task: Task,
    period: Duration,
    next: Instant,
}

impl Seen {
    fn add(&mut self, of: impl ToString, what: &'static str, value: f64) {
        self.values
            .entry((of.to_string(), what))
            .or_default()
            .push(value);
    }
}

/// The value in the middle.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl Endurance {
    /// Runs the job, and brings it to an end at which every update is known. Everything lies in `folder` then.
    ///
    /// # Errors
    /// The cluster did not begin, a task has failed for good, or the job could not be brought to its end: why.
    pub fn run(
        &self,
        folder: &Path,
        told: &mut dyn FnMut(&str),
    ) -> Result<EnduranceReport, String> {
        let ledger = Ledger {
            rows: self.rows,
            epochs: Ledger::ENDLESS,
            batch_size: BATCH_SIZE,
            lanes: 1,
            servers: 1,
        };
        let mut tasks = self.start(folder, &ledger)?;
        let mut report = EnduranceReport {
            seed: self.seed,
            warm_up_hours: self.warm_up.as_secs_f64() / 3600.0,
            // One log is written while the one before it goes with the checkpoint that takes its place.
            log_bytes: (0, 2 * self.log_bytes_max),
            ..EnduranceReport::default()
        };
        self.watch(&mut tasks, &mut report, told)?;
        let model_dir = folder.join("model");
        told("the job is brought to its end");
        report.account = ledger.end(&mut tasks, END_TIMEOUT)?;
        told(&format!(
            "{:.1} MB of checkpoints are left",
            checkpoint_bytes(&model_dir) as f64 / 1e6
        ));
        Ok(report)
    }

    fn start(&self, folder: &Path, ledger: &Ledger) -> Result<Supervisor, String> {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text)
                .map(|()| path)
                .map_err(|error| format!("{name}: {error}"))
        };
        ledger.write_rows(&folder.join("rows.csv"));
        // These rows are beyond those of training.
        let rows = (self.rows..self.rows + EVAL_ROWS).map(|row| format!("{row}\n"));
        write(
            "eval.csv",
            format!("{}\n{}", clicks::ROW, rows.collect::<String>()),
        )?;
        let model_dir = folder.join("model");
        let job = clicks::job(
            ledger,
            &model_dir.to_string_lossy(),
            self.servers,
            self.log_bytes_max,
        );
        let job = write("job.toml", job)?;
        let counts = LocalCounts {
            ps: self.servers,
            workers: self.workers,
            evaluators: 1,
        };
        let mut tasks = Supervisor::new(&self.program, folder, &job, counts, &self.settings);
        tasks.start_all();
        let servers = tasks.of_role(Role::Ps);
        let until = Instant::now() + START_TIMEOUT;
        let pushes = |tasks: &Supervisor| {
            let pushes = servers
                .iter()
                .filter_map(|task| metric(tasks.admin(*task), "trainyard_ps_pushes_total"));
            pushes.sum::<f64>()
        };
        while pushes(&tasks) == 0.0 {
            if Instant::now() > until {
                return Err(format!(
                    "nothing was trained within {START_TIMEOUT:?}: {}",
                    tasks.last_lines()
                ));
            }
            tasks.look();
            failed(&tasks)?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(tasks)
    }

    /// Watches, and kills, for as long as it lasts.
    fn watch(
        &self,
        tasks: &mut Supervisor,
        report: &mut EnduranceReport,
        told: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let begun = Instant::now();
        let mut draw = Draw::new(self.seed);
        let mut victims = self.victims(tasks, &mut draw);
        let mut meter = Meter::default();
        let mut seen = Seen::default();
        let mut next_sample = begun;
        let mut next_point = begun + self.point;
        let mut trained = 0.0;
        while begun.elapsed() < self.length {
            tasks.look();
            failed(tasks)?;
            let now = Instant::now();
            for victim in victims.iter_mut().filter(|victim| victim.next <= now) {
                tasks.signal(victim.task, Signal::KILL);
                report.kills += 1;
                victim.next = now + wait(victim.period, &mut draw);
            }
            if now >= next_sample {
                next_sample += SAMPLE;
                self.sample(tasks, &mut meter, &mut seen, report);
            }
            if now >= next_point {
                next_point += self.point;
                let hours = begun.elapsed().as_secs_f64() / 3600.0;
                let (loss, slowest) = meter.minute();
                loss.into_iter()
                    .for_each(|loss| seen.add("training", "loss", loss));
                slowest
                    .into_iter()
                    .for_each(|seconds| seen.add("training", "99 % of steps within", seconds));
                let rate = (meter.examples_trained - trained) / self.point.as_secs_f64();
                trained = meter.examples_trained;
                told(&line(hours, &meter, rate, &seen));
                add_points(report, hours, std::mem::take(&mut seen));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        report.hours = begun.elapsed().as_secs_f64() / 3600.0;
        report.examples = meter.examples_trained;
        Ok(())
    }

    fn victims(&self, tasks: &Supervisor, draw: &mut Draw) -> Vec<Victim> {
        let now = Instant::now();
        let last = |role: Role| tasks.of_role(role).last().copied();
        let killed = [
            (last(Role::Worker), self.kill_worker),
            (last(Role::Ps), self.kill_server),
        ];
        let killed = killed
            .into_iter()
            .filter_map(|(task, period)| Some((task?, period?)));
        killed
            .map(|(task, period)| Victim {
                task,
                period,
                next: now + wait(period, draw),
            })
            .collect()
    }

    fn sample(
        &self,
        tasks: &Supervisor,
        meter: &mut Meter,
        seen: &mut Seen,
        report: &mut EnduranceReport,
    ) {
        meter.look(tasks);
        for task in tasks.tasks() {
            if let Some(usage) = tasks.id(task).and_then(Usage::of) {
                seen.add(task, "memory", usage.resident);
                seen.add(task, "open files", usage.files);
            }
        }
        let model_dir = tasks.folder().join("model");
        let mut logs = 0;
        for server in 0..self.servers {
            let log = model_dir.join("wal").join(format!("ps-{server}"));
            let segments = SegmentFile::all(&log).unwrap_or_default();
            let bytes: u64 = segments.iter().map(SegmentFile::bytes).sum();
            report.log_bytes.0 = report.log_bytes.0.max(bytes);
            logs += bytes;
        }
        seen.add("all servers", "log", logs as f64);
        seen.add(
            "all servers",
            "checkpoints",
            checkpoint_bytes(&model_dir) as f64,
        );
    }
}

/// From half the period to one and a half.
fn wait(period: Duration, draw: &mut Draw) -> Duration {
    period.mul_f64(0.5 + draw.fraction())
}

fn unit(what: &str) -> Unit {
    match what {
        "memory" => Unit::Memory,
        "open files" => Unit::Files,
        "loss" => Unit::Loss,
        "log" | "checkpoints" => Unit::Disk,
        _ => Unit::Seconds,
    }
}

/// Adds what was seen since the point before to each series.
fn add_points(report: &mut EnduranceReport, hours: f64, seen: Seen) {
    for ((of, what), mut values) in seen.values {
        let name = format!("{of}: {what}");
        let point = (hours, median(&mut values));
        match report.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => report.series.push(Series {
                name,
                unit: unit(what),
                points: vec![point],
            }),
        }
    }
}

/// Says in one line what was seen since the point before.
fn line(hours: f64, meter: &Meter, rate: f64, seen: &Seen) -> String {
    let mut line = format!(
        "{:6.1} min: {:.1} M examples, {rate:.0}/s",
        hours * 60.0,
        meter.examples_trained / 1e6
    );
    for ((of, what), values) in &seen.values {
        if *what != "open files" {
            let unit = unit(what);
            line.push_str(&format!(
                ", {of} {what} {}",
                unit.show(median(&mut values.clone()))
            ));
        }
    }
    line
}

fn failed(tasks: &Supervisor) -> Result<(), String> {
    match tasks.failed_for_good() {
        Some((task, code)) => Err(format!(
            "{task} has failed with code {code}: {}",
            tasks.last_lines()
        )),
        None => Ok(()),
    }
}
