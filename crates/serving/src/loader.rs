//! Loader of a model: follows the published cuts and the checkpoints of its model directory, or its exports.
//!
//! New values are read beside the version that answers, checked by their checksums and by one prediction, and then replace
//! that version. A checkpoint or cut that fails is refused, and the version that answers stays.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::{counter, gauge};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};
use trainyard_checkpoint::{
    Checkpoint, Found, Manifest, Origin, is_committed, list, of_step, pin, published_cuts,
};
use trainyard_daemon::CancellationToken;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::NamedColumns;
use trainyard_model::{Build, inline_options};
use trainyard_model_dir::{Interval, JobState, ModelDir};
use trainyard_predictor::Predictor;
use trainyard_run_config::Job;
use trainyard_runtime::blocking;

use crate::batching::{BatchLimits, Pool, Queue};
use crate::config::ModelConfig;
use crate::cuts::{Cut, Cuts, JobOf};
use crate::exports::{self, Export};
use crate::following::{Current, Following, Sight, Source, Training, Unverified};
use crate::models::{RefusedVersion, ServedModel, Version};
use crate::signature::Signature;
use crate::telemetry::VersionTelemetry;
use crate::unlisted::UnlistedValues;

/// Interval between looks at a model directory.
const POLL_INTERVAL: Interval = Interval {
    folder: Duration::from_millis(500),
    bucket: Duration::from_secs(5),
};

/// Interval between updates of the age while the loader looks at a model directory.
const AGE_INTERVAL: Duration = Duration::from_secs(1);

/// Loader of one model.
pub(crate) struct Loader {
    pub(crate) config: ModelConfig,
    pub(crate) build: Build,
    pub(crate) served: Arc<ServedModel>,
    pub(crate) limits: BatchLimits,
    /// Threads that predict, for all models.
    pub(crate) pool: Arc<Pool>,
}

/// A checkpoint or a published cut in memory or a mapped export, which has predicted a row.
struct Loaded {
    step: u64,
    source: Source,
    predictor: Arc<Predictor>,
    columns: NamedColumns,
    signature: Signature,
    unlisted: UnlistedValues,
    written: SystemTime,
    took: Duration,
}

impl Loader {
    /// Follows the model until `stop` is cancelled. Calls `changed` after each look.
    pub(crate) async fn follow(self, changed: impl Fn(), stop: CancellationToken) {
        let mut following = Following::default();
        self.served.label(self.config.labels.clone());
        let name = self.config.name.clone();
        counter!("trainyard_serving_versions_refused_total", "model" => name.clone()).absolute(0);
        counter!("trainyard_serving_looks_failed_total", "model" => name.clone()).absolute(0);
        counter!("trainyard_serving_cuts_applied_total", "model" => name.clone()).absolute(0);
        while !stop.is_cancelled() {
            let build = self.build;
            let config = self.config.clone();
            let served = Arc::clone(&self.served);
            let looked = blocking(move || {
                let outcome = look(&config, build, &served, &mut following);
                let labelled = match &outcome {
                    Ok(Some(newest)) if !following.has_labelled => {
                        following.has_labelled = true;
                        labelled(&config, build, newest, &mut following)
                    }
                    _ => Vec::new(),
                };
                (outcome, labelled, following)
            });
            let mut looked = pin!(looked);
            let looked = loop {
                tokio::select! {
                    looked = &mut looked => break looked,
                    // A store that is away may hold up the look for a minute.
                    () = sleep(AGE_INTERVAL) => self.tell_age(),
                }
            };
            let Ok((outcome, labelled, returned)) = looked else {
                warn!(model = %name, "the model is not followed any more: its loader has failed");
                return;
            };
            following = returned;
            if outcome.is_ok() && following.found_again() {
                // The next loss is told again.
                following.told = None;
                info!(model = %name, "the versions of the model are there again");
            }
            match outcome {
                Ok(Some(loaded)) => {
                    // A version removes those above it, so the newest is the last.
                    labelled.into_iter().for_each(|older| self.swap(older));
                    self.swap(loaded);
                }
                Ok(None) => {}
                Err(problem) => self.tell(&problem, &mut following),
            }
            self.tell_age();
            changed();
            let known = following.job.known();
            let folder = known.map_or(&self.config.path, |known| &known.job.model_dir);
            tokio::select! {
                () = sleep(POLL_INTERVAL.of(folder)) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Sets the age of the values that answer.
    fn tell_age(&self) {
        if let Some(version) = self.served.newest() {
            let age = version.written.elapsed().unwrap_or_default();
            let name = self.config.name.clone();
            gauge!("trainyard_serving_model_age_seconds", "model" => name).set(age.as_secs_f64());
        }
    }

    /// Lets a version answer.
    fn swap(&self, loaded: Loaded) {
        let Loaded {
            step,
            source,
            predictor,
            columns,
            signature,
            unlisted,
            written,
            took,
        } = loaded;
        let name = &self.config.name;
        // Cuts come every few seconds, and each value of a label stays in memory.
        let label = match source {
            Source::PublishedCut => "published".to_owned(),
            Source::Checkpoint | Source::Export => step.to_string(),
        };
        let telemetry = Arc::new(VersionTelemetry::new(name, label));
        let queue = Queue::new(
            predictor,
            self.limits,
            Arc::clone(&self.pool),
            Arc::clone(&telemetry),
            unlisted,
        );
        let version = Version {
            number: step,
            written,
            columns,
            signature,
            queue,
            telemetry,
        };
        self.served.add(version, self.config.versions_keep);
        gauge!("trainyard_serving_model_version", "model" => name.clone()).set(step as f64);
        let seconds = took.as_secs_f64();
        match source {
            Source::PublishedCut => {
                counter!("trainyard_serving_cuts_applied_total", "model" => name.clone())
                    .increment(1);
                debug!(model = %name, version = step, seconds, "the cut answers");
            }
            Source::Checkpoint | Source::Export => {
                info!(model = %name, version = step, seconds, "the version answers");
            }
        }
    }

    /// Logs a problem once, and shows it in the status of the model.
    fn tell(&self, problem: &Refusal, following: &mut Following) {
        if problem.version.is_none() {
            let name = self.config.name.clone();
            counter!("trainyard_serving_looks_failed_total", "model" => name).increment(1);
        }
        let message = problem.diagnostic.message.clone();
        let line = format!("{:?}: {message}", problem.version);
        if following.told.as_ref() == Some(&line) {
            return;
        }
        following.told = Some(line);
        let name = &self.config.name;
        if let Some(version) = problem.version {
            counter!("trainyard_serving_versions_refused_total", "model" => name.clone())
                .increment(1);
            // Clients read it, and the message may have paths of this host.
            let code = problem.diagnostic.code;
            let status = if [Code::E3009, Code::E3010].contains(&code) {
                tonic::Code::ResourceExhausted
            } else {
                tonic::Code::DataLoss
            };
            self.served.refuse(RefusedVersion {
                number: version,
                status,
                reason: format!("{}: the log of the server says why", code.name),
            });
        }
        if let (Standing::Answers, Some(version)) = (problem.standing, problem.version) {
            self.served.withdraw(version);
        }
        let stays = match self.served.newest() {
            Some(version) => format!("version {} goes on answering", version.number),
            None => "no version answers yet".to_owned(),
        };
        warn!(model = %name, "{}; {stays}", problem.diagnostic.log_line());
    }
}

/// The reason why a look has found nothing to load.
struct Refusal {
    /// The version at fault; absent = the model as a whole.
    version: Option<u64>,
    standing: Standing,
    diagnostic: Diagnostic,
}

/// Part of a refused version in the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has not answered.
    Aside,
    /// It answers, and must not any more.
    Answers,
}

impl From<Diagnostic> for Refusal {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            version: None,
            standing: Standing::Aside,
            diagnostic,
        }
    }
}

/// Looks for newer values, and loads them.
fn look(
    config: &ModelConfig,
    build: Build,
    served: &ServedModel,
    following: &mut Following,
) -> Result<Option<Loaded>, Refusal> {
    if let Some(unverified) = following.unverified.take() {
        match exports::verify(&unverified.origin) {
            Ok(()) => {}
            Err(problem) if is_of_store(&problem) => {
                following.unverified = Some(unverified);
                return Err(problem.into());
            }
            Err(diagnostic) => {
                following.refused = Some(unverified.path);
                return Err(Refusal {
                    version: Some(unverified.version),
                    standing: Standing::Answers,
                    diagnostic,
                });
            }
        }
    }
    if let Some(export) = config.export()? {
        return look_at_export(&export, (config, build), served, following);
    }
    let Some(built) = following.job.get(config, build)? else {
        refuse_loss(&config.path, following)?;
        return Ok(None);
    };
    let model_dir = &built.job.model_dir;
    if has_ended(&built.job) {
        following.cuts = Cuts::default();
        return look_at_checkpoints((config, build), model_dir, following, Training::HasEnded);
    }
    let job = &mut following.job;
    let mut job_of = |manifest: &Manifest| job.of_values(manifest, config, build);
    let cut = following.cuts.look(model_dir, &mut job_of);
    let cut = cut.and_then(|cut| match cut {
        Some(cut) => shown(config, following, cut),
        None => Ok(None),
    });
    // Cuts come more often than checkpoints.
    if matches!(cut, Ok(Some(_))) {
        return Ok(cut?);
    }
    if following.cuts.are_fresh() {
        let cut = cut?;
        refuse_loss(model_dir, following)?;
        return Ok(cut);
    }
    let loaded = look_at_checkpoints((config, build), model_dir, following, Training::GoesOn)?;
    match (loaded, cut) {
        (None, cut) => Ok(cut?),
        (loaded, Ok(_)) => Ok(loaded),
        (loaded, Err(problem)) => {
            warn!(model = %config.name, "{}", problem.log_line());
            Ok(loaded)
        }
    }
}

/// Refuses a folder in which no version is left, after one of them was loaded.
///
/// # Errors
/// The folder or its versions are not there any more, or it cannot be read.
fn refuse_loss(folder: &Path, following: &mut Following) -> Result<(), Diagnostic> {
    match following.loss(|| sight(folder))? {
        Some(loss) => Err(loss.problem(folder)),
        None => Ok(()),
    }
}

/// Looks for the versions in a folder in which no whole export was found.
fn sight(folder: &Path) -> Result<Sight, Diagnostic> {
    // A bucket that is away answers with an error, and a prefix without objects is no folder that could be lost.
    if ModelDir::is_bucket(folder)
        || !published_cuts(folder, 0)?.is_empty()
        || !list(folder)?.is_empty()
    {
        return Ok(Sight::Versions);
    }
    match folder.try_exists() {
        Ok(false) => Ok(Sight::NoFolder),
        _ => Ok(Sight::NoVersion),
    }
}

/// Looks for a newer checkpoint, and loads it.
fn look_at_checkpoints(
    (config, build): (&ModelConfig, Build),
    model_dir: &Path,
    following: &mut Following,
    training: Training,
) -> Result<Option<Loaded>, Refusal> {
    let found = list(model_dir).map_err(Diagnostic::from)?;
    let Some(newest) = found.into_iter().next_back() else {
        refuse_loss(model_dir, following)?;
        return Ok(None);
    };
    let is_refused = following.refused.as_ref() == Some(&newest.path);
    if is_refused || !following.takes_checkpoint(&newest, training) {
        return Ok(None);
    }
    if !following.turns.has_come(Instant::now(), draw) {
        return Ok(None);
    }
    let mut job_of = |manifest: &Manifest| following.job.of_values(manifest, config, build);
    match load(&newest, &mut job_of) {
        Ok(loaded) => {
            following.turns.read(loaded.took);
            following.current = Some(Current {
                epoch: newest.epoch,
                step: newest.step,
                source: Source::Checkpoint,
            });
            Ok(Some(loaded))
        }
        // The chief has removed the checkpoint before it saw the pin. A newer one is there.
        Err(_) if !is_committed(&newest.path).unwrap_or(true) => Ok(None),
        Err(diagnostic) => {
            // Damage stays, and a store that is away comes back.
            if [Code::E3001, Code::E3002, Code::E9001].contains(&diagnostic.code) {
                following.refused = Some(newest.path.clone());
            }
            Err(Refusal {
                version: Some(newest.step),
                standing: Standing::Aside,
                diagnostic,
            })
        }
    }
}

/// Loads the versions with labels below the newest one, oldest first, which a server that was restarted has not seen as
/// the newest. What cannot be loaded is logged.
fn labelled(
    config: &ModelConfig,
    build: Build,
    newest: &Loaded,
    following: &mut Following,
) -> Vec<Loaded> {
    let Some(known) = following.job.known() else {
        return Vec::new();
    };
    let found = match list(&known.job.model_dir) {
        Ok(found) => found,
        Err(error) => {
            let problem =
                Diagnostic::from(error).note("the versions that have labels are not loaded");
            warn!(model = %config.name, "{}", problem.log_line());
            return Vec::new();
        }
    };
    let mut job_of = |manifest: &Manifest| following.job.of_values(manifest, config, build);
    let steps: BTreeSet<u64> = config.labels.values().copied().collect();
    let mut all = Vec::new();
    for step in steps.range(..newest.step) {
        let loaded = match of_step(&found, *step) {
            Some(found) => load(found, &mut job_of),
            None => Err(Diagnostic::error(
                Code::E3004,
                format!("there is no checkpoint of step {step}, which has a label"),
            )),
        };
        match loaded {
            Ok(loaded) => all.push(loaded),
            Err(problem) => warn!(model = %config.name, "{}", problem.log_line()),
        }
    }
    all
}

/// Opens an export, unless it answers already.
fn look_at_export(
    export: &Export,
    (config, build): (&ModelConfig, Build),
    served: &ServedModel,
    following: &mut Following,
) -> Result<Option<Loaded>, Refusal> {
    let is_known = following.export.as_ref() == Some(&export.path)
        || following.refused.as_ref() == Some(&export.path);
    if is_known || !following.turns.has_come(Instant::now(), draw) {
        return Ok(None);
    }
    let began = Instant::now();
    let open = || {
        let opened = export.open(build, &config.set)?;
        let is_alone = served.newest().is_none();
        if !is_alone {
            exports::verify(&opened.files)?;
        }
        let version = opened.version(export);
        let unverified = is_alone.then(|| Unverified {
            version,
            path: export.path.clone(),
            origin: Arc::clone(&opened.files),
        });
        let loaded = Loaded {
            step: version,
            source: Source::Export,
            written: opened.written,
            took: began.elapsed(),
            ..predicted(&opened.job, Arc::new(opened.predictor))?
        };
        Ok((loaded, unverified))
    };
    match open() {
        Ok((loaded, unverified)) => {
            following.turns.read(loaded.took);
            following.unverified = unverified;
            following.export = Some(export.path.clone());
            Ok(Some(loaded))
        }
        Err(problem) if is_of_store(&problem) => Err(problem.into()),
        Err(diagnostic) => {
            following.refused = Some(export.path.clone());
            Err(Refusal {
                version: Some(export.second),
                standing: Standing::Aside,
                diagnostic,
            })
        }
    }
}

/// Returns whether a store could not be reached, or has refused the credentials. It comes back, and the export is as it was.
fn is_of_store(problem: &Diagnostic) -> bool {
    [Code::E2003, Code::E1202].contains(&problem.code)
}

/// Returns whether a job has ended. Then its last checkpoint answers, and its cuts are not read.
fn has_ended(job: &Job) -> bool {
    // A marker that cannot be read is like that of a job that trains: cuts and checkpoints are followed.
    let state = JobState::read(&job.model_dir).ok().flatten();
    state.is_some_and(|state| state.is_finished())
}

/// Returns the version of a cut; nothing if training has gone back behind the version that answers.
fn shown(
    config: &ModelConfig,
    following: &mut Following,
    cut: Cut,
) -> Result<Option<Loaded>, Diagnostic> {
    let step = cut.step;
    if !following.takes_cut(step) {
        if !following.is_ahead {
            let model = &config.name;
            info!(%model, step, "training has gone back: the answers stay until it has caught up");
        }
        following.is_ahead = true;
        return Ok(None);
    }
    let loaded = predicted(&cut.built.job, cut.predictor)?;
    following.is_ahead = false;
    following.current = Some(Current {
        epoch: cut.epoch,
        step,
        source: Source::PublishedCut,
    });
    Ok(Some(Loaded {
        step,
        source: Source::PublishedCut,
        written: cut.written,
        took: cut.took,
        ..loaded
    }))
}

/// Reads a checkpoint, compares its checksums, and predicts a row.
fn load(found: &Found, job_of: &mut JobOf<'_>) -> Result<Loaded, Diagnostic> {
    let began = Instant::now();
    // Without the right to write, a checkpoint may be removed while it is read. Then a newer one is there.
    let _pin = pin(&found.path, &pin_owner()).ok();
    let checkpoint = Arc::new(Checkpoint::open(&found.path)?);
    let created = checkpoint.manifest().created_unix_secs;
    let built = job_of(checkpoint.manifest())?;
    let model = Arc::clone(&built.model);
    let predictor = Arc::new(Predictor::open(&Origin::Own(checkpoint), model)?);
    Ok(Loaded {
        step: found.step,
        written: SystemTime::UNIX_EPOCH + Duration::from_secs(created),
        took: began.elapsed(),
        ..predicted(&built.job, predictor)?
    })
}

/// Predicts a row, which checks the model and gives its signature.
fn predicted(job: &Job, predictor: Arc<Predictor>) -> Result<Loaded, Diagnostic> {
    let options = inline_options(job, None);
    let columns = NamedColumns::new(predictor.model().serving_schema(), &options);
    let signature = Signature::of(&predictor, &columns, Some(job))
        .map_err(|error| Diagnostic::error(Code::E9001, error.to_string()))?;
    Ok(Loaded {
        step: 0,
        source: Source::Checkpoint,
        unlisted: UnlistedValues::new(&job.features, predictor.model().serving_schema()),
        predictor,
        columns,
        signature,
        written: SystemTime::UNIX_EPOCH,
        took: Duration::ZERO,
    })
}

/// Draws a number from 0 to 1.
fn draw() -> f64 {
    f64::from(RandomState::new().build_hasher().finish() as u32) / f64::from(u32::MAX)
}

/// Returns the name of this process in the pins of the checkpoints that it reads. In a container every process may have
/// id 1, so the random keys of the standard library's hasher make the name unique.
fn pin_owner() -> String {
    format!(
        "serving-{}-{:08x}",
        std::process::id(),
        RandomState::new().build_hasher().finish() as u32
    )
}
