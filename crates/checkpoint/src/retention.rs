//! Which checkpoints stay.

use std::path::{Path, PathBuf};

use crate::model_dir::{UNREADABLE, list, step_folder, write_state_file};
use crate::{Checkpoint, Error};

/// Suffix of the files that say who reads a checkpoint.
const PIN_SUFFIX: &str = ".pin";
/// Age after which a pin counts no more, in seconds: its reader has died elsewhere.
const PIN_SECONDS_MAX: u64 = 3600;

/// Keeps a checkpoint from being removed, until it is dropped.
#[derive(Debug)]
pub struct Pin(PathBuf);

impl Drop for Pin {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Marks a checkpoint as being read by `owner`, for example `evaluator-4711`.
///
/// # Errors
/// The file cannot be written, or the checkpoint has gone.
pub fn pin(checkpoint: &Path, owner: &str) -> Result<Pin, Error> {
    let path = checkpoint.join(format!("{owner}{PIN_SUFFIX}"));
    std::fs::write(&path, b"").map_err(Error::io("write", &path))?;
    Ok(Pin(path))
}

fn pinned(checkpoint: &Path) -> bool {
    let entries = std::fs::read_dir(checkpoint).into_iter().flatten().filter_map(Result::ok);
    let mut pins = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(PIN_SUFFIX));
    pins.any(|entry| {
        let age = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        age.is_none_or(|age| age.as_secs() < PIN_SECONDS_MAX)
    })
}

/// Removes the oldest checkpoints beyond `keep_max` (0 = keep all), once the newest was read back whole.
///
/// One in `keep_every_n_hours` is kept for good; one that is pinned is kept for now; the newest always.
///
/// # Errors
/// The newest is damaged, and then nothing is removed; or a folder cannot be read or removed.
pub fn retain(model_dir: &Path, keep_max: usize, keep_every_n_hours: f64) -> Result<Vec<u64>, Error> {
    let mut found = list(model_dir)?;
    // One that cannot be read is damaged: it counts for nothing, and is set aside later, not removed.
    found.retain(|found| found.epoch != UNREADABLE || Checkpoint::open(&found.path).is_ok());
    let Some(newest) = found.last() else { return Ok(Vec::new()) };
    if keep_max == 0 || found.len() <= keep_max {
        return Ok(Vec::new());
    }
    Checkpoint::open(&newest.path)?.verify()?;
    let (mut removed, mut preserved_until) = (Vec::new(), None::<u64>);
    let candidates = &found[..found.len() - keep_max];
    for candidate in candidates {
        let created =
            Checkpoint::open(&candidate.path).map_or(0, |checkpoint| checkpoint.manifest().created_unix_secs);
        let due = preserved_until.is_none_or(|until| created >= until);
        if due && keep_every_n_hours < 10_000.0 {
            preserved_until = Some(created + (keep_every_n_hours * 3600.0) as u64);
            continue;
        }
        if pinned(&candidate.path) {
            continue;
        }
        // Renamed first: a half removed checkpoint must never look like one.
        let away = model_dir.join(format!("tmp.{}.removed", candidate.step));
        drop(std::fs::remove_dir_all(&away));
        std::fs::rename(&candidate.path, &away).map_err(Error::io("rename", &candidate.path))?;
        std::fs::remove_dir_all(&away).map_err(Error::io("remove", &away))?;
        removed.push(candidate.step);
    }
    if !removed.is_empty() {
        let left = found.iter().filter(|found| !removed.contains(&found.step));
        write_state_file(model_dir, &left.map(|found| step_folder(found.step)).collect::<Vec<_>>())?;
    }
    Ok(removed)
}

/// Removes what earlier attempts left behind. Only the chief calls it, before its first checkpoint.
///
/// A checkpoint that was moved aside while another took its place is put back if the other never came.
///
/// # Errors
/// A folder cannot be read or removed.
pub fn sweep(model_dir: &Path) -> Result<(), Error> {
    let entries = match std::fs::read_dir(model_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", model_dir)(error)),
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((step, rest)) = name.strip_prefix("tmp.").and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let target = model_dir.join(format!("model.ckpt-{step}"));
        if rest.starts_with("replaced-") && !target.exists() {
            std::fs::rename(entry.path(), &target).map_err(Error::io("rename", &entry.path()))?;
        } else {
            std::fs::remove_dir_all(entry.path()).map_err(Error::io("remove", &entry.path()))?;
        }
    }
    Ok(())
}
