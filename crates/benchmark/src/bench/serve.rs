//! `trainyard bench serve`: requests for predictions by a rate, or as fast as they are answered.

mod connection;
mod load;
mod requests;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use trainyard_command::{Format, print};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::Build;

use super::arguments::{BenchServe, ServeProtocol};
use super::conditions::Conditions;
use connection::Target;
use load::{Load, Measured};
use requests::Body;

/// Result of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Figures {
    conditions: Conditions,
    protocol: &'static str,
    rows_per_request: usize,
    connections: usize,
    /// Requests that were to begin in a second; absent = as many as were answered.
    rate: Option<f64>,
    /// Length of the measurement.
    seconds: f64,
    answered: u64,
    answered_per_second: f64,
    rows_per_second: f64,
    /// Time from the intended start of a request to its answer.
    latency_ms: Quantiles,
    /// Requests that the server refused because too many waited.
    refused: u64,
    /// Time from the sending of a refused request to its refusal.
    refusal_ms: Quantiles,
    /// Requests with any other end.
    failed: u64,
    /// The last reason of a failure.
    failure: Option<String>,
    /// Requests that should have begun, and did not because all connections waited.
    unsent: u64,
}

/// Quantiles of times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    p999: f64,
    most: f64,
}

impl Quantiles {
    /// Returns the quantiles of times in microseconds, in any order. Without times, they are 0.
    fn of(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        let Some(last) = times.len().checked_sub(1) else {
            return Self::default();
        };
        let at = |share: f64| f64::from(times[(last as f64 * share).round() as usize]) / 1e3;
        Self {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            most: at(1.0),
        }
    }

    fn text(self) -> String {
        let Self {
            p50,
            p99,
            p999,
            most,
        } = self;
        format!("p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms, most {most:.2} ms")
    }
}

/// Sends requests to a server, and prints how it answers.
pub(super) fn bench(arguments: &BenchServe, build: Build) -> Result<(), Vec<Diagnostic>> {
    let one = |problem: Diagnostic| vec![problem];
    let name = arguments.model.clone().unwrap_or_else(|| {
        let stem = arguments.job.job.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    });
    let target = Target {
        address: arguments.server.clone(),
        model: name,
        protocol: arguments.protocol,
    };
    let requests = match &arguments.requests {
        Some(file) => given(&target, file).map_err(one)?,
        None => of_job(&target, arguments, build)?,
    };
    let load = Load {
        target,
        requests,
        connections: arguments.connections,
        rate: arguments.rate,
        warmup: Duration::from_secs_f64(arguments.warmup),
        length: Duration::from_secs_f64(arguments.seconds),
    };
    let measured = load.run().map_err(one)?;
    if measured.answered_us.is_empty() && measured.refused_us.is_empty() {
        let reason = measured
            .failure
            .unwrap_or_else(|| "no request ended".to_owned());
        let message = format!("{} has answered nothing: {reason}", arguments.server);
        let help = "start `trainyard serve JOB.toml`, and give its address as --server";
        return Err(one(Diagnostic::error(Code::E2003, message).help(help)));
    }
    let figures = figures(arguments, measured);
    let text = match arguments.format {
        Format::Json => {
            let text = serde_json::to_string(&figures).expect("figures are plain values");
            format!("{text}\n")
        }
        Format::Text => figures.text(),
    };
    print(&text).map_err(one)
}

/// Returns requests with the records of a job.
fn of_job(
    target: &Target,
    arguments: &BenchServe,
    build: Build,
) -> Result<Vec<Bytes>, Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let work = || -> Result<Vec<Bytes>, Diagnostic> {
        let model = build(&job)?;
        let records = requests::records(&job, &*model, arguments.rows)?;
        let request = |batch| target.request(&requests::tensors(batch, &*model)?);
        records.iter().map(request).collect()
    };
    work().map_err(|problem| vec![problem])
}

/// Returns the requests of a file.
fn given(target: &Target, file: &Path) -> Result<Vec<Bytes>, Diagnostic> {
    let refuse = |reason: String| {
        let message = format!("requests of {}: {reason}", file.display());
        Diagnostic::error(Code::E1201, message)
    };
    if target.protocol != ServeProtocol::HttpJson {
        return Err(refuse("they are JSON".to_owned()).help("add --protocol http-json"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    let lines = text.lines().filter(|line| !line.is_empty());
    let requests: Vec<Bytes> = lines
        .map(|line| target.http_request(&Body::json(line.to_owned())))
        .collect();
    if requests.is_empty() {
        return Err(refuse(
            "expected a body in each line, found none".to_owned(),
        ));
    }
    Ok(requests)
}

fn figures(arguments: &BenchServe, measured: Measured) -> Figures {
    let answered = measured.answered_us.len() as u64;
    let refused = measured.refused_us.len() as u64;
    let answered_per_second = answered as f64 / arguments.seconds;
    let wanted = arguments.rate.map(|rate| (rate * arguments.seconds) as u64);
    let begun = answered + refused + measured.failed;
    Figures {
        conditions: Conditions::of_one_process(),
        protocol: arguments.protocol.name(),
        rows_per_request: arguments.rows,
        connections: arguments.connections,
        rate: arguments.rate,
        seconds: arguments.seconds,
        answered,
        answered_per_second,
        rows_per_second: answered_per_second * arguments.rows as f64,
        latency_ms: Quantiles::of(measured.answered_us),
        refused,
        refusal_ms: Quantiles::of(measured.refused_us),
        failed: measured.failed,
        failure: measured.failure,
        unsent: wanted.map_or(0, |wanted| wanted.saturating_sub(begun)),
    }
}

impl Figures {
    fn text(&self) -> String {
        let mut text = self.conditions.text();
        let load = match self.rate {
            Some(rate) => format!("{rate:.0} requests/s"),
            None => "a request after each answer".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "load              {load} of {} rows over {}, {} connections, {:.0} s",
            self.rows_per_request, self.protocol, self.connections, self.seconds
        );
        let _ = writeln!(
            text,
            "answered          {:.0} requests/s, {:.0} rows/s",
            self.answered_per_second, self.rows_per_second
        );
        let _ = writeln!(text, "latency           {}", self.latency_ms.text());
        if self.refused > 0 {
            let _ = writeln!(
                text,
                "refused           {}: {}",
                self.refused,
                self.refusal_ms.text()
            );
        }
        if let Some(reason) = &self.failure {
            let _ = writeln!(text, "failed            {}: {reason}", self.failed);
        }
        if self.unsent > 0 {
            let _ = writeln!(
                text,
                "not sent          {}: all connections waited for answers",
                self.unsent
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let times: Vec<u32> = (0..=1000).rev().map(|place| place * 1000).collect();
        let quantiles = Quantiles::of(times);
        assert_eq!(quantiles.p50, 500.0);
        assert_eq!(quantiles.p99, 990.0);
        assert_eq!(quantiles.p999, 999.0);
        assert_eq!(quantiles.most, 1000.0);
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
    }
}
