//! Model directory: its checkpoints, and the small files beside them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::bucket::Bucket;
use crate::durable::replace;
use crate::{Error, files, manifest_file, records};

/// Folder of the prepared epochs, in a bucket.
const PREPARED: &str = "prepared";

/// Name of the manifest in a checkpoint's folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Name that the manifest of a damaged checkpoint gets in a bucket.
pub(crate) const DAMAGED: &str = "damaged.json";
/// Term of a checkpoint whose manifest cannot be read. Real terms begin at 1.
pub(crate) const UNREADABLE: u64 = 0;
/// Prefix of the folders of checkpoints.
pub(crate) const PREFIX: &str = "model.ckpt-";

/// A committed checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Steps applied.
    pub step: u64,
    /// Term of the chief that wrote the checkpoint; 0 if the manifest cannot be read.
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
    if let Some(bucket) = Bucket::of(folder)? {
        return Ok(bucket.bytes(MANIFEST)?.is_some());
    }
    let path = folder.join(MANIFEST);
    match std::fs::metadata(&path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(Error::io("find", &path)(error)),
    }
}

/// Returns the committed checkpoints, oldest first: by term, then by step. A directory that does not exist has none.
///
/// # Errors
/// The folder cannot be read.
pub fn list(model_dir: &Path) -> Result<Vec<Found>, Error> {
    if let Some(bucket) = Bucket::of(model_dir)? {
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
        let epoch =
            manifest_file::read(&path).map_or(UNREADABLE, |manifest| manifest.cluster_epoch);
        found.push(Found { step, epoch, path });
    }
    found.sort_by_key(|found| (found.epoch, found.step));
    Ok(found)
}

fn list_in(bucket: &Bucket) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for (name, begun) in attempts(bucket)? {
        let Some(text) = bucket.read(&format!("{name}/{MANIFEST}"))? else {
            continue;
        };
        let path = bucket.path().join(name);
        let (step, epoch) = manifest_file::parse(&text)
            .map_or((begun, UNREADABLE), |of| (of.global_step, of.cluster_epoch));
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
    files::write_atomically(&model_dir.join("checkpoint"), text.as_bytes())
}

/// Returns the cluster id of the model directory, if it has one.
///
/// # Errors
/// The file cannot be read, or does not hold an id.
pub fn known_cluster_id(model_dir: &Path) -> Result<Option<u128>, Error> {
    let path = model_dir.join("cluster_id");
    read_text(&path)?
        .map(|text| id_of(&text, &path))
        .transpose()
}

/// Reads a small file; nothing if there is none.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, Error> {
    Ok(files::read(path)?.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Parses a cluster id. `path` is its file, for errors.
pub(crate) fn id_of(text: &str, path: &Path) -> Result<u128, Error> {
    u128::from_str_radix(text.trim(), 16).map_err(|_| Error::Note {
        path: path.to_owned(),
        found: text.trim().to_owned(),
        expected: "the cluster's id, 32 hexadecimal digits",
        cure: "write the `cluster_id` of the newest checkpoint's manifest.json into it",
    })
}

/// Parses a term. `path` is its file, for errors.
pub(crate) fn number_of(text: &str, path: &Path, cure: &'static str) -> Result<u64, Error> {
    text.trim().parse().map_err(|_| Error::Note {
        path: path.to_owned(),
        found: text.trim().to_owned(),
        expected: "an epoch, a whole number",
        cure,
    })
}

/// Records the prepared epoch durably: the servers get new values in this term. Values of earlier terms that a server
/// still holds no longer belong to the job.
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

/// Returns the prepared epoch: the term in which the servers' values were made or restored; 0 = unknown.
///
/// # Errors
/// The file or bucket cannot be read, or the file does not hold a term.
pub fn prepared_epoch(model_dir: &Path) -> Result<u64, Error> {
    if let Some(bucket) = Bucket::of(model_dir)? {
        return Ok(records::latest(&bucket, PREPARED)?.map_or(0, |latest| latest.number));
    }
    let path = model_dir.join("prepared_epoch");
    let cure = "stop all tasks of the job and remove the file: the servers then begin from the latest checkpoint";
    match read_text(&path)? {
        Some(text) => number_of(&text, &path, cure),
        None => Ok(0),
    }
}
