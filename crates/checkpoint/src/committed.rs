//! Committed checkpoints of a model directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use trainyard_model_dir::{Bucket, FileState, Leader, ModelDir, claim_above, write_atomically};

use crate::Error;
use crate::manifest_file::{self, MANIFEST};

/// Term of a checkpoint whose manifest is damaged. Real terms begin at 1.
pub(crate) const DAMAGED_TERM: u64 = 0;
/// Prefix of the folders of checkpoints.
pub(crate) const PREFIX: &str = "model.ckpt-";

/// A committed checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Steps applied.
    pub step: u64,
    /// Term of the chief that wrote the checkpoint; 0 if the manifest is damaged.
    pub epoch: u64,
    /// Folder of the checkpoint.
    pub path: PathBuf,
}

/// Returns the name of the folder of a step.
pub(crate) fn step_folder(step: u64) -> String {
    format!("{PREFIX}{step}")
}

/// Returns the name of a checkpoint in the state file.
pub(crate) fn state_name(found: &Found) -> String {
    found.path.file_name().map_or_else(
        || step_folder(found.step),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Returns whether a folder is a committed checkpoint, that is, whether it has a manifest.
///
/// # Errors
/// The folder or bucket cannot be accessed. It may hold a checkpoint.
pub fn is_committed(folder: &Path) -> Result<bool, Error> {
    Ok(ModelDir::at(folder)?.holds(MANIFEST)?)
}

/// Returns the committed checkpoints, oldest first: by term, then by step. A directory that does not exist has none.
///
/// # Errors
/// The folder or a manifest cannot be read. The order is then not known.
pub fn list(model_dir: &Path) -> Result<Vec<Found>, Error> {
    if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
        return list_in(&bucket);
    }
    let entries = match std::fs::read_dir(model_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", model_dir)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("read", model_dir))?;
        let name = entry.file_name();
        let step = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|step| step.parse().ok());
        let Some(step) = step else { continue };
        let path = entry.path();
        if !is_committed(&path)? {
            continue;
        }
        let epoch = match manifest_file::read(&path) {
            Ok(manifest) => manifest.cluster_epoch,
            Err(error) => match error.file_state() {
                FileState::Damaged => DAMAGED_TERM,
                // The checkpoint has been removed since.
                FileState::Missing => continue,
                FileState::Unreadable => return Err(error),
            },
        };
        found.push(Found { step, epoch, path });
    }
    found.sort_by_key(|found| (found.epoch, found.step));
    Ok(found)
}

/// Returns the checkpoint of a step among those that [`list`] has found. A model directory in a bucket may have one of each
/// term: that of the latest term counts.
pub fn of_step(found: &[Found], step: u64) -> Option<&Found> {
    found.iter().rfind(|found| found.step == step)
}

fn list_in(bucket: &Bucket) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for (name, begun) in attempts(bucket)? {
        let Some(text) = bucket.read(&format!("{name}/{MANIFEST}"))? else {
            continue;
        };
        let path = bucket.path().join(name);
        let (step, epoch) = manifest_file::parse(&text).map_or((begun, DAMAGED_TERM), |of| {
            (of.global_step, of.cluster_epoch)
        });
        found.push(Found { step, epoch, path });
    }
    found.sort_by(|one, other| {
        (one.epoch, one.step, &one.path).cmp(&(other.epoch, other.step, &other.path))
    });
    Ok(found)
}

/// Returns the folders in a bucket in which a checkpoint was begun, each with the step at its begin. The checkpoint may
/// have a later step.
pub(crate) fn attempts(bucket: &Bucket) -> Result<Vec<(String, u64)>, Error> {
    let step = |name: &str| name.strip_prefix(PREFIX)?.split('.').next()?.parse().ok();
    let folders = bucket
        .entries("")?
        .into_iter()
        .filter(|entry| entry.modified.is_none());
    Ok(folders
        .filter_map(|entry| step(&entry.name).map(|step| (entry.name, step)))
        .collect())
}

/// Returns the latest term of a checkpoint; 0 if there is none.
pub(crate) fn newest_epoch(model_dir: &Path) -> Result<u64, Error> {
    Ok(list(model_dir)?.last().map_or(0, |found| found.epoch))
}

/// Writes TensorFlow's state file, `checkpoint`, for tools and people. This program reads only manifests.
pub(crate) fn write_state_file(model_dir: &Path, names: &[String]) -> Result<(), Error> {
    let mut text = String::new();
    if let Some(last) = names.last() {
        text.push_str(&format!("model_checkpoint_path: \"{last}\"\n"));
    }
    for name in names {
        text.push_str(&format!("all_model_checkpoint_paths: \"{name}\"\n"));
    }
    Ok(write_atomically(
        &model_dir.join("checkpoint"),
        text.as_bytes(),
    )?)
}

/// Raises the directory's term by one, durably, and returns it. The first term is 1. The term is also above that of
/// every checkpoint: if the file of the term is lost or restored from a copy, new checkpoints still rank above old
/// ones. No two processes get the same term.
///
/// # Errors
/// The file cannot be read or written, or does not hold a number.
pub fn claim_epoch(model_dir: &Path) -> Result<u64, Error> {
    claim_above(model_dir, None, newest_epoch)
}

/// Claims a term like [`claim_epoch`], and records the leader. The term in `leader` is ignored.
///
/// # Errors
/// As [`claim_epoch`].
pub fn claim_epoch_as(model_dir: &Path, leader: Leader) -> Result<u64, Error> {
    claim_above(model_dir, Some(leader), newest_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_checkpoints_of_a_step_that_of_the_latest_term_counts() {
        let found = |epoch, step| Found {
            step,
            epoch,
            path: PathBuf::from(format!("{PREFIX}{step}.{epoch}")),
        };
        let all = [found(1, 100), found(1, 200), found(2, 100), found(2, 150)];
        let chosen = |step| of_step(&all, step).map(|found| found.epoch);
        assert_eq!(
            [chosen(100), chosen(150), chosen(200), chosen(300)],
            [Some(2), Some(2), Some(1), None]
        );
    }
}
