//! Polling of the evaluations while the chief watches the job. A poll runs in the background, because a bucket may take
//! seconds to answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_checkpoint::{list, remove_after};
use trainyard_diagnostic::Diagnostic;
use trainyard_model_dir::{EvaluatorMark, Interval, Reduction};
use trainyard_run_config::{EarlyStoppingConfig, Job, ReduceOnPlateauConfig};
use trainyard_runtime::blocking;

use super::{Chief, Run};
use crate::early_stopping::{Evaluation, Verdict, judge, values};
use crate::plateau::{Plateau, plateau};
use trainyard_dashboard::evaluations;

/// Interval between polls of the evaluations.
const POLL_INTERVAL: Interval = Interval {
    folder: Duration::from_millis(500),
    bucket: Duration::from_secs(10),
};

/// Longest wait for the evaluations before a checkpoint is written.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which the evaluator of this process leaves its mark.
const EVALUATOR_START_TIMEOUT: Duration = Duration::from_secs(10);

/// What a poll has found.
struct Found {
    results: Vec<Value>,
    /// Step of the checkpoint that was saved last when the poll began.
    saved: Option<u64>,
    /// Steps of the checkpoints that are there, and whether an evaluator runs, if training waits for evaluations.
    awaited: Option<(Vec<u64>, bool)>,
}

/// Polls the evaluations, and judges them.
pub(super) struct Evaluated {
    early_stopping: Option<EarlyStoppingConfig>,
    reduce_on_plateau: Option<ReduceOnPlateauConfig>,
    model_dir: PathBuf,
    interval: Duration,
    since: Instant,
    due: Instant,
    looking: Option<JoinHandle<Result<Found, Diagnostic>>>,
    /// A problem has been logged. Only the first one is.
    is_told: bool,
    /// Training waits for the evaluation of each checkpoint.
    awaits: bool,
    /// An evaluator has left its mark.
    has_begun: bool,
    /// Findings of the latest poll.
    found: Option<Found>,
    /// Verdict of the latest poll.
    pub(super) verdict: Verdict,
    /// Evaluations of the metric by which learning rates fall, as of the latest poll.
    of_plateau: Vec<Evaluation>,
}

impl Evaluated {
    /// Returns the poller of the evaluations, if they may end the job early or reduce its learning rates. `awaits` says that
    /// the only task that trains waits for each evaluation, so that it changes the same step in every run.
    pub(super) fn of(job: &Job, awaits: bool) -> Option<Self> {
        let early_stopping = job.train.early_stopping.clone();
        let reduce_on_plateau = job.train.reduce_on_plateau.clone();
        if early_stopping.is_none() && reduce_on_plateau.is_none() {
            return None;
        }
        Some(Self {
            awaits: awaits && reduce_on_plateau.is_some(),
            early_stopping,
            reduce_on_plateau,
            interval: POLL_INTERVAL.of(&job.model_dir),
            model_dir: job.model_dir.clone(),
            since: Instant::now(),
            due: Instant::now(),
            looking: None,
            is_told: false,
            has_begun: false,
            found: None,
            verdict: Verdict::default(),
            of_plateau: Vec::new(),
        })
    }

    /// Returns whether training waits for the evaluation of the checkpoint that was saved last.
    pub(super) fn is_awaited(&self, saved: Option<u64>) -> bool {
        // The first checkpoint, of initial values, is not evaluated.
        let Some(saved) = saved.filter(|step| self.awaits && *step > 0) else {
            return false;
        };
        // An earlier poll may not have seen the checkpoint.
        let found = self.found.as_ref();
        let Some(found) = found.filter(|found| found.saved == Some(saved)) else {
            return true;
        };
        let Some((checkpoints, is_evaluator_there)) = &found.awaited else {
            return false;
        };
        let is_evaluated = found
            .results
            .iter()
            .any(|result| result["global_step"] == saved);
        let may_come = *is_evaluator_there
            || !self.has_begun && self.since.elapsed() < EVALUATOR_START_TIMEOUT;
        !is_evaluated && may_come && checkpoints.contains(&saved)
    }

    /// Returns the plateau for which the learning rates have yet to fall.
    pub(super) fn plateau(&self, made: &[Reduction], global_step: u64) -> Option<Plateau> {
        let config = self.reduce_on_plateau.as_ref()?;
        plateau(config, &self.of_plateau, made, global_step)
    }

    /// Starts a poll that is due, at once if training waits for its result, and handles one that has finished. Never waits.
    pub(super) async fn poll(&mut self, saved: Option<u64>) {
        if self.looking.as_ref().is_some_and(JoinHandle::is_finished) {
            self.take_in().await;
        }
        let is_due = Instant::now() >= self.due || self.is_awaited(saved);
        if self.looking.is_none() && is_due {
            self.begin(saved);
        }
    }

    /// Polls now, and waits for the result for a limited time. The chief calls it before it removes old checkpoints, so
    /// that it keeps the best one: a checkpoint that is being evaluated is kept until its result is written.
    pub(super) async fn look(&mut self, saved: Option<u64>) {
        let looks = async {
            self.take_in().await;
            self.begin(saved);
            self.take_in().await;
        };
        if tokio::time::timeout(LOOK_TIMEOUT, looks).await.is_err() {
            self.warn_once(&format!(
                "the chief could not read the evaluations within {} s: what they decide waits",
                LOOK_TIMEOUT.as_secs()
            ));
        }
    }

    fn begin(&mut self, saved: Option<u64>) {
        let model_dir = self.model_dir.clone();
        let awaits = self.awaits;
        self.looking = Some(blocking(move || look(&model_dir, saved, awaits)));
    }

    async fn take_in(&mut self) {
        if let Some(looking) = &mut self.looking {
            let seen = looking.await;
            self.looking = None;
            self.due = Instant::now() + self.interval;
            match seen {
                Ok(Ok(found)) => self.judge(found),
                Ok(Err(problem)) => self.warn_once(&format!(
                    "the chief cannot read the evaluations: {}",
                    problem.log_line()
                )),
                Err(panic) => {
                    self.warn_once(&format!("reading the evaluations has failed: {panic}"));
                }
            }
        }
    }

    fn judge(&mut self, found: Found) {
        let results = &found.results;
        if let Some(config) = &self.early_stopping {
            self.verdict = judge(config, &values(results, &config.metric));
        }
        if let Some(config) = &self.reduce_on_plateau {
            self.of_plateau = values(results, &config.metric);
        }
        self.has_begun |= found
            .awaited
            .as_ref()
            .is_some_and(|(_, is_there)| *is_there);
        self.warn_of_another_metric(results);
        self.found = Some(found);
    }

    fn warn_of_another_metric(&mut self, results: &[Value]) {
        let Some(metrics) = results
            .last()
            .and_then(|result| result["metrics"].as_object())
        else {
            return;
        };
        let early_stopping = self.early_stopping.iter().map(|config| {
            (
                "early stopping never ends the job: train.early_stopping.metric",
                &config.metric,
            )
        });
        let plateau = self.reduce_on_plateau.iter().map(|config| {
            (
                "the learning rates never fall: train.reduce_on_plateau.metric",
                &config.metric,
            )
        });
        let other = early_stopping
            .chain(plateau)
            .find(|(_, metric)| !metrics.contains_key(*metric));
        if let Some((what, metric)) = other {
            let known: Vec<&str> = metrics.keys().map(String::as_str).collect();
            let text = format!(
                "{what} is `{metric}`, and the metrics of evaluations are {}",
                known.join(", ")
            );
            self.warn_once(&text);
        }
    }

    fn warn_once(&mut self, text: &str) {
        if !self.is_told {
            warn!("{text}");
        }
        self.is_told = true;
    }
}

/// Reads the evaluations and, if training waits for them, what may still be evaluated.
fn look(model_dir: &Path, saved: Option<u64>, awaits: bool) -> Result<Found, Diagnostic> {
    let awaited = if awaits {
        // An evaluator writes its last result before it removes its mark, so the mark is read before the results.
        let is_there = EvaluatorMark::is_there(model_dir)?;
        let steps = list(model_dir)?.iter().map(|found| found.step).collect();
        Some((steps, is_there))
    } else {
        None
    };
    Ok(Found {
        results: evaluations(&model_dir.join("eval"))?,
        saved,
        awaited,
    })
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
