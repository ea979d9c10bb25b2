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
    Checkpoint, Evaluated, EvaluatorMark, Found, JobPhase, JobRecord, JobState, Origin,
    is_committed, list, pin, read, write_atomically,
};
use trainyard_daemon::{CancellationToken, Context, Heart, Pulse};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{AnyModel, Build, Part, Scores, Shard, input_options};
use trainyard_run_config::{Agreement, EvaluationConfig, ExporterKind, Job};
use trainyard_storage::is_remote;

use crate::compared::check_exporters;
use crate::evaluation::evaluate;
use crate::events::Events;
use crate::exporter;
use crate::parameters::Parameters;
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
        let standing =
            Arc::new(move |state: &str, ready, waiting| readiness.set(state, ready, waiting));
        Self {
            pulse: context.pulse.clone(),
            ..Self::new(Arc::clone(&context.job), standing)
        }
    }

    /// Returns the configuration that a job asks for.
    pub fn new(job: Arc<Job>, standing: OnStanding) -> Self {
        Self {
            start_delay: Duration::from_secs(job.eval.start_delay_secs),
            throttle: Duration::from_secs(job.eval.throttle_secs),
            // Of a bucket, each look is some requests.
            poll: if is_remote(&job.model_dir) {
                Duration::from_secs(2)
            } else {
                Duration::from_millis(100)
            },
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

async fn watch(
    config: Config,
    build: Build,
    stop: CancellationToken,
) -> Result<Report, Diagnostic> {
    let model_dir = config.job.model_dir.clone();
    leave_mark(&model_dir);
    let watched = watch_checkpoints(config, build, stop).await;
    if let Err(error) = EvaluatorMark::remove(&model_dir) {
        warn!(%error, "the mark of this evaluator stays: a chief will take it for one that runs");
    }
    watched
}

/// Returns what is evaluated besides training data.
pub fn parts(job: &Job) -> impl Iterator<Item = Part> {
    std::iter::once(Part::Eval).chain((0..job.evaluations.len()).map(Part::Evaluation))
}

/// Says to the chief, which never hears of this evaluator, that there is one.
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
    config: Config,
    build: Build,
    stop: CancellationToken,
) -> Result<Report, Diagnostic> {
    let model: Arc<AnyModel> = Arc::from(build(&config.job)?);
    // Read once, to fail before waiting for hours where an input is not there.
    for part in parts(&config.job) {
        input_options(&config.job, part, Shard::WHOLE, None)?;
    }
    check_exporters(&config.job, &*model)?;
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
    let grace = if is_remote(&config.job.model_dir) {
        GRACE_REMOTE
    } else {
        GRACE
    };
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
        let newest = checkpoints.last().cloned();
        // The oldest that is newer than the last: the chief keeps it until then.
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
        // That of the end may have been evaluated before it was known to be.
        let is_done = |found: &Found| {
            seen == Some((found.epoch, found.step)) && !(over.is_some() && owes_final)
        };
        if let Some(found) = next.filter(|found| !is_done(found)) {
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
            let last = over.is_some() && newest.as_ref() == Some(&found);
            owes_final = !last && exports_final;
            match evaluate_blocking(&config, &model, &found, last, &telemetry, &events).await? {
                Some(scores) => {
                    report.steps.push(found.step);
                    report.scores = scores;
                    seen = Some((found.epoch, found.step));
                }
                None => {
                    warn!(
                        step = found.step,
                        "the checkpoint went away while it was read"
                    );
                    // It is not looked for again, where it was damaged and set aside.
                    tokio::time::sleep(config.poll).await;
                }
            }
            (config.standing)("waiting", true, vec!["a new checkpoint".to_owned()]);
            told = Instant::now();
            continue;
        }
        // A marker of an earlier run of the job, which its chief is about to replace, ends nothing.
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
        if told.elapsed() >= NOTICE {
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

/// Says in what the model and labels of the chief differ from these, where they do: the scores would be of something else.
fn other_job(job: &Job) -> Result<Option<Diagnostic>, Diagnostic> {
    // Runs of earlier releases have left none.
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

async fn evaluate_blocking(
    config: &Config,
    model: &Arc<AnyModel>,
    found: &Found,
    last: bool,
    telemetry: &Telemetry,
    events: &Arc<Events>,
) -> Result<Option<Scores>, Diagnostic> {
    let job = Arc::clone(&config.job);
    let model = Arc::clone(model);
    let path = found.path.clone();
    let started = Instant::now();
    let heart = config.pulse.heart();
    let events = Arc::clone(events);
    let work = move || evaluate_and_export(&job, &*model, &path, last, &events, &heart);
    let outcome = tokio::task::spawn_blocking(work).await.map_err(|error| {
        Diagnostic::error(Code::E9001, format!("the evaluation has failed: {error}"))
    })??;
    if let Some((scores, exports)) = &outcome {
        telemetry.seconds.record(started.elapsed());
        telemetry.record(found.step, scores);
        telemetry.exports.increment(*exports as u64);
    }
    Ok(outcome.map(|(scores, _)| scores))
}

/// Warns of an evaluation whose labels are all the same: its accuracy and AUC say nothing, and look like results.
pub fn warn_of_one_class(scores: &Scores) {
    let mean = scores.get("label/mean").copied();
    if scores.contains_key("auc") && matches!(mean, Some(0.0 | 1.0)) {
        warn!(
            "all labels of the evaluation are {}: its AUC and accuracy say nothing. Look at input.label.positive, and how the \
             evaluation files write the label",
            mean.unwrap_or_default()
        );
    }
}

/// Whether a checkpoint is of a model that was trained. TensorFlow evaluates the untrained one too; nobody learns from it.
fn is_trained(found: &Found) -> bool {
    found.step > 0
}

/// The name of this process at the checkpoints that it reads. In a container every process is the first: the keys of the
/// standard library's hashes tell them apart.
fn pin_owner() -> String {
    format!(
        "evaluator-{}-{:08x}",
        std::process::id(),
        RandomState::new().build_hasher().finish() as u32
    )
}

/// Evaluates one checkpoint, writes the results and exports. Nothing where it went away before it was pinned.
fn evaluate_and_export(
    job: &Job,
    model: &AnyModel,
    path: &Path,
    last: bool,
    events: &Events,
    heart: &Heart,
) -> Result<Option<(Scores, usize)>, Diagnostic> {
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
        let dead_letter = dead_letter.map(|name| job.local_dir().join("dead_letter").join(name));
        let input = input_options(job, part, Shard::WHOLE, dead_letter)?;
        evaluate(model, &parameters, input, steps, || heart.beat())
    };
    let shown = |scores: &Scores| {
        let shown: Vec<String> = scores
            .iter()
            .map(|(name, value)| format!("{name} = {value:.5}"))
            .collect();
        shown.join(", ")
    };
    let mut scores = score(Part::Eval, Some("eval.jsonl"), job.eval.steps)?;
    info!("evaluated global step {step}: {}", shown(&scores));
    warn_of_one_class(&scores);
    if job.eval.on_training_data {
        let training = score(Part::TrainForEvaluation, None, job.eval.steps)?;
        info!(
            "on the training data, global step {step}: {}",
            shown(&training)
        );
        events.tell(job, "eval_train", &checkpoint, &training);
        write_result(&job.model_dir.join("eval_train"), &checkpoint, &training)?;
    }
    for (place, EvaluationConfig { name, steps, .. }) in job.evaluations.iter().enumerate() {
        let folder = format!("eval_{name}");
        let further = score(
            Part::Evaluation(place),
            Some(&format!("{folder}.jsonl")),
            *steps,
        )?;
        info!("{name}: evaluated global step {step}: {}", shown(&further));
        events.tell(job, &folder, &checkpoint, &further);
        write_result(&job.model_dir.join(folder), &checkpoint, &further)?;
        // Exporters and early stopping may go by them.
        scores.extend(
            further
                .into_iter()
                .map(|(metric, value)| (format!("{name}/{metric}"), value)),
        );
    }
    let now = unix_secs();
    let mut exports = 0;
    for config in &job.exporters {
        exports += usize::from(
            exporter::run(
                config,
                model,
                &checkpoint,
                &scores,
                &job.model_dir,
                now,
                last,
            )?
            .is_some(),
        );
        heart.beat();
    }
    events.tell(job, "eval", &checkpoint, &scores);
    // Written last: an evaluator that dies before is not taken to have done its work.
    write_result(&job.model_dir.join("eval"), &checkpoint, &scores)?;
    Ok(Some((scores, exports)))
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
    let failed = |error: std::io::Error| {
        Diagnostic::error(
            Code::E9002,
            format!("{} cannot be written: {error}", folder.display()),
        )
        .help("check the disk and the folder")
    };
    let path = folder.join("metrics.jsonl");
    let line = format!("{result}\n");
    if is_remote(folder) {
        // Objects do not grow: nobody else writes this one.
        let mut text = read(&path)?.unwrap_or_default();
        text.extend_from_slice(line.as_bytes());
        write_atomically(&path, &text)?;
    } else {
        std::fs::create_dir_all(folder).map_err(failed)?;
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(failed)?;
    }
    Ok(write_atomically(
        &folder.join("result.json"),
        line.as_bytes(),
    )?)
}
