//! The models that are served, and their versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::RwLock;
use trainyard_diagnostic::suggest;
use trainyard_input::NamedColumns;

use crate::Error;
use crate::batching::{Predictions, Queue};
use crate::filling::Filled;
use crate::intake::{AnswerRoom, Intake};
use crate::signature::Signature;
use crate::telemetry::VersionTelemetry;

/// A version of a model, in memory.
#[derive(Debug)]
pub(crate) struct Version {
    /// Global step of a checkpoint.
    pub(crate) number: u64,
    /// Time at which the values were written.
    pub(crate) written: SystemTime,
    pub(crate) columns: NamedColumns,
    pub(crate) signature: Signature,
    pub(crate) queue: Queue,
    pub(crate) telemetry: Arc<VersionTelemetry>,
}

impl Version {
    /// Predicts a batch. Returns the room of its answer besides.
    ///
    /// # Errors
    /// The answer has no room; see [`Queue::predict`].
    pub(crate) async fn predict(
        &self,
        filled: Filled,
        intake: &Intake,
    ) -> Result<(Predictions, AnswerRoom), Error> {
        let row_bytes = self.signature.row_bytes;
        let Filled {
            batch,
            made_bytes,
            room: _of_batch,
            ..
        } = filled;
        let room = intake.admit_answer(batch.rows, row_bytes).await?;
        Ok((self.queue.predict(batch, made_bytes).await?, room))
    }
}

/// The version that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// The newest.
    Newest,
    /// A number.
    Number(u64),
    /// A label of the configuration.
    Label(&'a str),
}

/// A version that could not be loaded.
#[derive(Debug, Clone)]
pub(crate) struct RefusedVersion {
    pub(crate) number: u64,
    /// `RESOURCE_EXHAUSTED`: there was no memory or no open file for it. Otherwise `DATA_LOSS`.
    pub(crate) status: tonic::Code,
    pub(crate) reason: String,
}

/// A model that is served.
#[derive(Debug, Default)]
pub(crate) struct ServedModel {
    versions: RwLock<BTreeMap<u64, Arc<Version>>>,
    labels: RwLock<BTreeMap<String, u64>>,
    refused: RwLock<Option<RefusedVersion>>,
}

impl ServedModel {
    /// Returns the versions that answer, oldest first.
    pub(crate) fn versions(&self) -> Vec<Arc<Version>> {
        self.versions.read().values().cloned().collect()
    }

    /// Returns the newest version that answers.
    pub(crate) fn newest(&self) -> Option<Arc<Version>> {
        self.versions.read().values().next_back().cloned()
    }

    /// Returns the version that could not be loaded last, and why.
    pub(crate) fn refused(&self) -> Option<RefusedVersion> {
        self.refused.read().clone()
    }

    /// Records that a version could not be loaded.
    pub(crate) fn refuse(&self, refused: RefusedVersion) {
        *self.refused.write() = Some(refused);
    }

    /// Removes a version that has turned out to be damaged. It answers the requests that hold it.
    pub(crate) fn withdraw(&self, version: u64) {
        self.versions.write().remove(&version);
    }

    /// Sets the labels.
    pub(crate) fn label(&self, labels: BTreeMap<String, u64>) {
        *self.labels.write() = labels;
    }

    /// Adds a version, and removes all but the newest `keep` and those that have a label. A removed version answers the
    /// requests that hold it. A job that has begun again has lower steps: the versions above the new one are of the run
    /// before, and are removed.
    pub(crate) fn add(&self, version: Version, keep: usize) {
        let labels = self.labels.read();
        let mut versions = self.versions.write();
        versions.retain(|number, _| *number < version.number);
        versions.insert(version.number, Arc::new(version));
        let newest: Vec<u64> = versions.keys().rev().take(keep.max(1)).copied().collect();
        versions.retain(|number, _| {
            newest.contains(number) || labels.values().any(|labelled| labelled == number)
        });
        *self.refused.write() = None;
    }
}

/// All models that are served, by name.
#[derive(Debug, Default)]
pub(crate) struct Models {
    models: RwLock<BTreeMap<String, Arc<ServedModel>>>,
}

impl Models {
    /// Returns the models, by name.
    pub(crate) fn all(&self) -> Vec<(String, Arc<ServedModel>)> {
        let models = self.models.read();
        let models = models.iter();
        models
            .map(|(name, model)| (name.clone(), Arc::clone(model)))
            .collect()
    }

    /// Adds a model, or returns the model of that name.
    pub(crate) fn add(&self, name: &str) -> Arc<ServedModel> {
        Arc::clone(self.models.write().entry(name.to_owned()).or_default())
    }

    /// Removes a model. Its versions answer the requests that hold them.
    pub(crate) fn remove(&self, name: &str) {
        self.models.write().remove(name);
    }

    /// Returns a model.
    ///
    /// # Errors
    /// There is none of that name. The message says which there are.
    pub(crate) fn model(&self, name: &str) -> Result<Arc<ServedModel>, Error> {
        let models = self.models.read();
        if let Some(model) = models.get(name) {
            return Ok(Arc::clone(model));
        }
        let name = crate::text::shown(name);
        let known: Vec<&str> = models.keys().map(String::as_str).collect();
        let help = match suggest(&name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("models: {}", known.join(", ")),
        };
        Err(Error::NotFound(format!(
            "model `{name}` is not served; {help}"
        )))
    }

    /// Returns a version of a model.
    ///
    /// # Errors
    /// There is no such model, version or label, or no version answers yet.
    pub(crate) fn version(&self, name: &str, wanted: Wanted<'_>) -> Result<Arc<Version>, Error> {
        let model = self.model(name)?;
        let versions = model.versions.read();
        let Some(newest) = versions.values().next_back() else {
            return Err(Error::Unavailable(format!(
                "model `{name}` has no version that answers yet: {}",
                match model.refused() {
                    Some(RefusedVersion { number, reason, .. }) => {
                        format!("version {number}: {reason}")
                    }
                    None => "it waits for a checkpoint".to_owned(),
                }
            )));
        };
        let number = match wanted {
            Wanted::Newest => return Ok(Arc::clone(newest)),
            Wanted::Number(number) => number,
            Wanted::Label(label) => {
                let labels = model.labels.read();
                *labels.get(label).ok_or_else(|| {
                    let known: Vec<&str> = labels.keys().map(String::as_str).collect();
                    let label = crate::text::shown(label);
                    let known = match known.as_slice() {
                        [] => "it has none".to_owned(),
                        known => format!("labels: {}", known.join(", ")),
                    };
                    Error::NotFound(format!("model `{name}` has no label `{label}`; {known}"))
                })?
            }
        };
        versions.get(&number).cloned().ok_or_else(|| {
            let known: Vec<String> = versions.keys().map(u64::to_string).collect();
            Error::NotFound(format!(
                "model `{name}` has no version {number}; versions: {}",
                known.join(", ")
            ))
        })
    }
}
