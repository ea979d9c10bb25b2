//! Damaged checkpoints: the chief of a job renames them, and everyone else passes over them.

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::ModelDir;
use trainyard_model_dir::durable::rename;

use crate::committed::DAMAGED_TERM;
use crate::manifest_file::{DAMAGED, MANIFEST};
use crate::{Checkpoint, Error, Found, is_committed, list};

/// Returns the newest checkpoint of which every byte is verified, for a reader: a damaged one is reported to `warn` and stays
/// as it is.
///
/// # Errors
/// The directory, the bucket or a checkpoint cannot be read.
pub fn latest_good(
    model_dir: &Path,
    warn: &mut dyn FnMut(Diagnostic),
) -> Result<Option<Checkpoint>, Error> {
    let mut candidates = list(model_dir)?;
    // The age of a checkpoint with a damaged manifest is unknown. It may be the newest, so it comes first.
    candidates.sort_by_key(|found| found.epoch == DAMAGED_TERM);
    while let Some(found) = candidates.pop() {
        let opened = Checkpoint::open(&found.path);
        let error = match opened.and_then(|found| found.verify().map(|()| found)) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(error) if error.is_unreadable() => return Err(error),
            Err(error) => error,
        };
        // The chief may have removed or renamed it since.
        if is_committed(&found.path)? {
            let next = candidates.last().map_or_else(
                || "there is no older one".to_owned(),
                |next| format!("the next one is of step {}", next.step),
            );
            let message = format!(
                "checkpoint step {} is damaged and was passed over",
                found.step
            );
            let note = format!("{next}; {} stays as it is", found.path.display());
            warn(damage(message, &error).note(note));
        }
    }
    Ok(None)
}

/// Returns the newest checkpoint of a job, for its chief: one whose manifest and headers are verified, and whose files exist with the right size.
/// The readers of the tensors verify those: see [`Checkpoint::check_read`].
///
/// Damaged checkpoints are renamed: see [`set_aside`].
///
/// # Errors
/// The directory or bucket cannot be read, or a damaged checkpoint cannot be renamed.
pub fn latest(
    model_dir: &Path,
    warn: &mut dyn FnMut(Diagnostic),
) -> Result<Option<Checkpoint>, Error> {
    let mut candidates = list(model_dir)?;
    // The age of a checkpoint with a damaged manifest is unknown. It may be the newest, so it is reported.
    let damaged: Vec<Found> = candidates
        .extract_if(.., |found| found.epoch == DAMAGED_TERM)
        .collect();
    for found in damaged {
        match Checkpoint::open(&found.path) {
            // It has been written again since.
            Ok(_) => return latest(model_dir, warn),
            Err(error) => rename_damaged(model_dir, &found, error, candidates.last(), warn)?,
        }
    }
    while let Some(found) = candidates.pop() {
        let opened = Checkpoint::open(&found.path);
        match opened.and_then(|checkpoint| checkpoint.verify_headers().map(|()| checkpoint)) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(error) => rename_damaged(model_dir, &found, error, candidates.last(), warn)?,
        }
    }
    Ok(None)
}

/// Puts a checkpoint with the fault `error` into quarantine: renames its folder to `damaged.model.ckpt-<step>` and
/// reports it to `warn`. Nothing is deleted. In a bucket, only the manifest is renamed, to `damaged.json`.
///
/// # Errors
/// Returns `error` itself if the checkpoint could not be read, so that its state is unknown. The checkpoint cannot be
/// renamed.
pub fn set_aside(
    model_dir: &Path,
    path: &Path,
    error: Error,
    warn: &mut dyn FnMut(Diagnostic),
) -> Result<(), Error> {
    let mut candidates = list(model_dir)?;
    let place = candidates.iter().position(|found| found.path == path);
    let Some(found) = place.map(|place| candidates.remove(place)) else {
        return Err(error);
    };
    rename_damaged(model_dir, &found, error, candidates.last(), warn)
}

/// Renames a damaged checkpoint, and reports it.
fn rename_damaged(
    model_dir: &Path,
    found: &Found,
    error: Error,
    next: Option<&Found>,
    warn: &mut dyn FnMut(Diagnostic),
) -> Result<(), Error> {
    if error.is_unreadable() {
        return Err(error);
    }
    let aside = match ModelDir::at(&found.path)? {
        // Without a manifest, the folder is not a checkpoint.
        ModelDir::Bucket(bucket) => {
            bucket.put(DAMAGED, bucket.read(MANIFEST)?.unwrap_or_default())?;
            bucket.remove(MANIFEST)?;
            found.path.join(DAMAGED)
        }
        ModelDir::Folder(_) => {
            let aside = free_name(model_dir, found.step);
            rename(&found.path, &aside)?;
            aside
        }
    };
    let next = match next {
        Some(next) => format!(
            "using step {} instead; {} steps will be repeated",
            next.step,
            found.step.saturating_sub(next.step)
        ),
        None => "there is no older one: training starts from the beginning".to_owned(),
    };
    let message = format!(
        "checkpoint step {} is damaged and was set aside",
        found.step
    );
    let note = format!("{next}; nothing was deleted: it is now {}", aside.display());
    warn(damage(message, &error).note(note));
    Ok(())
}

fn damage(message: String, error: &Error) -> Diagnostic {
    let problem = Diagnostic::warning(Code::E3001, message).note(error.to_string());
    match std::error::Error::source(error) {
        Some(source) => problem.note(source.to_string()),
        None => problem,
    }
}

fn free_name(model_dir: &Path, step: u64) -> PathBuf {
    let name = |attempt: u64| match attempt {
        0 => model_dir.join(format!("damaged.model.ckpt-{step}")),
        attempt => model_dir.join(format!("damaged.model.ckpt-{step}.{attempt}")),
    };
    (0..)
        .map(name)
        .find(|path| !path.exists())
        .unwrap_or_else(|| name(u64::MAX))
}
