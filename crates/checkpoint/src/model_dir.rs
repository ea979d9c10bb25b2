//! The model folder: its checkpoints, and what is noted beside them.

use std::path::{Path, PathBuf};

use crate::durable::write_atomically;
use crate::{Error, seal};

/// Name of the manifest in a checkpoint's folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Epoch of a checkpoint whose manifest cannot be read: below all others, which begin at 1.
pub(crate) const UNREADABLE: u64 = 0;
/// What the folder of a checkpoint begins with.
const PREFIX: &str = "model.ckpt-";

/// A committed checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Steps applied.
    pub step: u64,
    /// Incarnation of the chief that wrote it; 0 where the manifest cannot be read.
    pub epoch: u64,
    /// Its folder.
    pub path: PathBuf,
}

/// Returns the name of a step's folder.
pub fn step_folder(step: u64) -> String {
    format!("{PREFIX}{step}")
}

/// Returns the committed checkpoints, oldest first: by epoch, then by step. A folder that does not exist holds none.
///
/// # Errors
/// The folder cannot be read.
pub fn list(model_dir: &Path) -> Result<Vec<Found>, Error> {
    let entries = match std::fs::read_dir(model_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", model_dir)(error)),
    };
    let mut found = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let step =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|step| step.parse().ok());
        let Some(step) = step else { continue };
        let path = entry.path();
        if !path.join(MANIFEST).is_file() {
            continue;
        }
        let epoch = seal::read(&path).map_or(UNREADABLE, |manifest| manifest.cluster_epoch);
        found.push(Found { step, epoch, path });
    }
    found.sort_by_key(|found| (found.epoch, found.step));
    Ok(found)
}

/// Writes TensorFlow's state file, `checkpoint`. It is for tools and people; our readers go by manifests.
pub(crate) fn write_state_file(model_dir: &Path, names: &[String]) -> Result<(), Error> {
    let mut text = String::new();
    if let Some(last) = names.last() {
        text.push_str(&format!("model_checkpoint_path: \"{last}\"\n"));
    }
    for name in names {
        text.push_str(&format!("all_model_checkpoint_paths: \"{name}\"\n"));
    }
    write_atomically(&model_dir.join("checkpoint"), text.as_bytes())
}

/// Returns the folder's id, if it has one.
pub fn known_cluster_id(model_dir: &Path) -> Option<u128> {
    let text = std::fs::read_to_string(model_dir.join("cluster_id")).ok()?;
    u128::from_str_radix(text.trim(), 16).ok()
}

/// Notes, durably, that what the servers hold is prepared anew in this epoch: what any of them still has of before is no
/// part of the job any more.
///
/// # Errors
/// The file cannot be written.
pub fn note_prepared(model_dir: &Path, epoch: u64) -> Result<(), Error> {
    write_atomically(&model_dir.join("prepared_epoch"), format!("{epoch}\n").as_bytes())
}

/// Returns the epoch in which what the servers hold was prepared; 0 = none is known.
pub fn prepared_epoch(model_dir: &Path) -> u64 {
    let text = std::fs::read_to_string(model_dir.join("prepared_epoch")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
