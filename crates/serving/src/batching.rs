//! Batching: requests that wait are predicted together.

mod pool;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tracing::warn;
use trainyard_diagnostic::Code;
use trainyard_input::{Batch, Cells};
use trainyard_model::Prediction;
use trainyard_predictor::{Predictor, Workspace, nonfinite};

pub(crate) use pool::Pool;

use crate::Error;
use crate::telemetry::VersionTelemetry;
use crate::unlisted::UnlistedValues;

/// Time in which a prediction must be made, from the arrival of its request.
const PREDICTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of texts, and of what the model makes of them, in a batch of several requests. A column of texts holds under 4 GiB.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Predictions of the rows of a request, by key.
pub(crate) type Predictions = Vec<BTreeMap<String, Prediction>>;

/// Bounds of batching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Most rows that are predicted together, at least 1. A request with more rows is predicted alone.
    pub batch_size_max: usize,
    /// Longest wait of a request for others to share its batch. Zero: only requests that wait anyway share one.
    pub batch_delay_max: Duration,
    /// Most requests that wait, at least 1.
    pub queue_requests_max: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            batch_size_max: 512,
            batch_delay_max: Duration::ZERO,
            queue_requests_max: 1024,
        }
    }
}

/// A request that waits.
#[derive(Debug)]
struct Waiting {
    batch: Batch,
    /// Bytes of its texts, and of what the model makes of its rows.
    bytes: usize,
    answer: oneshot::Sender<Result<Predictions, Error>>,
}

/// The queue of one version of a model. The threads of the pool answer its requests, also after the last handle is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    line: Arc<Line>,
    pool: Arc<Pool>,
}

/// The requests of a version that wait, and what answers them.
struct Line {
    predictor: Arc<Predictor>,
    limits: BatchLimits,
    telemetry: Arc<VersionTelemetry>,
    requests: Mutex<VecDeque<Waiting>>,
    /// A request was added.
    added: Condvar,
    /// Buffers of threads that do not predict now.
    workspaces: Mutex<Vec<Workspace>>,
    unlisted: UnlistedValues,
}

impl fmt::Debug for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Line").finish_non_exhaustive()
    }
}

impl Queue {
    /// Returns the queue of a predictor.
    pub(crate) fn new(
        predictor: Arc<Predictor>,
        limits: BatchLimits,
        pool: Arc<Pool>,
        telemetry: Arc<VersionTelemetry>,
        unlisted: UnlistedValues,
    ) -> Self {
        let line = Line {
            predictor,
            limits,
            telemetry,
            requests: Mutex::default(),
            added: Condvar::new(),
            workspaces: Mutex::default(),
            unlisted,
        };
        Self {
            line: Arc::new(line),
            pool,
        }
    }

    /// Checks that the queue has room, so that a request is refused before it is parsed.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn check_room(&self) -> Result<(), Error> {
        self.line.check_room(&self.line.requests.lock())
    }

    /// Predicts a batch, of which the model makes so many further bytes, perhaps together with others.
    ///
    /// # Errors
    /// The queue is full, a value cannot be used, or the prediction is late.
    pub(crate) async fn predict(
        &self,
        batch: Batch,
        made_bytes: usize,
    ) -> Result<Predictions, Error> {
        if batch.rows == 0 {
            return Ok(Vec::new());
        }
        let (answer, answered) = oneshot::channel();
        self.line.add(Waiting {
            bytes: text_bytes(&batch).saturating_add(made_bytes),
            batch,
            answer,
        })?;
        let _counted = Counted::new(&self.line.telemetry);
        self.pool.turn(Arc::clone(&self.line));
        match timeout(PREDICTION_TIMEOUT, answered).await {
            Ok(Ok(predictions)) => predictions,
            Ok(Err(_)) => Err(Error::Fault("the prediction has failed".to_owned())),
            Err(_) => Err(Error::Late {
                secs: PREDICTION_TIMEOUT.as_secs(),
            }),
        }
    }
}

impl Line {
    /// Adds a request.
    ///
    /// # Errors
    /// The queue is full.
    fn add(&self, waiting: Waiting) -> Result<(), Error> {
        let mut requests = self.requests.lock();
        self.check_room(&requests)?;
        requests.push_back(waiting);
        drop(requests);
        self.added.notify_one();
        Ok(())
    }

    fn check_room(&self, requests: &VecDeque<Waiting>) -> Result<(), Error> {
        let bound = self.limits.queue_requests_max.max(1);
        if requests.len() >= bound {
            return Err(Error::Busy { waiting: bound });
        }
        Ok(())
    }

    /// Answers the requests that wait, as far as they fit into one batch.
    fn answer_batch(&self) {
        let requests = self.gather();
        if requests.is_empty() {
            return;
        }
        let rows: usize = requests.iter().map(|request| request.batch.rows).sum();
        self.telemetry.batch_rows.record(rows as f64);
        for request in &requests {
            if let Some(told) = self.unlisted.see(&request.batch) {
                warn!(model = %self.telemetry.model, "{told}");
            }
        }
        let mut workspace = self.workspaces.lock().pop().unwrap_or_default();
        answer(&self.predictor, requests, &mut workspace);
        self.workspaces.lock().push(workspace);
    }

    /// Takes requests that share a batch, and waits for further ones if the configuration says so.
    fn gather(&self) -> Vec<Waiting> {
        let most = self.limits.batch_size_max.max(1);
        let deadline = Instant::now() + self.limits.batch_delay_max;
        let mut rows = 0;
        let mut bytes = 0;
        let mut gathered: Vec<Waiting> = Vec::new();
        let mut requests = self.requests.lock();
        while rows < most {
            let Some(next) = requests.pop_front() else {
                let left = deadline.saturating_duration_since(Instant::now());
                // Without a request, an earlier turn has answered the one of this turn.
                if gathered.is_empty() || left.is_zero() {
                    break;
                }
                self.added.wait_for(&mut requests, left);
                continue;
            };
            if next.answer.is_closed() {
                continue;
            }
            let fits = rows + next.batch.rows <= most && bytes + next.bytes <= BATCH_BYTES_MAX;
            if !gathered.is_empty() && !fits {
                requests.push_front(next);
                break;
            }
            rows += next.batch.rows;
            bytes += next.bytes;
            gathered.push(next);
        }
        gathered
    }
}

/// A request that is counted as waiting until it is dropped: its client may go before the answer.
struct Counted<'a>(&'a VersionTelemetry);

impl<'a> Counted<'a> {
    fn new(telemetry: &'a VersionTelemetry) -> Self {
        telemetry.queue.increment(1.0);
        Self(telemetry)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.queue.decrement(1.0);
    }
}

fn text_bytes(batch: &Batch) -> usize {
    let columns = batch.columns.iter();
    let bytes = columns.map(|column| match &column.cells {
        Cells::Bytes(texts) => texts.data.len(),
        Cells::Float(_) | Cells::Int(_) => 0,
    });
    bytes.sum()
}

/// Predicts requests together, and sends each its rows. If a value of one request cannot be used, each request is
/// predicted alone, so that the others are answered.
fn answer(predictor: &Predictor, mut requests: Vec<Waiting>, workspace: &mut Workspace) {
    if requests.len() > 1 {
        let mut all = requests[0].batch.clone();
        for request in &requests[1..] {
            all.extend(&request.batch);
        }
        if let Ok(predictions) = predict_one(predictor, &all, workspace) {
            let mut predictions = predictions.into_iter();
            for request in requests {
                let rows = predictions.by_ref().take(request.batch.rows).collect();
                // The client may have gone.
                drop(request.answer.send(finite(rows)));
            }
            return;
        }
    }
    for request in requests.drain(..) {
        let predictions = predict_one(predictor, &request.batch, workspace);
        drop(request.answer.send(predictions.and_then(finite)));
    }
}

/// Refuses predictions of which one is not finite: it is no result, and has no text in JSON.
fn finite(predictions: Predictions) -> Result<Predictions, Error> {
    let mut rows = predictions.iter().enumerate();
    match rows.find_map(|(row, prediction)| Some((row, nonfinite(prediction)?))) {
        Some((row, problem)) => Err(Error::Fault(format!(
            "row {}: {problem}. Its values are too large for the model, or parameters of the model are not finite",
            row + 1
        ))),
        None => Ok(predictions),
    }
}

fn predict_one(
    predictor: &Predictor,
    batch: &Batch,
    workspace: &mut Workspace,
) -> Result<Predictions, Error> {
    predictor
        .predict(batch, workspace)
        .map_err(|problem| match problem.code {
            Code::E4004 => Error::Request(problem.message),
            _ => Error::Fault(problem.message),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_batch_are_counted() {
        let mut texts = trainyard_input::Bytes::default();
        texts.push(b"four");
        texts.push(b"five!");
        let batch = Batch {
            rows: 2,
            columns: vec![
                trainyard_input::Column::bytes(texts),
                trainyard_input::Column::floats(vec![1.0, 2.0]),
            ],
            ..Batch::default()
        };
        assert_eq!(text_bytes(&batch), 9);
    }
}
