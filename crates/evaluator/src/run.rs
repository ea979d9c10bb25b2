//! The evaluator's loop.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_checkpoint::{Checkpoint, Found, Origin, is_committed, list, pin};
use trainyard_daemon::{
    CancellationToken, Context, Readiness, ReadinessState, Watchdog, WatchedLoop,
};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build, Part, Scores, Shard, add_constants, input_options};
use trainyard_model_dir::{
    EndRequest, Error, Evaluated, EvaluatorMark, Interval, JobPhase, JobRecord, JobState, append,
    create_folder, write_atomically,
};
use trainyard_predictor::Parameters;
use trainyard_run_config::{Agreement, EvaluationConfig, ExporterKind, Job};

use crate::compared::check_metrics;
use crate::evaluation::evaluate;
use crate::events::Events;
use crate::export::ScoredModel;
use crate::exporter::{self, Turn};
use crate::own_cluster::OwnCluster;
use crate::telemetry::Telemetry;

/// Interval between log lines that say what the evaluator waits for.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// Time after the evaluator's start in which a chief may replace the marker and the record of an earlier run.
const GRACE: Interval = Interval {
    folder: Duration::from_secs(2),
    bucket: Duration::from_secs(10),
};
/// Interval between polls of the model directory.
const POLL_INTERVAL: Interval = Interval {
    folder: Duration::from_millis(100),
    bucket: Duration::from_secs(2),
};

/// Configuration of an evaluator.
#[derive(Clone)]
pub struct Config {
    /// The job.
    pub job: Arc<Job>,
    /// Time before the first evaluation.
    pub(crate) start_delay: Duration,
    /// Least time between the starts of two evaluations.
    pub(crate) throttle: Duration,
    /// Interval between polls of the model directory.
    pub poll: Duration,
    /// Readiness of the process.
    pub readiness: Readiness,
    /// Watchdog that checks that each evaluation makes progress.
    pub watchdog: Watchdog,
}

/// Results of an evaluator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Global steps that were evaluated.
    pub steps: Vec<u64>,
    /// Scores of the last evaluation.
    pub scores: Scores,
}

impl Config {
    /// Returns the configuration of a daemon.
    pub fn of(context: &Context) -> Self {
        Self {
            readiness: context.readiness.clone(),
            watchdog: context.watchdog.clone(),
            ..Self::new(Arc::clone(&context.job))
        }
    }

    /// Returns the configuration that a job describes, with a readiness and a watchdog of its own.
    pub fn new(job: Arc<Job>) -> Self {
        Self {
            start_delay: Duration::from_secs(job.eval.start_delay_secs),
            throttle: Duration::from_secs(job.eval.throttle_secs),
            poll: POLL_INTERVAL.of(&job.model_dir),
            readiness: Readiness::default(),
            watchdog: Watchdog::default(),
            job,
        }
    }
}

/// Returns the state of an evaluator that serves, and waits for something to evaluate.
fn idle(waiting_for: &str) -> ReadinessState {
    ReadinessState {
        waiting_for: vec![waiting_for.to_owned()],
        ..ReadinessState::ready("waiting")
    }
}

/// Evaluates new checkpoints, until the job has ended and its last checkpoint is evaluated, or until the token is
/// cancelled.
///
/// If several checkpoints are new, the newest is evaluated, or each of them with `eval.every_checkpoint`. Start delay
/// and throttle do not delay the end.
///
/// # Errors
/// The job has no evaluation input, the input cannot be read, a checkpoint does not fit the model, or the job has
/// failed, or the model directory has become that of another cluster.
pub fn run(
    config: Config,
    build: Build,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Report, Diagnostic>> {
    // The future is boxed, so that it is compiled once here, and not again in each program that runs an evaluator.
    Box::pin(watch(config, build, stop))
}

async fn watch(
    config: Config,
    build: Build,
    stop: CancellationToken,
) -> Result<Report, Diagnostic> {
    let model_dir = config.job.model_dir.clone();
    let mut cluster = OwnCluster::default();
    cluster.look(&model_dir)?;
    leave_mark(&model_dir);
    let watched = watch_checkpoints(config, build, stop, &mut cluster).await;
    if cluster.check(&model_dir).is_err() {
        // The mark in it is that of the other job's evaluator.
        return watched;
    }
    if let Err(error) = EvaluatorMark::remove(&model_dir) {
        warn!(%error, "the mark of this evaluator stays: a chief will take it for one that runs");
    }
    watched
}

/// Returns the inputs that are evaluated, besides the training data.
pub fn parts(job: &Job) -> impl Iterator<Item = Part> {
    std::iter::once(Part::Eval).chain((0..job.evaluations.len()).map(Part::Evaluation))
}

/// Writes the mark by which the chief detects an evaluator. The two exchange no requests.
fn leave_mark(model_dir: &Path) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let started_unix_secs = since.map_or(0, |since| since.as_secs());
    let mark = EvaluatorMark {
        process_id: std::process::id(),
        started_unix_secs,
    };
    if let Err(error) = mark.write(model_dir) {
        warn!(%error, "the mark of this evaluator cannot be written: the chief will say that there is none");
    }
}

async fn watch_checkpoints(
    mut config: Config,
    build: Build,
    stop: CancellationToken,
    cluster: &mut OwnCluster,
) -> Result<Report, Diagnostic> {
    let model: Arc<AnyModel> = Arc::from(build(&config.job)?);
    add_constants(&mut config.job, &*model);
    // The options of all inputs are read once now, so that a missing input fails before hours of waiting.
    for part in parts(&config.job) {
        input_options(&config.job, part, Shard::WHOLE, None)?;
    }
    check_metrics(&config.job, &*model)?;
    let telemetry = Telemetry::new();
    let events = Arc::new(Events::default());
    let started = Instant::now();
    let mut last_start = None::<Instant>;
    let mut told = Instant::now();
    let mut report = Report::default();
    let exports_final = config
        .job
        .exporters
        .iter()
        .any(|exporter| exporter.kind == ExporterKind::Final);
    let mut owes_final = false;
    let grace = GRACE.of(&config.job.model_dir);
    let mut seen = Evaluated::read(&config.job.model_dir)?
        .map(|evaluated| (evaluated.cluster_epoch, evaluated.global_step));
    config.readiness.set(idle("a checkpoint"));
    // A job that had failed before this process started will be started again: its failure was reported before.
    let failed_before = JobState::read(&config.job.model_dir)?
        .filter(|state| state.phase == JobPhase::Failed)
        .map(|state| state.cluster_epoch);
    while !stop.is_cancelled() {
        let model_dir = &config.job.model_dir;
        // The marker is read before the folder: once the job has ended, its last checkpoint is in the folder already.
        let over = JobState::read(model_dir)?.filter(|state| match state.phase {
            JobPhase::Done => true,
            JobPhase::Failed => failed_before != Some(state.cluster_epoch),
            _ => false,
        });
        let checkpoints = list(model_dir)?;
        // Both were read from the folder that is there now.
        cluster.look(model_dir)?;
        let newest = checkpoints.last().cloned();
        // Checkpoints after the last evaluated one, oldest first. With `eval.every_checkpoint`, the chief keeps them
        // until they are evaluated.
        let mut newer = checkpoints
            .into_iter()
            .filter(|found| seen < Some((found.epoch, found.step)));
        let early = started.elapsed() < config.start_delay
            || last_start.is_some_and(|start: Instant| start.elapsed() < config.throttle);
        let next = match &over {
            None if config.job.eval.every_checkpoint => newer.find(is_trained),
            None => newest.clone().filter(|found| !early && is_trained(found)),
            Some(_) if config.job.eval.every_checkpoint => newer.next().or(newest.clone()),
            Some(_) => newest.clone(),
        };
        // The last checkpoint may have been evaluated before it was known to be the last. Then the final export is
        // still due.
        let is_done = |found: &Found| {
            seen == Some((found.epoch, found.step)) && !(over.is_some() && owes_final)
        };
        if let Some(found) = next.filter(|found| !is_done(found)) {
            if let Some(problem) = other_job(&config.job)? {
                // The record may belong to an earlier run, and its chief is about to replace it.
                if started.elapsed() >= grace {
                    return Err(problem);
                }
                tokio::time::sleep(config.poll).await;
                continue;
            }
            last_start = Some(Instant::now());
            config.readiness.set(ReadinessState::ready("evaluating"));
            let last = over.is_some() && newest.as_ref() == Some(&found);
            owes_final = !last && exports_final;
            let work = Evaluation {
                job: Arc::clone(&config.job),
                model: Arc::clone(&model),
                path: found.path.clone(),
                turn: if last { Turn::Last } else { Turn::Earlier },
                events: Arc::clone(&events),
                watched_loop: config.watchdog.watch_loop(),
                stop: stop.clone(),
                cluster: *cluster,
            };
            match evaluate_blocking(work, found.step, &telemetry).await? {
                Some(scores) => {
                    report.steps.push(found.step);
                    report.scores = scores;
                    seen = Some((found.epoch, found.step));
                }
                None if stop.is_cancelled() => {}
                None => {
                    warn!(
                        step = found.step,
                        "the checkpoint went away while it was read"
                    );
                    // A damaged checkpoint is quarantined, and therefore not listed again.
                    tokio::time::sleep(config.poll).await;
                }
            }
            config.readiness.set(idle("a new checkpoint"));
            told = Instant::now();
            continue;
        }
        // During the grace period, the marker may belong to an earlier run, and the chief is about to replace it.
        if let Some(state) = &over
            && (!report.steps.is_empty() || started.elapsed() >= grace)
        {
            info!(step = state.global_step, phase = ?state.phase, "the job has ended: so does its evaluation");
            if state.phase == JobPhase::Failed {
                let problem =
                    Diagnostic::error(Code::E2010, format!("the job has failed: {}", state.reason));
                return Err(problem.help("correct what the chief names and start the job again"));
            }
            break;
        }
        if told.elapsed() >= NOTICE_INTERVAL {
            told = Instant::now();
            let after = seen.map_or_else(
                || "the first checkpoint".to_owned(),
                |(_, step)| format!("a checkpoint after step {step}"),
            );
            match newest.filter(|found| early && is_trained(found) && !is_done(found)) {
                Some(found) => info!(
                    "the checkpoint of step {} is there: waiting until eval.start_delay_secs and eval.throttle_secs have passed",
                    found.step
                ),
                None => info!("waiting for {after} in {}", model_dir.display()),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(config.poll) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(report)
}

/// Returns the error that the model or the labels of the chief's job differ from those of this job, if they do. The
/// scores would describe another job.
fn other_job(job: &Job) -> Result<Option<Diagnostic>, Diagnostic> {
    // Earlier releases wrote no record.
    let Some(record) = JobRecord::read(&job.model_dir)? else {
        return Ok(None);
    };
    let theirs = Agreement::recorded(&record.keys).of_scores();
    let own = Agreement::of(job).of_scores();
    let difference = theirs.differences(&own, "the chief", "the evaluator");
    Ok(difference.map(|difference| {
        let message = format!("the evaluator was given another job than the chief: {difference}");
        Diagnostic::error(Code::E2007, message).help("give every task the same job file and --set")
    }))
}

/// Evaluates a checkpoint in a thread of its own. Returns `None` if the checkpoint was removed before it could be read, or
/// the evaluator was asked to stop.
async fn evaluate_blocking(
    work: Evaluation,
    step: u64,
    telemetry: &Telemetry,
) -> Result<Option<Scores>, Diagnostic> {
    let started = Instant::now();
    let outcome = tokio::task::spawn_blocking(move || work.evaluate_and_export())
        .await
        .map_err(|error| {
            Diagnostic::error(Code::E9001, format!("the evaluation has failed: {error}"))
        })??;
    if let Some((scores, exports)) = &outcome {
        telemetry.seconds.record(started.elapsed());
        telemetry.record(step, scores);
        telemetry.exports.increment(*exports as u64);
    }
    Ok(outcome.map(|(scores, _)| scores))
}

/// Warns of an evaluation whose labels are all equal: its accuracy and AUC look like results, but mean nothing.
pub fn warn_of_one_class(scores: &Scores) {
    if let Some(message) = says_nothing(scores) {
        warn!("{message}");
    }
}

/// Returns why the metrics of an evaluation say nothing, if they do not.
fn says_nothing(scores: &Scores) -> Option<String> {
    let of_one_class = |(name, mean): (&String, &f64)| {
        let before = name.strip_suffix("label/mean")?;
        let has_classes = scores.contains_key(&format!("{before}auc"));
        let task = before
            .strip_suffix('/')
            .map(|task| format!(" of the task `{task}`"));
        (has_classes && matches!(*mean, 0.0 | 1.0)).then(|| (task.unwrap_or_default(), *mean))
    };
    let (task, mean) = scores.iter().find_map(of_one_class)?;
    Some(format!(
        "all labels of the evaluation{task} are {mean}: its AUC and accuracy say nothing. Look at `positive` of the label, and how the \
         evaluation files write the label"
    ))
}

/// Returns whether a checkpoint holds a trained model. TensorFlow evaluates the untrained model, too, but its scores
/// are of no use.
fn is_trained(found: &Found) -> bool {
    found.step > 0
}

/// Returns the name of this process in the pins of the checkpoints that it reads. In a container every process may have
/// id 1, so the random keys of the standard library's hasher make the name unique.
fn pin_owner() -> String {
    format!(
        "evaluator-{}-{:08x}",
        std::process::id(),
        RandomState::new().build_hasher().finish() as u32
    )
}

/// The evaluation of one checkpoint.
struct Evaluation {
    job: Arc<Job>,
    model: Arc<AnyModel>,
    /// Folder of the checkpoint.
    path: PathBuf,
    turn: Turn,
    events: Arc<Events>,
    watched_loop: WatchedLoop,
    stop: CancellationToken,
    /// The cluster of the checkpoint.
    cluster: OwnCluster,
}

impl Evaluation {
    /// Evaluates the checkpoint, writes the results and runs the exporters. Returns the scores and the number of exports;
    /// nothing if the checkpoint was removed before it could be read, or the evaluator was asked to stop.
    fn evaluate_and_export(&self) -> Result<Option<(Scores, usize)>, Diagnostic> {
        let Self {
            job,
            model,
            path,
            events,
            watched_loop,
            stop,
            ..
        } = self;
        let model: &AnyModel = &**model;
        // The folder may be replaced while its checkpoint is evaluated.
        let check_folder = || self.cluster.check(&job.model_dir);
        let _pin = match pin(path, &pin_owner()) {
            Ok(pin) => pin,
            Err(_) if !is_committed(path)? => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let checkpoint = match Checkpoint::open(path) {
            Ok(checkpoint) => Arc::new(checkpoint),
            Err(_) if !is_committed(path)? => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let read = Parameters::read(&Origin::Own(Arc::clone(&checkpoint)), model);
        let parameters = match read.and_then(|read| Ok(checkpoint.check_read().map(|_| read)?)) {
            Ok(parameters) => parameters,
            // The chief removed the checkpoint before it saw this evaluator's pin.
            Err(_) if !is_committed(path)? => return Ok(None),
            Err(problem) => return Err(problem),
        };
        let step = checkpoint.manifest().global_step;
        let score = |part: Part, dead_letter: Option<&str>, steps: Option<u64>| {
            let dead_letter =
                dead_letter.map(|name| job.local_dir().join("dead_letter").join(name));
            let input = input_options(job, part, Shard::WHOLE, dead_letter)?;
            let weight = job.input.weight_column.as_deref();
            evaluate(model, &parameters, weight, input, steps, || {
                watched_loop.beat();
                if stop.is_cancelled() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
        };
        let shown = |scores: &Scores| {
            let shown: Vec<String> = scores
                .iter()
                .map(|(name, value)| format!("{name} = {value:.5}"))
                .collect();
            shown.join(", ")
        };
        let Some(mut scores) = score(Part::Eval, Some("eval.jsonl"), job.eval.steps)? else {
            return Ok(None);
        };
        info!("evaluated global step {step}: {}", shown(&scores));
        warn_of_one_class(&scores);
        if job.eval.on_training_data {
            let Some(training) = score(Part::TrainForEvaluation, None, job.eval.steps)? else {
                return Ok(None);
            };
            info!(
                "on the training data, global step {step}: {}",
                shown(&training)
            );
            check_folder()?;
            events.tell(job, "eval_train", &checkpoint, &training);
            write_result(&job.model_dir.join("eval_train"), &checkpoint, &training)?;
            call_back(model, step, "eval_train", &training)?;
        }
        for (place, EvaluationConfig { name, steps, .. }) in job.evaluations.iter().enumerate() {
            let folder = format!("eval_{name}");
            let dead_letter = format!("{folder}.jsonl");
            let Some(further) = score(Part::Evaluation(place), Some(&dead_letter), *steps)? else {
                return Ok(None);
            };
            info!("{name}: evaluated global step {step}: {}", shown(&further));
            check_folder()?;
            events.tell(job, &folder, &checkpoint, &further);
            write_result(&job.model_dir.join(&folder), &checkpoint, &further)?;
            call_back(model, step, &folder, &further)?;
            // Exporters and early stopping may use these metrics.
            scores.extend(
                further
                    .into_iter()
                    .map(|(metric, value)| (format!("{name}/{metric}"), value)),
            );
        }
        let now = unix_secs();
        let mut exports = 0;
        let scored = ScoredModel {
            job,
            model,
            checkpoint: &checkpoint,
            scores: &scores,
        };
        for config in &job.exporters {
            check_folder()?;
            exports += usize::from(
                exporter::run(config, &scored, &job.model_dir, now, self.turn)?.is_some(),
            );
            watched_loop.beat();
        }
        check_folder()?;
        events.tell(job, "eval", &checkpoint, &scores);
        // The result is written last: if the evaluator dies before, the checkpoint counts as not evaluated.
        write_result(&job.model_dir.join("eval"), &checkpoint, &scores)?;
        call_back(model, step, "eval", &scores)?;
        if let Some(reason) = model.callbacks().and_then(|callbacks| callbacks.end()) {
            info!("callbacks ask the chief to end the job: {reason}");
            check_folder()?;
            let request = EndRequest {
                cluster_epoch: checkpoint.manifest().cluster_epoch,
                global_step: step,
                reason,
            };
            request.write(&job.model_dir)?;
        }
        Ok(Some((scores, exports)))
    }
}

/// Calls the callbacks that receive evaluations.
///
/// # Errors
/// The user's code fails.
fn call_back(model: &AnyModel, step: u64, name: &str, scores: &Scores) -> Result<(), Diagnostic> {
    match model.callbacks() {
        Some(callbacks) => Ok(callbacks.after_evaluation(step, name, scores)?),
        None => Ok(()),
    }
}

fn unix_secs() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Appends to `metrics.jsonl` and replaces `result.json`.
fn write_result(folder: &Path, checkpoint: &Checkpoint, scores: &Scores) -> Result<(), Diagnostic> {
    let manifest = checkpoint.manifest();
    let result = json!({
        "global_step": manifest.global_step, "cluster_epoch": manifest.cluster_epoch, "unix_secs": unix_secs(),
        "metrics": scores,
    });
    let failed = |error: Error| match error {
        Error::Io { source, .. } => {
            let message = format!("{} cannot be written: {source}", folder.display());
            Diagnostic::error(Code::E9002, message).help("check the disk and the folder")
        }
        error => error.into(),
    };
    let path = folder.join("metrics.jsonl");
    let line = format!("{result}\n");
    create_folder(folder)
        .and_then(|()| append(&path, line.as_bytes()))
        .map_err(failed)?;
    Ok(write_atomically(
        &folder.join("result.json"),
        line.as_bytes(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_of_one_class_names_the_labels() {
        for (mean, told) in [
            (0.2, None),
            (0.0, Some("all labels of the evaluation are 0")),
            (1.0, Some("all labels of the evaluation are 1")),
        ] {
            let metrics = [("label/mean", mean), ("auc", 0.0)];
            let scores: Scores = metrics.map(|(name, value)| (name.to_owned(), value)).into();
            let message = says_nothing(&scores);
            assert_eq!(message.is_some(), told.is_some(), "{message:?}");
            let message = message.unwrap_or_default();
            assert!(message.starts_with(told.unwrap_or_default()), "{message}");
        }
    }
}
