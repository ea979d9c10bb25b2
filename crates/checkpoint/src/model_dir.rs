//! The model folder: its checkpoints, and what is noted beside them.

use std::path::{Path, PathBuf};

use crate::bucket::Bucket;
use crate::durable::replace;
use crate::{Error, place, records, seal};

/// Folder of the epochs in which servers were prepared, in a bucket.
const PREPARED: &str = "prepared";

/// Name of the manifest in a checkpoint's folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// What becomes of the manifest of a damaged checkpoint in a bucket.
pub(crate) const DAMAGED: &str = "damaged.json";
/// Epoch of a checkpoint whose manifest cannot be read: below all others, which begin at 1.
pub(crate) const UNREADABLE: u64 = 0;
/// What the folder of a checkpoint begins with.
pub(crate) const PREFIX: &str = "model.ckpt-";

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

/// Returns the name by which the state file calls a checkpoint.
pub(crate) fn state_name(found: &Found) -> String {
    found.path.file_name().map_or_else(|| step_folder(found.step), |name| name.to_string_lossy().into_owned())
}

/// Returns whether a folder is a committed checkpoint: whether it has a manifest.
///
/// # Errors
/// The bucket cannot be read. A folder of this machine that cannot be looked at is taken for none.
pub fn is_committed(folder: &Path) -> Result<bool, Error> {
    match Bucket::of(folder)? {
        Some(bucket) => Ok(bucket.bytes(MANIFEST)?.is_some()),
        None => Ok(folder.join(MANIFEST).is_file()),
    }
}

/// Returns the committed checkpoints, oldest first: by epoch, then by step. A folder that does not exist holds none.
///
/// # Errors
/// The folder cannot be read.
pub fn list(model_dir: &Path) -> Result<Vec<Found>, Error> {
    if let Some(bucket) = Bucket::of(model_dir)? {
        return list_in(&bucket);
    }
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

fn list_in(bucket: &Bucket) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for (name, begun) in attempts(bucket)? {
        let Some(text) = bucket.read(&format!("{name}/{MANIFEST}"))? else { continue };
        let path = bucket.path().join(name);
        let (step, epoch) =
            seal::parse(&text).map_or((begun, UNREADABLE), |of| (of.global_step, of.cluster_epoch));
        found.push(Found { step, epoch, path });
    }
    found.sort_by(|one, other| (one.epoch, one.step, &one.path).cmp(&(other.epoch, other.step, &other.path)));
    Ok(found)
}

/// Returns the folders in a bucket in which a checkpoint was begun, and the step that was seen then: it is of a later one.
pub(crate) fn attempts(bucket: &Bucket) -> Result<Vec<(String, u64)>, Error> {
    let step = |name: &str| name.strip_prefix(PREFIX)?.split('.').next()?.parse().ok();
    let folders = bucket.entries("")?.into_iter().filter(|entry| entry.modified.is_none());
    Ok(folders.filter_map(|entry| step(&entry.name).map(|step| (entry.name, step))).collect())
}

/// Returns the latest epoch of a checkpoint; 0 where there is none.
pub(crate) fn newest_epoch(model_dir: &Path) -> Result<u64, Error> {
    Ok(list(model_dir)?.last().map_or(0, |found| found.epoch))
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
    place::write_atomically(&model_dir.join("checkpoint"), text.as_bytes())
}

/// Returns the folder's id, if it has one.
///
/// # Errors
/// The bucket cannot be read. A folder that cannot be has none.
pub fn known_cluster_id(model_dir: &Path) -> Result<Option<u128>, Error> {
    let text = match Bucket::of(model_dir)? {
        Some(bucket) => bucket.read("cluster_id")?.map(|text| String::from_utf8_lossy(&text).into_owned()),
        None => std::fs::read_to_string(model_dir.join("cluster_id")).ok(),
    };
    Ok(text.and_then(|text| u128::from_str_radix(text.trim(), 16).ok()))
}

/// Notes, durably, that what the servers hold is prepared anew in this epoch: what any of them still has of before is no
/// part of the job any more.
///
/// # Errors
/// The file cannot be written.
pub fn note_prepared(model_dir: &Path, epoch: u64) -> Result<(), Error> {
    let text = format!("{epoch}\n").into_bytes();
    match Bucket::of(model_dir)? {
        Some(bucket) => records::write(&bucket, PREPARED, epoch, text),
        None => replace(&model_dir.join("prepared_epoch"), &text),
    }
}

/// Returns the epoch in which what the servers hold was prepared; 0 = none is known.
///
/// # Errors
/// The bucket cannot be read. A folder that cannot be knows none.
pub fn prepared_epoch(model_dir: &Path) -> Result<u64, Error> {
    if let Some(bucket) = Bucket::of(model_dir)? {
        return Ok(records::latest(&bucket, PREPARED)?.map_or(0, |latest| latest.number));
    }
    let text = std::fs::read_to_string(model_dir.join("prepared_epoch")).unwrap_or_default();
    Ok(text.trim().parse().unwrap_or(0))
}
