//! Polling of the evaluations while the chief watches the job. A poll runs in the background, because a bucket may take
//! seconds to answer.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_checkpoint::remove_after;
use trainyard_model_dir::Interval;
use trainyard_run_config::{EarlyStoppingConfig, Job};
use trainyard_runtime::blocking;

use super::{Chief, Run};
use crate::early_stopping::{Verdict, judge, values};
use trainyard_dashboard::evaluations;

/// Interval between polls of the evaluations.
const POLL_INTERVAL: Interval = Interval {
    folder: Duration::from_millis(500),
    bucket: Duration::from_secs(10),
};

/// Longest wait for the evaluations before a checkpoint is written.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

type Results = Result<Vec<Value>, trainyard_model_dir::Error>;

/// Polls the evaluations, and judges them.
pub(super) struct Evaluated {
    config: EarlyStoppingConfig,
    folder: PathBuf,
    interval: Duration,
    due: Instant,
    looking: Option<JoinHandle<Results>>,
    /// A problem has been logged. Only the first one is.
    is_told: bool,
    /// Verdict of the latest poll.
    pub(super) verdict: Verdict,
}

impl Evaluated {
    /// Returns the poller of the evaluations, if they may end the job early.
    pub(super) fn of(job: &Job) -> Option<Self> {
        let config = job.train.early_stopping.clone()?;
        let interval = POLL_INTERVAL.of(&job.model_dir);
        Some(Self {
            config,
            folder: job.model_dir.join("eval"),
            interval,
            due: Instant::now(),
            looking: None,
            is_told: false,
            verdict: Verdict::default(),
        })
    }

    /// Starts a poll that is due, and handles one that has finished. Never waits.
    pub(super) async fn poll(&mut self) {
        if self.looking.as_ref().is_some_and(JoinHandle::is_finished) {
            self.take_in().await;
        }
        if self.looking.is_none() && Instant::now() >= self.due {
            self.begin();
        }
    }

    /// Polls now, and waits for the result for a limited time. The chief calls it before it removes old checkpoints, so
    /// that it keeps the best one: a checkpoint that is being evaluated is kept until its result is written.
    pub(super) async fn look(&mut self) {
        let looks = async {
            self.take_in().await;
            self.begin();
            self.take_in().await;
        };
        if tokio::time::timeout(LOOK_TIMEOUT, looks).await.is_err() {
            self.warn_once(&format!(
                "the chief could not read the evaluations within {} s: early stopping waits",
                LOOK_TIMEOUT.as_secs()
            ));
        }
    }

    fn begin(&mut self) {
        let folder = self.folder.clone();
        self.looking = Some(blocking(move || evaluations(&folder)));
    }

    async fn take_in(&mut self) {
        if let Some(looking) = &mut self.looking {
            let seen = looking.await;
            self.looking = None;
            self.due = Instant::now() + self.interval;
            match seen {
                Ok(Ok(results)) => {
                    self.verdict = judge(&self.config, &values(&results, &self.config.metric));
                    self.warn_of_another_metric(&results);
                }
                Ok(Err(error)) => {
                    self.warn_once(&format!(
                        "the chief cannot read the evaluations for early stopping: {error}"
                    ));
                }
                Err(panic) => self.warn_once(&format!(
                    "reading the evaluations for early stopping has failed: {panic}"
                )),
            }
        }
    }

    fn warn_of_another_metric(&mut self, results: &[Value]) {
        let Some(metrics) = results
            .last()
            .and_then(|result| result["metrics"].as_object())
        else {
            return;
        };
        if !metrics.contains_key(&self.config.metric) {
            let known: Vec<&str> = metrics.keys().map(String::as_str).collect();
            self.warn_once(&format!(
                "early stopping never ends the job: train.early_stopping.metric is `{}`, and the \
                metrics of evaluations are {}",
                self.config.metric,
                known.join(", ")
            ));
        }
    }

    fn warn_once(&mut self, text: &str) {
        if !self.is_told {
            warn!("{text}");
        }
        self.is_told = true;
    }
}

impl Chief {
    /// Makes the best checkpoint the latest one: removes the later ones. Returns its step, `None` if it is absent or
    /// the removal failed.
    pub(super) async fn go_back_to_best(&self, run: &Run) -> Option<u64> {
        let best = run.evaluated.as_ref()?.verdict.best?;
        if !self.folder.is_own() {
            return None;
        }
        let model_dir = self.job.model_dir.clone();
        match blocking(move || remove_after(&model_dir, best.step)).await {
            Ok(Ok(Some(removed))) => {
                if !removed.is_empty() {
                    let steps: Vec<String> = removed.iter().map(u64::to_string).collect();
                    info!(
                        best = best.step,
                        removed = steps.join(", "),
                        "removed the checkpoints after the best checkpoint"
                    );
                }
                Some(best.step)
            }
            Ok(Ok(None)) => {
                warn!(
                    best = best.step,
                    "the best checkpoint does not exist any more: the job ends at its latest \
                    checkpoint"
                );
                None
            }
            Ok(Err(error)) => {
                warn!(best = best.step, %error, "the checkpoints after the best checkpoint could not be removed");
                None
            }
            Err(panic) => {
                warn!(best = best.step, %panic, "the checkpoints after the best checkpoint could not be removed");
                None
            }
        }
    }
}
