//! What TensorBoard shows of the evaluations: the metrics, and the checkpoint they are of, as TensorFlow's evaluator writes
//! them into `eval` (`tensorflow_estimator/python/estimator/estimator.py`, `_write_dict_to_summary`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use tracing::warn;
use trainyard_checkpoint::{Checkpoint, send};
use trainyard_event_file::{Error, Event, EventWriter};
use trainyard_model::Scores;
use trainyard_run_config::Job;
use trainyard_storage::is_remote;

/// A file of events in each folder of results. It is made with the first of them.
#[derive(Debug, Default)]
pub(crate) struct Events {
    writers: Mutex<BTreeMap<PathBuf, EventWriter>>,
}

impl Events {
    /// Tells of the scores of a checkpoint in a folder of the model folder. A disk that does not take them is warned of: they
    /// are in the results too.
    pub(crate) fn tell(&self, job: &Job, name: &str, checkpoint: &Checkpoint, scores: &Scores) {
        let folder = job.local_dir().join(name);
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write(&mut writers, checkpoint, &folder, scores) {
            warn!(%error, "TensorBoard will not show this evaluation");
            // What follows belongs into a new file.
            writers.remove(&folder);
        }
        // Objects do not grow: in a bucket, the file is put anew.
        if let Some(file) = writers
            .get(&folder)
            .map(EventWriter::path)
            .filter(|_| is_remote(&job.model_dir))
            && let Err(error) = send(
                file,
                &job.model_dir
                    .join(name)
                    .join(file.file_name().unwrap_or_default()),
            )
        {
            warn!(%error, "TensorBoard will not show this evaluation before the next");
        }
    }
}

fn write(
    writers: &mut BTreeMap<PathBuf, EventWriter>,
    checkpoint: &Checkpoint,
    folder: &Path,
    scores: &Scores,
) -> Result<(), Error> {
    let step = checkpoint.manifest().global_step;
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64());
    if !writers.contains_key(folder) {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        writers.insert(folder.to_owned(), EventWriter::create(folder, &host, now)?);
    }
    let Some(writer) = writers.get_mut(folder) else {
        return Ok(());
    };
    writer.write(&Event::scalars(
        now,
        step,
        scores
            .iter()
            .map(|(name, value)| (name.as_str(), *value as f32)),
    ))?;
    writer.write(&Event::text(
        now,
        step,
        "checkpoint_path",
        checkpoint.path().display().to_string(),
    ))
}
