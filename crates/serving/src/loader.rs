//! Loader of a model: follows the checkpoints of its model directory, or its exports.
//!
//! A new checkpoint is read beside the version that answers, checked by its checksums and by one prediction, and then
//! replaces that version. A checkpoint that fails is refused, and the version that answers stays.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metrics::{counter, gauge};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use trainyard_checkpoint::{Checkpoint, Found, Origin, is_committed, list, pin};
use trainyard_daemon::CancellationToken;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::NamedColumns;
use trainyard_model::{AnyModel, Build, inline_options};
use trainyard_model_dir::Interval;
use trainyard_predictor::Predictor;
use trainyard_run_config::Job;
use trainyard_runtime::blocking;

use crate::batching::{BatchLimits, Pool, Queue};
use crate::config::ModelConfig;
use crate::exports::{self, Export};
use crate::models::{ServedModel, Version};
use crate::signature::Signature;
use crate::telemetry::VersionTelemetry;

/// Interval between looks at a model directory.
const POLL_INTERVAL: Interval = Interval {
    folder: Duration::from_millis(500),
    bucket: Duration::from_secs(5),
};

/// Loader of one model.
pub(crate) struct Loader {
    pub(crate) config: ModelConfig,
    pub(crate) build: Build,
    pub(crate) served: Arc<ServedModel>,
    pub(crate) limits: BatchLimits,
    /// Threads that predict, for all models.
    pub(crate) pool: Arc<Pool>,
}

/// What a loader knows of its model.
#[derive(Default)]
struct Following {
    /// Job and model, once the job file is there.
    model: Option<(Arc<Job>, Arc<AnyModel>)>,
    /// The checkpoint that answers: term and step.
    current: Option<(u64, u64)>,
    /// The export that answers.
    export: Option<PathBuf>,
    /// The checkpoint or export that was refused last, which is not tried again.
    refused: Option<PathBuf>,
    /// An export that answers, and whose checksums have not been compared yet.
    unverified: Option<Unverified>,
    /// The last problem that was logged.
    told: Option<String>,
}

/// An export that answers already.
struct Unverified {
    version: u64,
    path: PathBuf,
    origin: Arc<Origin>,
}

/// A checkpoint in memory or a mapped export, which has predicted a row.
struct Loaded {
    found: Found,
    predictor: Arc<Predictor>,
    columns: NamedColumns,
    signature: Signature,
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
        while !stop.is_cancelled() {
            let build = self.build;
            let config = self.config.clone();
            let served = Arc::clone(&self.served);
            let looked = blocking(move || {
                let outcome = look(&config, build, &served, &mut following);
                (outcome, following)
            });
            let Ok((outcome, returned)) = looked.await else {
                warn!(model = %name, "the model is not followed any more: its loader has failed");
                return;
            };
            following = returned;
            match outcome {
                Ok(Some(loaded)) => self.swap(loaded),
                Ok(None) => {}
                Err(problem) => self.tell(&problem, &mut following),
            }
            if let Some(version) = self.served.newest() {
                let age = version.written.elapsed().unwrap_or_default();
                gauge!("trainyard_serving_model_age_seconds", "model" => name.clone())
                    .set(age.as_secs_f64());
            }
            changed();
            tokio::select! {
                () = sleep(POLL_INTERVAL.of(&self.config.path)) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Lets a version answer.
    fn swap(&self, loaded: Loaded) {
        let Loaded {
            found,
            predictor,
            columns,
            signature,
            written,
            took,
        } = loaded;
        let name = &self.config.name;
        let telemetry = Arc::new(VersionTelemetry::new(name, found.step));
        let queue = Queue::new(
            predictor,
            self.limits,
            Arc::clone(&self.pool),
            Arc::clone(&telemetry),
        );
        let version = Version {
            number: found.step,
            written,
            columns,
            signature,
            queue,
            telemetry,
        };
        self.served.add(version, self.config.versions_keep);
        gauge!("trainyard_serving_model_version", "model" => name.clone()).set(found.step as f64);
        let seconds = took.as_secs_f64();
        info!(model = %name, version = found.step, seconds, "the version answers");
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
            self.served.refuse(version, message);
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

/// Whether a version that is refused answers.
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

/// Looks for a newer checkpoint or export, and loads it.
fn look(
    config: &ModelConfig,
    build: Build,
    served: &ServedModel,
    following: &mut Following,
) -> Result<Option<Loaded>, Refusal> {
    if let Some(unverified) = following.unverified.take() {
        exports::verify(&unverified.origin).map_err(|diagnostic| {
            following.refused = Some(unverified.path);
            Refusal {
                version: Some(unverified.version),
                standing: Standing::Answers,
                diagnostic,
            }
        })?;
    }
    if let Some(export) = config.export()? {
        return look_at_export(&export, (config, build), served, following);
    }
    let (job, model) = match &following.model {
        Some((job, model)) => (Arc::clone(job), Arc::clone(model)),
        None => {
            let job = config
                .job()
                .map_err(|mut problems| problems.swap_remove(0))?;
            let Some(job) = job else { return Ok(None) };
            let model = build(&job).map_err(Diagnostic::from)?;
            let job = Arc::new(job);
            let model = Arc::<AnyModel>::from(model);
            following.model = Some((Arc::clone(&job), Arc::clone(&model)));
            (job, model)
        }
    };
    let found = list(&job.model_dir).map_err(Diagnostic::from)?;
    let Some(newest) = found.into_iter().next_back() else {
        return Ok(None);
    };
    let identity = (newest.epoch, newest.step);
    if following.current >= Some(identity) || following.refused.as_ref() == Some(&newest.path) {
        return Ok(None);
    }
    match load(&job, model, &newest) {
        Ok(loaded) => {
            following.current = Some(identity);
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

/// Opens an export, unless it answers already.
fn look_at_export(
    export: &Export,
    (config, build): (&ModelConfig, Build),
    served: &ServedModel,
    following: &mut Following,
) -> Result<Option<Loaded>, Refusal> {
    let is_known = following.export.as_ref() == Some(&export.path)
        || following.refused.as_ref() == Some(&export.path);
    if is_known {
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
        let found = Found {
            step: version,
            epoch: 0,
            path: export.path.clone(),
        };
        let predictor = Arc::new(opened.predictor);
        let loaded = ready(&opened.job, predictor, (found, opened.written), began)?;
        Ok((loaded, unverified))
    };
    match open() {
        Ok((loaded, unverified)) => {
            following.unverified = unverified;
            following.export = Some(export.path.clone());
            Ok(Some(loaded))
        }
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

/// Reads a checkpoint, compares its checksums, and predicts a row.
fn load(job: &Job, model: Arc<AnyModel>, found: &Found) -> Result<Loaded, Diagnostic> {
    let began = Instant::now();
    // Without the right to write, a checkpoint may be removed while it is read. Then a newer one is there.
    let _pin = pin(&found.path, &pin_owner()).ok();
    let checkpoint = Arc::new(Checkpoint::open(&found.path)?);
    let created = checkpoint.manifest().created_unix_secs;
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(created);
    let predictor = Arc::new(Predictor::open(&Origin::Own(checkpoint), model)?);
    ready(job, predictor, (found.clone(), written), began)
}

/// Predicts a row.
fn ready(
    job: &Job,
    predictor: Arc<Predictor>,
    (found, written): (Found, SystemTime),
    began: Instant,
) -> Result<Loaded, Diagnostic> {
    let options = inline_options(job, None);
    let columns = NamedColumns::new(predictor.model().serving_schema(), &options);
    let signature = Signature::of(&predictor, &columns)
        .map_err(|error| Diagnostic::error(Code::E9001, error.to_string()))?;
    Ok(Loaded {
        found,
        predictor,
        columns,
        signature,
        written,
        took: began.elapsed(),
    })
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
