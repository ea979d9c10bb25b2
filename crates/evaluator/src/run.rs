//! The evaluator's loop.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use serde_json::json;
use tracing::{info, warn};
use trainyard_checkpoint::{
    Checkpoint, Evaluated, EvaluatorMark, Found, JobPhase, JobRecord, JobState, is_committed, list, pin, read,
    write_atomically,
};
use trainyard_daemon::{CancellationToken, Context, Heart, Pulse};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build, Part, Scores, Shard, input_options};
use trainyard_run_config::{Agreement, Job};
use trainyard_storage::is_remote;

use crate::compared::check_exporters;
use crate::evaluation::evaluate_checkpoint;
use crate::events::Events;
use crate::exporter;
use crate::telemetry::Telemetry;

/// Silence between lines that say what is waited for.
const NOTICE: Duration = Duration::from_secs(10);

/// Time after the start in which an ended job may turn out to be starting again.
const GRACE: Duration = Duration::from_secs(2);
/// The same where its chief needs some requests to say so.
const GRACE_REMOTE: Duration = Duration::from_secs(10);

/// Told how the evaluator stands.
type OnStanding = Arc<dyn Fn(&str, bool, Vec<String>) + Send + Sync>;

/// What an evaluator is given.
#[derive(Clone)]
pub struct Config {
    /// The job.
    pub job: Arc<Job>,
    /// Time before the first evaluation.
    pub start_delay: Duration,
    /// Least time between the starts of two evaluations.
    pub throttle: Duration,
    /// Time between looks at the model folder.
    pub poll: Duration,
    /// Told how the evaluator stands.
    pub standing: OnStanding,
    /// Given the signs of life of each evaluation.
    pub pulse: Pulse,
}

/// What an evaluator has done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Steps that were evaluated.
    pub steps: Vec<u64>,
    /// Scores of the last.
    pub scores: Scores,
}

impl Config {
    /// Returns the configuration of a daemon.
    pub fn of(context: &Context) -> Self {
        let readiness = context.readiness.clone();
        let standing = Arc::new(move |state: &str, ready, waiting| readiness.set(state, ready, waiting));
        Self { pulse: context.pulse.clone(), ..Self::new(Arc::clone(&context.job), standing) }
    }

    /// Returns the configuration that a job asks for.
    pub fn new(job: Arc<Job>, standing: OnStanding) -> Self {
        Self {
            start_delay: Duration::from_secs(job.eval.start_delay_secs),
            throttle: Duration::from_secs(job.eval.throttle_secs),
            // Of a bucket, each look is some requests.
            poll: if is_remote(&job.model_dir) { Duration::from_secs(2) } else { Duration::from_millis(100) },
            standing,
            pulse: Pulse::default(),
            job,
        }
    }
}

/// Evaluates each new checkpoint until the job has ended and its last one is evaluated, or told to stop.
///
/// Several new checkpoints at once: the newest is taken. Neither start delay nor throttle holds up the end.
///
/// # Errors
/// The job has no evaluation input, it cannot be read, or a checkpoint does not fit the model.
pub fn run(
    config: Config,
    build: Build,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Report, Diagnostic>> {
    // Boxed, so that it is compiled here and not once more in each program that is the evaluator.
    Box::pin(watch(config, build, stop))
}

async fn watch(config: Config, build: Build, stop: CancellationToken) -> Result<Report, Diagnostic> {
    let model_dir = config.job.model_dir.clone();
    let watched = watch_checkpoints(config, build, stop).await;
    if let Err(error) = EvaluatorMark::remove(&model_dir) {
        warn!(%error, "the mark of this evaluator stays: a chief will take it for one that runs");
    }
    watched
}

/// Says to the chief, which never hears of this evaluator, that there is one.
fn leave_mark(model_dir: &Path) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let started_unix_secs = since.map_or(0, |since| since.as_secs());
    let mark = EvaluatorMark { process_id: std::process::id(), started_unix_secs };
    if let Err(error) = mark.write(model_dir) {
        warn!(%error, "the mark of this evaluator cannot be written: the chief will say that there is none");
    }
}

async fn watch_checkpoints(
    config: Config,
    build: Build,
    stop: CancellationToken,
) -> Result<Report, Diagnostic> {
    let model: Arc<AnyModel> = Arc::from(build(&config.job)?);
    // Read once, to fail before waiting for hours where the input is not there.
    input_options(&config.job, Part::Eval, Shard::WHOLE, None)?;
    check_exporters(&config.job, &*model)?;
    let telemetry = Telemetry::new();
    let events = Arc::new(Events::default());
    let (started, mut last_start, mut told) = (Instant::now(), None::<Instant>, Instant::now());
    let (mut report, mut marked) = (Report::default(), false);
    let grace = if is_remote(&config.job.model_dir) { GRACE_REMOTE } else { GRACE };
    let mut seen = Evaluated::read(&config.job.model_dir)?
        .map(|evaluated| (evaluated.cluster_epoch, evaluated.global_step));
    (config.standing)("waiting", true, vec!["a checkpoint".to_owned()]);
    // A job that had failed when this process was started is to be started again: its end was told before.
    let failed_before = JobState::read(&config.job.model_dir)?
        .filter(|state| state.phase == JobPhase::Failed)
        .map(|state| state.cluster_epoch);
    while !stop.is_cancelled() {
        let model_dir = &config.job.model_dir;
        // The marker is read before the folder: what it ends is then in the folder already.
        let over = JobState::read(model_dir)?.filter(|state| match state.phase {
            JobPhase::Done => true,
            JobPhase::Failed => failed_before != Some(state.cluster_epoch),
            _ => false,
        });
        let checkpoints = list(model_dir)?;
        // Before its first checkpoint a job may have no folder.
        if !checkpoints.is_empty() && !std::mem::replace(&mut marked, true) {
            leave_mark(model_dir);
        }
        let newest =
            checkpoints.into_iter().next_back().filter(|found| seen != Some((found.epoch, found.step)));
        let early = started.elapsed() < config.start_delay
            || last_start.is_some_and(|start: Instant| start.elapsed() < config.throttle);
        match newest {
            // TensorFlow evaluates the untrained model too; nobody learns from it.
            Some(found) if (over.is_some() || !early) && (found.step > 0 || over.is_some()) => {
                if let Some(problem) = other_job(&config.job)? {
                    // The record may be of an earlier run, which its chief is about to replace.
                    if started.elapsed() >= grace {
                        return Err(problem);
                    }
                    tokio::time::sleep(config.poll).await;
                    continue;
                }
                last_start = Some(Instant::now());
                (config.standing)("evaluating", true, Vec::new());
                let last = over.is_some();
                match evaluate_blocking(&config, &model, &found, last, &telemetry, &events).await? {
                    Some(scores) => {
                        report.steps.push(found.step);
                        report.scores = scores;
                        seen = Some((found.epoch, found.step));
                    }
                    None => warn!(step = found.step, "the checkpoint went away while it was read"),
                }
                (config.standing)("waiting", true, vec!["a new checkpoint".to_owned()]);
                told = Instant::now();
                continue;
            }
            _ => {}
        }
        // A marker of an earlier run of the job, which its chief is about to replace, ends nothing.
        if let Some(state) = over
            && (!report.steps.is_empty() || started.elapsed() >= grace)
        {
            info!(step = state.global_step, phase = ?state.phase, "the job has ended: so does its evaluation");
            if state.phase == JobPhase::Failed {
                let problem = Diagnostic::error(Code::E2010, format!("the job has failed: {}", state.reason));
                return Err(problem.help("correct what the chief names and start the job again"));
            }
            break;
        }
        if told.elapsed() >= NOTICE {
            told = Instant::now();
            let after = seen.map_or_else(
                || "the first checkpoint".to_owned(),
                |(_, step)| format!("a checkpoint after step {step}"),
            );
            info!("waiting for {after} in {}", model_dir.display());
        }
        tokio::select! {
            () = tokio::time::sleep(config.poll) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(report)
}

/// Says in what the model and labels of the chief differ from these, where they do: the scores would be of something else.
fn other_job(job: &Job) -> Result<Option<Diagnostic>, Diagnostic> {
    // Runs of earlier releases have left none.
    let Some(record) = JobRecord::read(&job.model_dir)? else { return Ok(None) };
    let theirs = Agreement::from_lines(record.keys.iter().map(String::as_str)).of_scores();
    let own = Agreement::of(job).of_scores();
    let difference = theirs.differences(&own, "the chief", "the evaluator");
    Ok(difference.map(|difference| {
        let message = format!("the evaluator was given another job than the chief: {difference}");
        Diagnostic::error(Code::E2007, message).help("give every task the same job file and --set")
    }))
}

async fn evaluate_blocking(
    config: &Config,
    model: &Arc<AnyModel>,
    found: &Found,
    last: bool,
    telemetry: &Telemetry,
    events: &Arc<Events>,
) -> Result<Option<Scores>, Diagnostic> {
    let (job, model, path) = (Arc::clone(&config.job), Arc::clone(model), found.path.clone());
    let started = Instant::now();
    let heart = config.pulse.heart();
    let events = Arc::clone(events);
    let work = move || evaluate(&job, &*model, &path, last, &events, &heart);
    let outcome = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Diagnostic::error(Code::E9001, format!("the evaluation has failed: {error}")))??;
    if let Some((scores, exports)) = &outcome {
        telemetry.seconds.record(started.elapsed());
        telemetry.record(found.step, scores);
        telemetry.exports.increment(*exports as u64);
    }
    Ok(outcome.map(|(scores, _)| scores))
}

/// Evaluates one checkpoint, writes the results and exports. Nothing where it went away before it was pinned.
fn evaluate(
    job: &Job,
    model: &AnyModel,
    path: &Path,
    last: bool,
    events: &Events,
    heart: &Heart,
) -> Result<Option<(Scores, usize)>, Diagnostic> {
    // In a container every process is the first: the keys of the standard library's hashes tell them apart.
    let owner =
        format!("evaluator-{}-{:08x}", std::process::id(), RandomState::new().build_hasher().finish() as u32);
    let _pin = match pin(path, &owner) {
        Ok(pin) => pin,
        Err(_) if !is_committed(path)? => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let checkpoint = match Checkpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(_) if !is_committed(path)? => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let step = checkpoint.manifest().global_step;
    let input =
        input_options(job, Part::Eval, Shard::WHOLE, Some(job.local_dir().join("dead_letter/eval.jsonl")))?;
    let scores = evaluate_checkpoint(model, &checkpoint, input, job.eval.steps, || heart.beat());
    let scores = match scores.and_then(|scores| Ok(checkpoint.check_read().map(|_| scores)?)) {
        Ok(scores) => scores,
        // The chief removed the checkpoint before it saw this evaluator's pin.
        Err(_) if !is_committed(path)? => return Ok(None),
        Err(problem) => return Err(problem),
    };
    let shown: Vec<String> = scores.iter().map(|(name, value)| format!("{name} = {value:.5}")).collect();
    info!("evaluated global step {step}: {}", shown.join(", "));
    if job.eval.on_training_data {
        let input = input_options(job, Part::TrainForEvaluation, Shard::WHOLE, None)?;
        let training = evaluate_checkpoint(model, &checkpoint, input, job.eval.steps, || heart.beat())?;
        let shown: Vec<String> =
            training.iter().map(|(name, value)| format!("{name} = {value:.5}")).collect();
        info!("on the training data, global step {step}: {}", shown.join(", "));
        events.tell(job, "eval_train", &checkpoint, &training);
        write_result(&job.model_dir.join("eval_train"), &checkpoint, &training)?;
    }
    let now = unix_secs();
    let mut exports = 0;
    for config in &job.exporters {
        exports += usize::from(
            exporter::run(config, model, &checkpoint, &scores, &job.model_dir, now, last)?.is_some(),
        );
        heart.beat();
    }
    events.tell(job, "eval", &checkpoint, &scores);
    // Written last: an evaluator that dies before is not taken to have done its work.
    write_result(&job.model_dir.join("eval"), &checkpoint, &scores)?;
    Ok(Some((scores, exports)))
}

fn unix_secs() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Appends to `metrics.jsonl` and replaces `result.json`.
fn write_result(folder: &Path, checkpoint: &Checkpoint, scores: &Scores) -> Result<(), Diagnostic> {
    let manifest = checkpoint.manifest();
    let result = json!({
        "global_step": manifest.global_step, "cluster_epoch": manifest.cluster_epoch, "unix_secs": unix_secs(),
        "metrics": scores,
    });
    let failed = |error: std::io::Error| {
        Diagnostic::error(Code::E9002, format!("{} cannot be written: {error}", folder.display()))
            .help("check the disk and the folder")
    };
    let (path, line) = (folder.join("metrics.jsonl"), format!("{result}\n"));
    if is_remote(folder) {
        // Objects do not grow: nobody else writes this one.
        let mut text = read(&path)?.unwrap_or_default();
        text.extend_from_slice(line.as_bytes());
        write_atomically(&path, &text)?;
    } else {
        std::fs::create_dir_all(folder).map_err(failed)?;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(failed)?;
    }
    Ok(write_atomically(&folder.join("result.json"), line.as_bytes())?)
}
