//! Retention of checkpoints.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use trainyard_model_dir::{Evaluated, ModelDir};

use crate::committed::{DAMAGED_TERM, attempts, list, state_name, write_state_file};
use crate::manifest_file::{DAMAGED, MANIFEST};
use crate::{Checkpoint, Error, Found, Manifest, ShardRecord};

/// Suffix of the pin files, which name the readers of a checkpoint.
const PIN_SUFFIX: &str = ".pin";
/// Age after which a pin is ignored, in seconds. Its reader has died.
const PIN_SECONDS_MAX: u64 = 3600;

/// Time between the signs of life of a reader: some of them may fail before its pin is ignored.
const PIN_REFRESH_INTERVAL: Duration = Duration::from_secs(PIN_SECONDS_MAX / 6);

/// A pin protects a checkpoint from removal until it is dropped, however long its reader needs.
#[derive(Debug)]
pub struct Pin {
    path: PathBuf,
    /// Held while the file is written, so that none is written behind its removal.
    is_dropped: Arc<Mutex<bool>>,
    /// Its end wakes the thread that refreshes the file.
    _held: mpsc::Sender<()>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut is_dropped = lock(&self.is_dropped);
        *is_dropped = true;
        drop(trainyard_model_dir::remove(&self.path));
    }
}

fn lock(is_dropped: &Mutex<bool>) -> MutexGuard<'_, bool> {
    is_dropped.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks a checkpoint as being read by `owner`, for example `evaluator-4711`. The mark is refreshed while the pin is held.
///
/// # Errors
/// The file cannot be written, or the checkpoint has been removed.
pub fn pin(checkpoint: &Path, owner: &str) -> Result<Pin, Error> {
    pin_refreshed(checkpoint, owner, PIN_REFRESH_INTERVAL)
}

fn pin_refreshed(checkpoint: &Path, owner: &str, interval: Duration) -> Result<Pin, Error> {
    let name = format!("{owner}{PIN_SUFFIX}");
    let folder = ModelDir::at(checkpoint)?;
    folder.mark(&name)?;
    let (held, until_dropped) = mpsc::channel();
    let pin = Pin {
        path: checkpoint.join(&name),
        is_dropped: Arc::default(),
        _held: held,
    };
    let is_dropped = Arc::clone(&pin.is_dropped);
    let refresh = move || {
        while until_dropped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            let is_dropped = lock(&is_dropped);
            if *is_dropped {
                return;
            }
            // What cannot be written now may be the next time.
            drop(folder.mark(&name));
        }
    };
    // Without a thread the pin holds for as long as an unrefreshed one.
    drop(thread::Builder::new().name("pin".to_owned()).spawn(refresh));
    Ok(pin)
}

fn pinned(checkpoint: &Path) -> Result<bool, Error> {
    let fresh = |written: Option<SystemTime>| {
        let age = written.and_then(|time| time.elapsed().ok());
        age.is_none_or(|age| age.as_secs() < PIN_SECONDS_MAX)
    };
    if let Some(bucket) = ModelDir::at(checkpoint)?.bucket() {
        let mut pins = bucket
            .entries("")?
            .into_iter()
            .filter(|entry| entry.name.ends_with(PIN_SUFFIX));
        return Ok(pins.any(|pin| fresh(pin.modified)));
    }
    for entry in std::fs::read_dir(checkpoint).map_err(Error::io("read", checkpoint))? {
        let entry = entry.map_err(Error::io("read", checkpoint))?;
        let pins = entry.file_name().to_string_lossy().ends_with(PIN_SUFFIX);
        if pins
            && fresh(
                entry
                    .metadata()
                    .and_then(|metadata| metadata.modified())
                    .ok(),
            )
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rule of retention. The newest checkpoint always stays. A checkpoint that is being read stays until the reader is
/// done.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// Number of newest checkpoints that stay; 0 = all stay.
    pub max: usize,
    /// Hours of which one checkpoint is kept for good; with 10,000 or more, none is.
    pub every_n_hours: f64,
    /// Step of the best checkpoint, which also stays.
    pub best: Option<u64>,
    /// A checkpoint stays until it has been evaluated.
    pub unevaluated: bool,
}

impl Keep {
    /// Returns a rule that keeps only the newest checkpoints.
    pub fn newest(max: usize) -> Self {
        Self {
            max,
            every_n_hours: 10_000.0,
            best: None,
            unevaluated: false,
        }
    }
}

/// Returns the step of the newest checkpoint on another base than the newest checkpoint, if that one is incremental. All
/// checkpoints on one base share its file, and its damage.
///
/// # Errors
/// A checkpoint cannot be read, so it may be the one.
fn base_before(found: &[Found], newest: &Checkpoint) -> Result<Option<u64>, Error> {
    let bases = |manifest: &Manifest| -> Vec<Option<String>> {
        let name = |shard: &ShardRecord| shard.base.clone().or_else(|| shard.cut.clone());
        manifest.shards.iter().map(name).collect()
    };
    if newest.manifest().bases.is_empty() {
        return Ok(None);
    }
    let own = bases(newest.manifest());
    for found in found.iter().rev() {
        let opened = open_unless_damaged(&found.path)?;
        if opened.is_some_and(|checkpoint| bases(checkpoint.manifest()) != own) {
            return Ok(Some(found.step));
        }
    }
    Ok(None)
}

/// Opens a checkpoint; `None` if it is damaged.
///
/// # Errors
/// It cannot be read.
fn open_unless_damaged(path: &Path) -> Result<Option<Checkpoint>, Error> {
    match Checkpoint::open(path) {
        Ok(checkpoint) => Ok(Some(checkpoint)),
        Err(error) if error.is_unreadable() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Removes the oldest checkpoints that the rule does not keep. Returns their steps. Of the newest checkpoint, only the
/// presence and size of the files are checked, because each writer has read its file back.
///
/// # Errors
/// The newest checkpoint is not complete; then nothing is removed. A folder cannot be read or removed.
pub fn retain(model_dir: &Path, keep: Keep) -> Result<Vec<u64>, Error> {
    let mut found = list(model_dir)?;
    // A damaged checkpoint does not count, and is put into quarantine later instead of removed: its term is not known.
    found.retain(|found| found.epoch != DAMAGED_TERM);
    let Some(newest) = found.last() else {
        return Ok(Vec::new());
    };
    if keep.max == 0 || found.len() <= keep.max {
        return Ok(Vec::new());
    }
    // If evaluations do not matter, every checkpoint counts as evaluated.
    let evaluated = if keep.unevaluated {
        let last = Evaluated::read(model_dir)?;
        last.map_or((0, 0), |last| (last.cluster_epoch, last.global_step))
    } else {
        (u64::MAX, u64::MAX)
    };
    let base_before = base_before(&found, &Checkpoint::open(&newest.path)?)?;
    let mut removed = Vec::new();
    let mut preserved_until = None::<u64>;
    let candidates = &found[..found.len() - keep.max];
    for candidate in candidates.iter().filter(|candidate| {
        Some(candidate.step) != keep.best && Some(candidate.step) != base_before
    }) {
        // A damaged checkpoint is not removed.
        let Some(opened) = open_unless_damaged(&candidate.path)? else {
            continue;
        };
        let created = opened.manifest().created_unix_secs;
        let due = preserved_until.is_none_or(|until| created >= until);
        if due && keep.every_n_hours < 10_000.0 {
            preserved_until = Some(created + (keep.every_n_hours * 3600.0) as u64);
            continue;
        }
        if (candidate.epoch, candidate.step) > evaluated {
            continue;
        }
        if pinned(&candidate.path)? {
            continue;
        }
        remove(model_dir, candidate)?;
        removed.push(candidate);
    }
    if !removed.is_empty() {
        let left = found.iter().filter(|found| !removed.contains(found));
        write_state_file(model_dir, &left.map(state_name).collect::<Vec<_>>())?;
    }
    Ok(removed.into_iter().map(|found| found.step).collect())
}

/// Removes a checkpoint. A partly removed checkpoint must never look complete.
fn remove(model_dir: &Path, found: &Found) -> Result<(), Error> {
    match ModelDir::at(&found.path)? {
        ModelDir::Bucket(bucket) => Ok(bucket.remove_all(Some(MANIFEST))?),
        ModelDir::Folder(_) => {
            let away = model_dir.join(format!("tmp.{}.removed", found.step));
            drop(std::fs::remove_dir_all(&away));
            std::fs::rename(&found.path, &away).map_err(Error::io("rename", &found.path))?;
            std::fs::remove_dir_all(&away).map_err(Error::io("remove", &away))
        }
    }
}

/// Removes the checkpoints after the one of this step, so that it is the latest. Returns the removed steps. If there is
/// no readable checkpoint of this step, removes and returns nothing.
///
/// # Errors
/// A folder cannot be read or removed.
pub fn remove_after(model_dir: &Path, step: u64) -> Result<Option<Vec<u64>>, Error> {
    let found = list(model_dir)?;
    // Of two terms that have one, the latest term's stays the latest checkpoint.
    let Some(place) = found.iter().rposition(|found| found.step == step) else {
        return Ok(None);
    };
    if open_unless_damaged(&found[place].path)?.is_none() {
        return Ok(None);
    }
    let (left, later) = found.split_at(place + 1);
    // The newest is removed first. So after a failure, the latest checkpoint is one that existed before.
    for found in later.iter().rev() {
        remove(model_dir, found)?;
    }
    if !later.is_empty() {
        write_state_file(model_dir, &left.iter().map(state_name).collect::<Vec<_>>())?;
    }
    Ok(Some(later.iter().map(|found| found.step).collect()))
}

/// Removes the temporary folders of earlier attempts. Only the chief calls it, before its first checkpoint.
///
/// If a checkpoint was moved aside and its replacement was never renamed into place, it is moved back.
///
/// # Errors
/// A folder cannot be read or removed.
pub fn sweep(model_dir: &Path) -> Result<(), Error> {
    if ModelDir::is_bucket(model_dir) {
        return Ok(());
    }
    let entries = match std::fs::read_dir(model_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", model_dir)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(Error::io("read", model_dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((step, rest)) = name
            .strip_prefix("tmp.")
            .and_then(|rest| rest.split_once('.'))
        else {
            continue;
        };
        let target = model_dir.join(format!("model.ckpt-{step}"));
        let exists = target.try_exists().map_err(Error::io("look at", &target))?;
        if rest.starts_with("replaced-") && !exists {
            std::fs::rename(entry.path(), &target).map_err(Error::io("rename", &entry.path()))?;
        } else {
            std::fs::remove_dir_all(entry.path()).map_err(Error::io("remove", &entry.path()))?;
        }
    }
    Ok(())
}

/// Removes from a bucket the uncommitted checkpoints of chiefs before term `epoch`. Does nothing for a local directory.
/// The chief that has claimed the term may do so at any time: if a deposed chief is still writing, its checkpoint is
/// lost.
///
/// # Errors
/// The bucket cannot be read or written.
pub fn sweep_before(model_dir: &Path, epoch: u64) -> Result<(), Error> {
    let Some(bucket) = ModelDir::at(model_dir)?.bucket() else {
        return Ok(());
    };
    // model.ckpt-STEP.EPOCH-INCARNATION-NUMBER
    let of = |name: &str| {
        name.split('.')
            .nth(2)?
            .split('-')
            .next()?
            .parse::<u64>()
            .ok()
    };
    for (name, _) in attempts(&bucket)? {
        if of(&name).is_none_or(|of| of >= epoch) {
            continue;
        }
        let attempt = bucket.below(&name);
        let holds = attempt.entries("")?;
        if !holds
            .iter()
            .any(|entry| [MANIFEST, DAMAGED].contains(&entry.name.as_str()))
        {
            attempt.remove_all(None)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_pin_is_refreshed_until_it_is_dropped_and_then_gone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let interval = Duration::from_millis(5);
        let held = pin_refreshed(folder.path(), "reader", interval).expect("a pin");
        let path = folder.path().join("reader.pin");
        let stale = SystemTime::now() - Duration::from_secs(2 * PIN_SECONDS_MAX);
        let file = File::options().write(true).open(&path).expect("the pin");
        file.set_modified(stale).expect("its time is set");
        let is_fresh = || pinned(folder.path()).expect("the folder can be read");
        let refreshed = (0..10_000).any(|_| {
            thread::sleep(interval);
            is_fresh()
        });
        assert!(refreshed, "the pin stays stale");
        drop(held);
        thread::sleep(4 * interval);
        assert!(!path.exists(), "it is written behind its removal");
    }
}
