//! How a job stands, for those who are not connected to it: `job_state.json` in the model folder. In a bucket each epoch has a
//! marker of its own, `job_state/<epoch>`, so that a chief that was deposed replaces nothing of its successor's.

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::durable::replace;
use crate::{Error, files, records};

/// Folder of the markers in a bucket.
const MARKERS: &str = "job_state";

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobPhase {
    /// It trains, or will.
    Running,
    /// It has reached its end.
    Done,
    /// It was told to stop, and may go on later.
    Stopped,
    /// It cannot go on.
    Failed,
}

/// The marker file, written by the chief alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// How the job stands.
    pub phase: JobPhase,
    /// Steps applied.
    pub global_step: u64,
    /// Why, in a sentence.
    pub reason: String,
    /// Term of the chief that wrote it.
    pub cluster_epoch: u64,
    /// Passes over the data, where the job has ended since all of them had been applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// The rule by which evaluations have ended the job, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<serde_json::Value>,
}

impl JobState {
    /// Reads the marker; nothing where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not a marker.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, Error> {
        if let Some(bucket) = Bucket::of(model_dir)? {
            return Ok(read_in(&bucket)?.map(|(state, _)| state));
        }
        let path = model_dir.join("job_state.json");
        files::read(&path)?
            .map(|text| parse(&text, &path))
            .transpose()
    }

    /// Reads the marker, and when it was written, by the clock of the folder.
    ///
    /// # Errors
    /// As [`JobState::read`].
    pub fn read_with_time(model_dir: &Path) -> Result<Option<(Self, SystemTime)>, Error> {
        if let Some(bucket) = Bucket::of(model_dir)? {
            return read_in(&bucket);
        }
        let path = model_dir.join("job_state.json");
        let written = std::fs::metadata(&path).and_then(|about| about.modified());
        Ok(Self::read(model_dir)?.zip(written.ok()))
    }

    /// Writes the marker in one step.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, model_dir: &Path) -> Result<(), Error> {
        let path = model_dir.join("job_state.json");
        let text = files::encode(self, &path)?;
        if let Some(bucket) = Bucket::of(model_dir)? {
            return records::write(&bucket, MARKERS, self.cluster_epoch, text);
        }
        replace(&path, &text)
    }
}

/// Reads the marker of the latest epoch that has one.
fn read_in(bucket: &Bucket) -> Result<Option<(JobState, SystemTime)>, Error> {
    let Some(latest) = records::latest(bucket, MARKERS)? else {
        return Ok(None);
    };
    let name = records::name(MARKERS, latest.number);
    // It may have been replaced by a later one meanwhile: whoever looks again sees that.
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
