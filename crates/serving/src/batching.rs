//! Batching: requests that wait are predicted together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use trainyard_diagnostic::Code;
use trainyard_input::{Batch, Cells};
use trainyard_model::Prediction;
use trainyard_predictor::{Predictor, Workspace};
use trainyard_runtime::blocking;

use crate::Error;
use crate::telemetry::VersionTelemetry;

/// Time in which a prediction must be made, from the arrival of its request.
const PREDICTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of texts in a batch of several requests. A column of texts holds under 4 GiB.
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
    /// Bytes of its texts.
    bytes: usize,
    answer: oneshot::Sender<Result<Predictions, Error>>,
}

/// The queue of one version of a model. Its task ends after the last handle is dropped and all requests are answered.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    sender: mpsc::Sender<Waiting>,
    bound: usize,
    telemetry: Arc<VersionTelemetry>,
}

impl Queue {
    /// Starts the queue of a predictor. A permit of `threads` is a thread that predicts.
    pub(crate) fn start(
        predictor: Arc<Predictor>,
        limits: BatchLimits,
        threads: Arc<Semaphore>,
        telemetry: Arc<VersionTelemetry>,
    ) -> Self {
        let bound = limits.queue_requests_max.max(1);
        let (sender, receiver) = mpsc::channel(bound);
        let task = Batcher {
            predictor,
            limits,
            threads,
            receiver,
            held: None,
            workspaces: Arc::default(),
            telemetry: Arc::clone(&telemetry),
        };
        tokio::spawn(task.run());
        Self {
            sender,
            bound,
            telemetry,
        }
    }

    /// Predicts a batch, perhaps together with others.
    ///
    /// # Errors
    /// The queue is full, a value cannot be used, or the prediction is late.
    pub(crate) async fn predict(&self, batch: Batch) -> Result<Predictions, Error> {
        if batch.rows == 0 {
            return Ok(Vec::new());
        }
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            bytes: text_bytes(&batch),
            batch,
            answer,
        };
        self.sender.try_send(waiting).map_err(|_| Error::Busy {
            waiting: self.bound,
        })?;
        let _counted = Counted::new(&self.telemetry);
        match timeout(PREDICTION_TIMEOUT, answered).await {
            Ok(Ok(predictions)) => predictions,
            Ok(Err(_)) => Err(Error::Fault("the prediction has failed".to_owned())),
            Err(_) => Err(Error::Late {
                secs: PREDICTION_TIMEOUT.as_secs(),
            }),
        }
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

/// The task that makes batches of the requests of a queue.
struct Batcher {
    predictor: Arc<Predictor>,
    limits: BatchLimits,
    threads: Arc<Semaphore>,
    receiver: mpsc::Receiver<Waiting>,
    /// A request that did not fit into the last batch.
    held: Option<Waiting>,
    workspaces: Arc<Mutex<Vec<Workspace>>>,
    telemetry: Arc<VersionTelemetry>,
}

impl Batcher {
    async fn run(mut self) {
        loop {
            let first = match self.held.take() {
                Some(held) => held,
                None => match self.receiver.recv().await {
                    Some(first) => first,
                    None => return,
                },
            };
            // Requests gather while all threads are busy.
            let Ok(permit) = Arc::clone(&self.threads).acquire_owned().await else {
                return;
            };
            let requests = self.gather(first).await;
            self.predict(requests, permit);
        }
    }

    /// Returns the first request, and those that share its batch.
    async fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let most = self.limits.batch_size_max.max(1);
        let deadline = Instant::now() + self.limits.batch_delay_max;
        let mut rows = first.batch.rows;
        let mut bytes = first.bytes;
        let mut requests = vec![first];
        while rows < most {
            let next = match self.receiver.try_recv() {
                Ok(next) => Some(next),
                Err(_) if self.limits.batch_delay_max.is_zero() => None,
                Err(_) => timeout_at(deadline, self.receiver.recv())
                    .await
                    .ok()
                    .flatten(),
            };
            let Some(next) = next else { break };
            if next.answer.is_closed() {
                continue;
            }
            if rows + next.batch.rows > most || bytes + next.bytes > BATCH_BYTES_MAX {
                self.held = Some(next);
                break;
            }
            rows += next.batch.rows;
            bytes += next.bytes;
            requests.push(next);
        }
        requests
    }

    /// Predicts requests on a thread, and answers them.
    fn predict(&self, requests: Vec<Waiting>, permit: OwnedSemaphorePermit) {
        let predictor = Arc::clone(&self.predictor);
        let workspaces = Arc::clone(&self.workspaces);
        let rows: usize = requests.iter().map(|request| request.batch.rows).sum();
        self.telemetry.batch_rows.record(rows as f64);
        drop(blocking(move || {
            let mut workspace = workspaces.lock().pop().unwrap_or_default();
            answer(&predictor, requests, &mut workspace);
            workspaces.lock().push(workspace);
            drop(permit);
        }));
    }
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
                drop(request.answer.send(Ok(rows)));
            }
            return;
        }
    }
    for request in requests.drain(..) {
        let predictions = predict_one(predictor, &request.batch, workspace);
        drop(request.answer.send(predictions));
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
