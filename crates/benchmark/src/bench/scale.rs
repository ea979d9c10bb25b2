//! `trainyard bench scale`: rate of steps by number of workers.

use serde::Serialize;
use serde_json::json;
use trainyard_command::{Format, print};
use trainyard_diagnostic::Diagnostic;

use super::arguments::{BenchPs, BenchScale};
use super::conditions::{Conditions, TCP};
use super::{parameter_server, traffic::Traffic};

/// Result with one number of workers.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Point {
    workers: usize,
    /// Steps of all workers together a second.
    steps_per_second: f64,
    /// Measured rate divided by the linear rate. The linear rate is that of one worker of the first point, times the
    /// workers.
    share_of_linear: f64,
    /// Processors that the busiest server kept busy.
    busiest_ps_cores: f64,
    /// Processors that all workers kept busy. Near the processors of the machine, the workers are the bottleneck.
    worker_cores: f64,
    /// Median time that a step waited for the servers.
    p50_ms: f64,
    p99_ms: f64,
}

impl Point {
    /// Makes a point. `first` is the point with the fewest workers; it is absent for that point itself.
    fn new(traffic: &Traffic, first: Option<&Self>) -> Self {
        let workers = traffic.workers;
        let rate = traffic.steps_per_second;
        let linear = first.map_or(rate, |first| first.rate_of_a_worker() * workers as f64);
        Self {
            workers,
            steps_per_second: rate,
            share_of_linear: rate / linear.max(1e-9),
            busiest_ps_cores: traffic.busiest_ps_cores,
            worker_cores: traffic.worker_cores,
            p50_ms: traffic.p50_ms,
            p99_ms: traffic.p99_ms,
        }
    }

    fn rate_of_a_worker(&self) -> f64 {
        self.steps_per_second / self.workers as f64
    }

    fn line(&self) -> String {
        format!(
            "{:7}  {:14.1}  {:7.0} %  {:16.2}  {:13.2}  {:6.1}  {:6.1}\n",
            self.workers,
            self.steps_per_second,
            self.share_of_linear * 100.0,
            self.busiest_ps_cores,
            self.worker_cores,
            self.p50_ms,
            self.p99_ms
        )
    }
}

/// Header of the table. `p50` and `p99` are the time that a step waited for the servers.
const HEADER: &str =
    "workers  global steps/s  of linear  busiest ps cores  workers cores  p50 ms  p99 ms\n";

/// Measures each number of workers in turn, and prints a table.
pub(super) fn bench(arguments: &BenchScale) -> Result<(), Diagnostic> {
    let mut counts = arguments.workers.clone();
    counts.sort_unstable();
    counts.dedup();
    let conditions = conditions(arguments);
    let text = arguments.format == Format::Text;
    if text {
        print(&format!("{conditions}\n\n{HEADER}"))?;
    }
    let mut points: Vec<Point> = Vec::new();
    for workers in counts {
        let traffic = parameter_server::measure(&load(arguments, workers))?;
        let point = Point::new(&traffic, points.first());
        if text {
            // Each row is printed as soon as it is known, because the whole benchmark takes long.
            print(&point.line())?;
        }
        points.push(point);
    }
    if text {
        print(
            "\nof linear: by the rate of one worker times their number. p50, p99: what a step waited for the servers.\n",
        )?;
    } else {
        print(&format!(
            "{}\n",
            json!({"conditions": conditions, "ps": arguments.ps, "points": points})
        ))?;
    }
    Ok(())
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

/// Returns the conditions of the measurement in one line.
fn conditions(arguments: &BenchScale) -> String {
    let here = Conditions::of_servers(arguments.durability, TCP);
    let servers = if arguments.ps == 1 {
        "parameter server"
    } else {
        "parameter servers"
    };
    format!(
        "{} {servers}; a step: {} dense values, {} rows of {}, {} ms of computing; durability {}, {TCP}; all on {} \
         cores of {}, {}",
        arguments.ps,
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

    fn point(workers: usize, steps_per_second: f64, share_of_linear: f64) -> Point {
        Point {
            workers,
            steps_per_second,
            share_of_linear,
            busiest_ps_cores: 0.5,
            worker_cores: 0.25,
            p50_ms: 1.0,
            p99_ms: 2.0,
        }
    }

    #[test]
    fn a_row_stands_under_its_header() {
        let line = point(64, 608.04, 0.5).line();
        assert_eq!(line.len(), HEADER.len(), "{HEADER}{line}");
        let ends = |text: &str, word: &str| text.find(word).map(|start| start + word.len());
        for (title, value) in [
            ("workers", "64"),
            ("steps/s", "608.0"),
            ("of linear", "50 %"),
            ("ps cores", "0.50"),
            ("workers cores", "0.25"),
            ("p99 ms", "2.0"),
        ] {
            assert_eq!(
                ends(HEADER, title),
                ends(&line, value),
                "{title}\n{HEADER}{line}"
            );
        }
    }
}
