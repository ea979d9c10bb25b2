//! How a job stands, for those who are not connected to it: `job_state.json` in the model folder.

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::durable::write_atomically;

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
    /// Incarnation of the chief that wrote it.
    pub cluster_epoch: u64,
    /// Passes over the data, where the job has ended since all of them had been applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
}

impl JobState {
    /// Reads the marker; nothing where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not a marker.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, Error> {
        let path = model_dir.join("job_state.json");
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| Error::damaged(&path, error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// Reads the marker, and when it was written, by the clock of the folder.
    ///
    /// # Errors
    /// As [`JobState::read`].
    pub fn read_with_time(model_dir: &Path) -> Result<Option<(Self, SystemTime)>, Error> {
        let path = model_dir.join("job_state.json");
        let written = std::fs::metadata(&path).and_then(|about| about.modified());
        Ok(Self::read(model_dir)?.zip(written.ok()))
    }

    /// Writes the marker in one step.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, model_dir: &Path) -> Result<(), Error> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        write_atomically(&model_dir.join("job_state.json"), &text)
    }
}
