//! Quarantine: finds the newest good checkpoint, and renames damaged ones.

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::ModelDir;
use trainyard_model_dir::durable::rename;

use crate::committed::DAMAGED_TERM;
use crate::manifest_file::{DAMAGED, MANIFEST};
use crate::{Checkpoint, Error, Found, list};

/// Returns the newest checkpoint of which every byte is verified.
///
/// Damaged checkpoints are renamed: see [`set_aside`].
///
/// # Errors
/// The directory or bucket cannot be read, or a damaged checkpoint cannot be renamed.
pub fn latest_good(
    model_dir: &Path,
    warn: &mut dyn FnMut(Diagnostic),
) -> Result<Option<Checkpoint>, Error> {
    while let Some(checkpoint) = latest(model_dir, warn)? {
        match checkpoint.verify() {
            Ok(()) => return Ok(Some(checkpoint)),
            Err(error) => set_aside(model_dir, checkpoint.path(), error, warn)?,
        }
    }
    Ok(None)
}

/// Returns the newest checkpoint whose manifest and headers are verified, and whose files exist with the right size.
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
    let mut problem = Diagnostic::warning(Code::E3001, message).note(error.to_string());
    if let Some(source) = std::error::Error::source(&error) {
        problem = problem.note(source.to_string());
    }
    warn(problem.note(format!(
        "{next}; nothing was deleted: it is now {}",
        aside.display()
    )));
    Ok(())
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
