//! Event files of the evaluations for TensorBoard: the metrics and the path of the checkpoint, as TensorFlow's
//! evaluator writes them into `eval` (`tensorflow_estimator/python/estimator/estimator.py`, `_write_dict_to_summary`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use tracing::warn;
use trainyard_checkpoint::Checkpoint;
use trainyard_model::Scores;
use trainyard_model_dir::show;
use trainyard_run_config::Job;
use trainyard_tensorflow_formats::event_file::{Error, Event, EventWriter};

/// One event file in each folder of results, created with its first event.
#[derive(Debug, Default)]
pub(crate) struct Events {
    writers: Mutex<BTreeMap<PathBuf, EventWriter>>,
}

impl Events {
    /// Writes the scores of a checkpoint into the event file of a folder of the model directory. A failed write is only
    /// a warning, because the results hold the scores, too.
    pub(crate) fn tell(&self, job: &Job, name: &str, checkpoint: &Checkpoint, scores: &Scores) {
        let folder = job.local_dir().join(name);
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write(&mut writers, checkpoint, &folder, scores) {
            warn!(%error, "TensorBoard will not show this evaluation");
            // The next event starts a new file.
            writers.remove(&folder);
        }
        if let Some(file) = writers.get(&folder).map(EventWriter::path)
            && let Err(error) = show(file, &job.model_dir.join(name))
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
