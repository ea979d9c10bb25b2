//! Load on a server of predictions: a thread for each connection, which sends a request and waits for its answer.
//!
//! By a rate, the start of each request is known beforehand, and its latency counts from there: a server that stops for a
//! second delays all requests of that second, and not only those that it has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use trainyard_diagnostic::{Code, Diagnostic};

use super::connection::{Connection, Ending, Target};

/// Time between the start of the threads and the first request.
const START_DELAY: Duration = Duration::from_millis(200);

/// Longest delay of a request whose connection waited for the answer before. A request that is later is not sent.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// Delay before a lost connection is made again.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Stack of a thread, in bytes. There may be thousands.
const STACK_BYTES: usize = 256 << 10;

/// The load.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) target: Target,
    /// Requests, which are sent in turn.
    pub(super) requests: Vec<Bytes>,
    pub(super) connections: usize,
    /// Requests that begin in a second; absent = one after each answer.
    pub(super) rate: Option<f64>,
    /// Time before the measurement.
    pub(super) warmup: Duration,
    /// Length of the measurement.
    pub(super) length: Duration,
}

/// Times and ends of the requests of a measurement.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// From the intended start to the answer, in microseconds.
    pub(super) answered_us: Vec<u32>,
    /// From the sending to the refusal, in microseconds.
    pub(super) refused_us: Vec<u32>,
    pub(super) failed: u64,
    /// The last reason of a failure.
    pub(super) failure: Option<String>,
}

impl Load {
    /// Runs the load to its end.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn run(&self) -> Result<Measured, Diagnostic> {
        let next = AtomicU64::new(0);
        let began = Instant::now() + START_DELAY;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..self.connections {
                let builder = thread::Builder::new().stack_size(STACK_BYTES);
                let started = builder.spawn_scoped(scope, || self.send(&next, began));
                threads.push(started.map_err(|error| {
                    let message = format!("a thread for a connection cannot be started: {error}");
                    Diagnostic::error(Code::E9002, message).help("lower --connections")
                })?);
            }
            let mut all = Measured::default();
            for thread in threads {
                all.add(thread.join().expect("a thread of the load does not panic"));
            }
            Ok(all)
        })
    }

    /// Sends requests over one connection.
    fn send(&self, next: &AtomicU64, began: Instant) -> Measured {
        let measured_from = began + self.warmup;
        let end = measured_from + self.length;
        let mut measured = Measured::default();
        let mut connection = None;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let start = match self.rate {
                Some(rate) => began + Duration::from_secs_f64(number as f64 / rate),
                None => Instant::now().max(began),
            };
            thread::sleep(start.saturating_duration_since(Instant::now()));
            let sent = Instant::now();
            if start >= end || sent >= end {
                return measured;
            }
            if sent > start + DELAY_MAX {
                continue;
            }
            let request = &self.requests[number as usize % self.requests.len()];
            let ending = self.call(&mut connection, request);
            if start < measured_from {
                continue;
            }
            match ending {
                Ending::Answered => measured.answered_us.push(micros(start.elapsed())),
                Ending::Refused => measured.refused_us.push(micros(sent.elapsed())),
                Ending::Failed(reason) => {
                    measured.failed += 1;
                    measured.failure = Some(reason);
                }
            }
        }
    }

    fn call(&self, connection: &mut Option<Connection>, request: &Bytes) -> Ending {
        let lost = |error: std::io::Error| {
            thread::sleep(RECONNECT_DELAY);
            Ending::Failed(error.to_string())
        };
        let open = match connection {
            Some(open) => open,
            None => match self.target.connect() {
                Ok(open) => connection.insert(open),
                Err(error) => return lost(error),
            },
        };
        open.call(request).unwrap_or_else(|error| {
            *connection = None;
            lost(error)
        })
    }
}

impl Measured {
    fn add(&mut self, other: Self) {
        self.answered_us.extend(other.answered_us);
        self.refused_us.extend(other.refused_us);
        self.failed += other.failed;
        self.failure = other.failure.or(self.failure.take());
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
