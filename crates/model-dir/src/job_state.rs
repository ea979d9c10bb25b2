//! Job state: the phase of a job, for processes that are not connected to it, in `job_state.json` in the model
//! directory. In a bucket, each term has its own marker, `job_state/<epoch>`, so that a deposed chief cannot replace
//! the marker of its successor.

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::durable::replace;
use crate::model_dir::ModelDir;
use crate::{Error, files, records};

/// Folder of the markers in a bucket.
const MARKERS: &str = "job_state";

/// Phase of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// The job trains, or will train.
    Running,
    /// The job has reached its end.
    Done,
    /// The job was stopped, and can be resumed.
    Stopped,
    /// The job cannot continue.
    Failed,
}

impl JobPhase {
    /// Returns the name of the phase in the marker.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// The marker file. Only the chief writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// Phase of the job.
    pub phase: JobPhase,
    /// Steps applied.
    pub global_step: u64,
    /// Reason of the phase, in a sentence.
    pub reason: String,
    /// Term of the chief that wrote the marker.
    pub cluster_epoch: u64,
    /// Number of passes, if the job has ended because all of them were applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// The early stopping rule that has ended the job, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<serde_json::Value>,
    /// An earlier run has finished the job, and no training has opened since: the chief is starting, or its start has
    /// failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished_before: bool,
}

impl JobState {
    /// Returns whether the checkpoints are those of a job that has reached its end.
    pub fn is_finished(&self) -> bool {
        self.phase == JobPhase::Done || self.finished_before
    }

    /// Returns whether each term has a marker of its own. Then only a chief that has claimed a term writes one.
    pub fn is_of_a_term(model_dir: &Path) -> bool {
        ModelDir::is_bucket(model_dir)
    }

    /// Reads the marker; nothing if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is not a marker.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, Error> {
        if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
            return Ok(read_in(&bucket)?.map(|(state, _)| state));
        }
        let path = model_dir.join("job_state.json");
        files::read(&path)?
            .map(|text| parse(&text, &path))
            .transpose()
    }

    /// Reads the marker and the time at which it was written, by the clock of the file system or store.
    ///
    /// # Errors
    /// As [`JobState::read`].
    pub fn read_with_time(model_dir: &Path) -> Result<Option<(Self, SystemTime)>, Error> {
        if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
            return read_in(&bucket);
        }
        let path = model_dir.join("job_state.json");
        let written = std::fs::metadata(&path).and_then(|about| about.modified());
        Ok(Self::read(model_dir)?.zip(written.ok()))
    }

    /// Writes the marker atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, model_dir: &Path) -> Result<(), Error> {
        let path = model_dir.join("job_state.json");
        let text = files::encode(self, &path)?;
        if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
            return records::write(&bucket, MARKERS, self.cluster_epoch, text);
        }
        replace(&path, &text)
    }
}

/// Reads the marker of the latest term that has one.
fn read_in(bucket: &Bucket) -> Result<Option<(JobState, SystemTime)>, Error> {
    let Some(latest) = records::latest(bucket, MARKERS)? else {
        return Ok(None);
    };
    let name = records::name(MARKERS, latest.number);
    // The marker may have been replaced by a later one meanwhile. The next read finds that one.
    let Some(text) = bucket.read(&name)? else {
        return Ok(None);
    };
    Ok(Some((
        parse(&text, &bucket.path().join(name))?,
        latest.written,
    )))
}

fn parse(text: &[u8], path: &Path) -> Result<JobState, Error> {
    serde_json::from_slice(text).map_err(|error| Error::damaged(path, error.to_string()))
}
