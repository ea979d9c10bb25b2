//! `trainyard bench scale`: rate by number of workers, of parameter servers alone or of the training of a job.

use std::path::Path;

use serde::Serialize;
use serde_json::json;
use trainyard_cluster_spec::Role;
use trainyard_command::{Format, RuntimeThreads, print, refuse_absent_folder};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::write_result;
use trainyard_run_config::{Job, StrategyKind};
use trainyard_trainer::check_cluster;

use super::arguments::{BenchPs, BenchScale, BenchTrain};
use super::conditions::{Conditions, TCP};
use super::curve::{Curve, svg};
use super::figures::Figures;
use super::{parameter_server, traffic::Traffic, train};

/// Share of linear from which nothing limits the rate.
const LINEAR_MIN: f64 = 0.95;
/// Share of cores, or of a server's threads, from which they are full.
const FULL_MIN: f64 = 0.9;

/// What keeps a rate below linear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Limit {
    /// The rate is linear.
    None,
    /// The processes keep all cores of the machine busy.
    Cores,
    /// Other processes keep the cores busy that these have not.
    Neighbours,
    /// The busiest parameter server keeps all of its threads busy.
    Server,
    /// Tasks wait: for each other, for the network or for a disk.
    Waiting,
}

impl Limit {
    fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Cores => "cores full",
            Self::Neighbours => "cores full by others",
            Self::Server => "server full",
            Self::Waiting => "waiting",
        }
    }
}

/// Measurement with one number of workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Measured {
    workers: usize,
    /// Steps of all workers together a second.
    steps_per_second: f64,
    /// Examples of all workers together a second; absent for a load without examples.
    examples_per_second: Option<f64>,
    /// Processor time of all processes for each step.
    cpu_ms_per_step: f64,
    /// Processors that all processes kept busy.
    cpu_cores: f64,
    /// Cores of the machine that had nothing to do, if the system says it.
    idle_cores: Option<f64>,
    /// Processors that the busiest server kept busy.
    busiest_ps_cores: f64,
    /// Threads of the runtime of a server.
    ps_threads: usize,
    /// Median time that a step waited for the servers; absent for a job.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

impl Measured {
    fn of_load(traffic: &Traffic, ps_threads: usize) -> Self {
        Self {
            workers: traffic.workers,
            steps_per_second: traffic.steps_per_second,
            examples_per_second: None,
            cpu_ms_per_step: traffic.cpu_ms_per_step,
            cpu_cores: traffic.cpu_ms_per_step * traffic.steps_per_second / 1e3,
            idle_cores: traffic.idle_cores,
            busiest_ps_cores: traffic.busiest_ps_cores,
            ps_threads,
            p50_ms: Some(traffic.p50_ms),
            p99_ms: Some(traffic.p99_ms),
        }
    }

    fn of_job(workers: usize, figures: &Figures, ps_threads: usize) -> Self {
        let servers = figures.roles.get(Role::Ps.as_str());
        Self {
            workers,
            steps_per_second: figures.steps_per_second,
            examples_per_second: Some(figures.examples_per_second),
            cpu_ms_per_step: figures.cpu_ms_per_step,
            cpu_cores: figures.cpu_cores,
            idle_cores: figures.idle_cores,
            busiest_ps_cores: servers.map_or(0.0, |servers| servers.busiest_cores),
            ps_threads,
            p50_ms: None,
            p99_ms: None,
        }
    }

    fn rate(&self) -> f64 {
        self.examples_per_second.unwrap_or(self.steps_per_second)
    }

    /// Returns the rate of so many workers that each are as fast as one of these.
    fn linear(&self, workers: usize) -> f64 {
        self.rate() / self.workers as f64 * workers as f64
    }
}

/// Result with one number of workers.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Point {
    #[serde(flatten)]
    measured: Measured,
    /// Measured rate divided by the linear rate. The linear rate is that of one worker of the first point, times the
    /// workers.
    share_of_linear: f64,
    limit: Limit,
}

impl Point {
    /// Makes a point. `first` is the measurement with the fewest workers.
    fn new(measured: Measured, first: &Measured, cores: usize) -> Self {
        let share_of_linear = measured.rate() / first.linear(measured.workers).max(1e-9);
        let limit = if share_of_linear >= LINEAR_MIN {
            Limit::None
        } else if measured.cpu_cores >= FULL_MIN * cores as f64 {
            Limit::Cores
        } else if measured
            .idle_cores
            .is_some_and(|idle| idle <= (1.0 - FULL_MIN) * cores as f64)
        {
            Limit::Neighbours
        } else if measured.busiest_ps_cores >= FULL_MIN * measured.ps_threads.max(1) as f64 {
            Limit::Server
        } else {
            Limit::Waiting
        };
        Self {
            measured,
            share_of_linear,
            limit,
        }
    }

    fn line(&self) -> String {
        let found = &self.measured;
        let given = |number: Option<f64>, digits: usize| {
            number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
        };
        format!(
            "{:7}  {:14.1}  {:>10}  {:7.0} %  {:11.3}  {:10.2}  {:16.2}  {:>6}  {:>6}  {}\n",
            found.workers,
            found.steps_per_second,
            given(found.examples_per_second, 0),
            self.share_of_linear * 100.0,
            found.cpu_ms_per_step,
            found.cpu_cores,
            found.busiest_ps_cores,
            given(found.p50_ms, 1),
            given(found.p99_ms, 1),
            self.limit.text()
        )
    }
}

/// Header of the table. `p50` and `p99` are the time that a step waited for the servers.
const HEADER: &str = "workers  global steps/s  examples/s  of linear  CPU ms/step  cores busy  busiest ps cores  p50 ms  p99 ms  limit\n";

/// What stands below the table.
const LEGEND: &str = "\nof linear: by the rate of one worker times their number. p50, p99: what a step waited for the servers. limit: \
                      cores full (all cores are busy; by others: with other work), server full (a server has no thread left), waiting (for each other, the network or a disk).\n";

/// Measures each number of workers in turn, and prints a table.
pub(super) fn bench(arguments: &BenchScale) -> Result<(), Vec<Diagnostic>> {
    match &arguments.train {
        None => {
            let counts = counts(arguments, 64);
            let title = conditions(arguments);
            bench_each(arguments, &counts, &title, |workers| {
                let load = load(arguments, workers);
                let threads = parameter_server::runtime_threads(&load).of(Role::Ps);
                let traffic = parameter_server::measure(&load).map_err(|problem| vec![problem])?;
                Ok(Measured::of_load(&traffic, threads))
            })
        }
        Some(path) => {
            let job = Job::load(path, &arguments.set)?;
            let here = Conditions::of_one_process();
            let counts = counts(arguments, here.cores);
            let servers = match job.strategy.kind {
                StrategyKind::MultiWorkerMirrored => 0,
                _ => arguments.ps,
            };
            check_cluster(&job, servers).map_err(|problem| vec![problem])?;
            let title = format!(
                "{}, batches of {}, {}; all on {} cores of {}, {}",
                path.display(),
                job.input.train.batch_size,
                counted(servers),
                here.cores,
                here.processor,
                here.vectors
            );
            bench_each(arguments, &counts, &title, |workers| {
                let (cluster, tasks) = cluster(&job, servers, workers);
                let threads = RuntimeThreads::shared_by(tasks, servers).of(Role::Ps);
                let report = train::measure(&training(arguments, path, cluster))?;
                Ok(Measured::of_job(workers, &report.figures, threads))
            })
        }
    }
}

fn bench_each(
    arguments: &BenchScale,
    counts: &[usize],
    title: &str,
    mut measure: impl FnMut(usize) -> Result<Measured, Vec<Diagnostic>>,
) -> Result<(), Vec<Diagnostic>> {
    let one = |problem: Diagnostic| vec![problem];
    // Before the measurement, which takes long.
    if let Some(path) = &arguments.plot {
        refuse_absent_folder(path).map_err(one)?;
        if path.symlink_metadata().is_ok() {
            let message = format!(
                "--plot {}: there is a file or link of that name",
                path.display()
            );
            let problem = Diagnostic::error(Code::E1000, message);
            return Err(one(problem.help("name a new file, or remove that one")));
        }
    }
    let cores = Conditions::of_one_process().cores;
    let text = arguments.format == Format::Text;
    if text {
        print(&format!("{title}\n\n{HEADER}")).map_err(one)?;
    }
    let mut points: Vec<Point> = Vec::new();
    for workers in counts {
        let measured = measure(*workers)?;
        let first = points.first().map_or(measured, |first| first.measured);
        let point = Point::new(measured, &first, cores);
        if text {
            // Each row is printed as soon as it is known, because the whole benchmark takes long.
            print(&point.line()).map_err(one)?;
        }
        points.push(point);
    }
    if text {
        print(LEGEND).map_err(one)?;
    } else {
        let found = json!({"conditions": title, "ps": arguments.ps, "points": points});
        print(&format!("{found}\n")).map_err(one)?;
    }
    let Some(path) = &arguments.plot else {
        return Ok(());
    };
    let curve = Curve {
        title,
        unit: if arguments.train.is_some() {
            "examples/s"
        } else {
            "steps/s"
        },
        points: points
            .iter()
            .map(|point| {
                let found = &point.measured;
                (found.workers, found.rate(), point.limit.text())
            })
            .collect(),
        linear: points.first().map_or(0.0, |first| first.measured.linear(1)),
    };
    write_result(path, svg(&curve).as_bytes()).map_err(one)
}

/// Returns the numbers of workers to measure, ascending: as given, or powers of two up to `most`.
fn counts(arguments: &BenchScale, most: usize) -> Vec<usize> {
    let powers = || {
        std::iter::successors(Some(1), |count| Some(count * 2))
            .take_while(|count| *count <= most)
            .collect()
    };
    let mut counts = arguments.workers.clone().unwrap_or_else(powers);
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Returns the cluster in which so many tasks train, and the number of its tasks.
fn cluster(job: &Job, servers: usize, trainers: usize) -> (String, usize) {
    let workers = trainers - usize::from(job.strategy.chief_trains);
    let text = format!("local:ps={servers},worker={workers}");
    (text, servers + workers + 1)
}

/// Returns the arguments of the training of a job on a cluster.
fn training(arguments: &BenchScale, job: &Path, cluster: String) -> BenchTrain {
    BenchTrain {
        job: job.to_owned(),
        cluster,
        seconds: arguments.seconds,
        warmup: arguments.warmup,
        set: arguments.set.clone(),
        log_level: "warn".to_owned(),
        format: arguments.format,
    }
}

/// Returns the arguments of the load with this number of workers.
fn load(arguments: &BenchScale, workers: usize) -> BenchPs {
    BenchPs {
        dense: arguments.dense,
        rows: arguments.rows,
        tables: 1,
        table_rows: arguments.table_rows,
        dim: arguments.dim,
        workers,
        workers_per_process: arguments.workers_per_process,
        compute_ms: arguments.compute_ms,
        pipeline_depth: 0,
        unix_sockets: false,
        payload: trainyard_run_config::Encoding::Float32,
        durability: arguments.durability,
        zipf: None,
        slow_ps_ms: None,
        kill_every: None,
        ps: arguments.ps,
        seconds: arguments.seconds,
        format: arguments.format,
    }
}

/// Returns the number of servers in words.
fn counted(servers: usize) -> String {
    match servers {
        0 => "no parameter server".to_owned(),
        1 => "1 parameter server".to_owned(),
        count => format!("{count} parameter servers"),
    }
}

/// Returns the conditions of the measurement in one line.
fn conditions(arguments: &BenchScale) -> String {
    let here = Conditions::of_servers(arguments.durability, TCP);
    format!(
        "{}; a step: {} dense values, {} rows of {}, {} ms of computing; durability {}, {TCP}; all on {} \
         cores of {}, {}",
        counted(arguments.ps),
        arguments.dense,
        arguments.rows,
        arguments.dim,
        arguments.compute_ms,
        arguments.durability.name(),
        here.cores,
        here.processor,
        here.vectors
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(workers: usize, steps_per_second: f64) -> Measured {
        Measured {
            workers,
            steps_per_second,
            cpu_ms_per_step: 1.5,
            cpu_cores: 4.0,
            busiest_ps_cores: 0.5,
            ps_threads: 2,
            ..Measured::default()
        }
    }

    #[test]
    fn a_row_stands_under_its_header() {
        let first = measured(1, 19.001);
        let line = |found: Measured| Point::new(found, &first, 16).line();
        let of_job = line(Measured {
            examples_per_second: Some(608.0),
            ..measured(64, 608.04)
        });
        let of_load = line(Measured {
            p50_ms: Some(1.0),
            p99_ms: Some(2.0),
            ..measured(64, 608.04)
        });
        let ends = |text: &str, word: &str| text.find(word).map(|start| start + word.len());
        for (title, value, line) in [
            ("workers", "64", &of_job),
            ("steps/s", "608.0", &of_job),
            ("examples/s", "608  ", &of_job),
            ("of linear", "50 %", &of_job),
            ("CPU ms/step", "1.500", &of_job),
            ("cores busy", "4.00", &of_job),
            ("ps cores", "0.50", &of_job),
            ("p50 ms", "1.0 ", &of_load),
            ("p99 ms", "2.0 ", &of_load),
        ] {
            let end = ends(line, value).map(|end| end - (value.len() - value.trim_end().len()));
            assert_eq!(ends(HEADER, title), end, "{title}\n{HEADER}{line}");
        }
        assert!(of_job.ends_with("waiting\n"), "{of_job}");
    }

    #[test]
    fn a_point_says_what_keeps_it_below_linear() {
        let first = measured(1, 100.0);
        for (found, expected) in [
            (measured(1, 100.0), Limit::None),
            (measured(8, 770.0), Limit::None),
            (measured(8, 700.0), Limit::Waiting),
            (
                Measured {
                    cpu_cores: 14.5,
                    busiest_ps_cores: 1.9,
                    ..measured(8, 700.0)
                },
                Limit::Cores,
            ),
            (
                Measured {
                    idle_cores: Some(1.0),
                    busiest_ps_cores: 1.9,
                    ..measured(8, 700.0)
                },
                Limit::Neighbours,
            ),
            (
                Measured {
                    idle_cores: Some(9.0),
                    busiest_ps_cores: 1.9,
                    ..measured(8, 700.0)
                },
                Limit::Server,
            ),
        ] {
            let point = Point::new(found, &first, 16);
            assert_eq!(point.limit, expected, "{point:?}");
        }
    }

    #[test]
    fn linear_is_counted_in_examples_where_there_are_some() {
        let job = |workers, steps, examples| Measured {
            examples_per_second: Some(examples),
            ..measured(workers, steps)
        };
        // A synchronous step of two workers is one step of twice the examples.
        let point = Point::new(job(2, 100.0, 25600.0), &job(1, 100.0, 12800.0), 16);
        assert!((point.share_of_linear - 1.0).abs() < 1e-9, "{point:?}");
    }
}
