//! A model folder is in use for as long as a run lasts: two runs in one process each would train over each other's checkpoints.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use trainyard_storage::is_remote;

use crate::Error;
use crate::files::encode;

/// The file that is locked. It says by whom.
const RUN_LOCK: &str = "run.lock";

/// A process that runs a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// Its host.
    pub host: String,
    /// Its process id there.
    pub process_id: u32,
    /// When it was started.
    pub started_unix_secs: u64,
}

impl fmt::Display for Runner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            process_id,
            started_unix_secs,
        } = self;
        let started = started_ago(*started_unix_secs);
        write!(out, "pid {process_id} on {host}{started}")
    }
}

/// The use of a model folder, until it is dropped or its process dies.
#[derive(Debug)]
pub struct RunLock {
    _file: Option<File>,
}

impl RunLock {
    /// Says that another run has a folder in use, without taking it: for a program that starts the processes of a run.
    ///
    /// # Errors
    /// [`Error::InUse`], if a run in one process has it. The file cannot be read.
    pub fn refuse_if_taken(model_dir: &Path) -> Result<(), Error> {
        let path = model_dir.join(RUN_LOCK);
        if is_remote(model_dir) {
            return Ok(());
        }
        let file = match File::open(&path) {
            Ok(file) => file,
            // Where no such folder can be, no run is either.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(());
            }
            Err(error) => return Err(Error::io("open", &path)(error)),
        };
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Err(in_use(model_dir, &path)),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    /// Takes a model folder into use. A run that is `alone`, in one process, shares it with nobody; chiefs of a cluster share it
    /// with each other, since their epochs decide who leads. A bucket has no locks, nor have some file systems: there, whoever
    /// comes later deposes who was there before.
    ///
    /// # Errors
    /// [`Error::InUse`], if another run has it. The file cannot be made, or written.
    pub fn take(model_dir: &Path, alone: bool, runner: &Runner) -> Result<Self, Error> {
        if is_remote(model_dir) {
            return Ok(Self { _file: None });
        }
        std::fs::create_dir_all(model_dir).map_err(Error::io("create", model_dir))?;
        let path = model_dir.join(RUN_LOCK);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path);
        let mut file = file.map_err(Error::io("open", &path))?;
        let locked = if alone {
            file.try_lock()
        } else {
            file.try_lock_shared()
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(Self { _file: None });
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            Err(TryLockError::WouldBlock) => return Err(in_use(model_dir, &path)),
        }
        let text = encode(runner, &path)?;
        let written = file.set_len(0).and_then(|()| file.write_all(&text));
        written.map_err(Error::io("write", &path))?;
        Ok(Self { _file: Some(file) })
    }
}

/// Returns ", started 12 s ago"; nothing where the clock of this host is behind that.
pub(crate) fn started_ago(unix_secs: u64) -> String {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(unix_secs);
    match started.elapsed() {
        Ok(ago) if ago < Duration::from_secs(600) => format!(", started {} s ago", ago.as_secs()),
        Ok(ago) => format!(", started {} min ago", ago.as_secs() / 60),
        Err(_) => String::new(),
    }
}

/// Says who has a folder in use.
fn in_use(model_dir: &Path, lock: &Path) -> Error {
    let runner = std::fs::read(lock)
        .ok()
        .and_then(|text| serde_json::from_slice::<Runner>(&text).ok());
    Error::InUse {
        path: model_dir.to_owned(),
        by: runner.map_or_else(
            || "a process that has not said which".to_owned(),
            |by| by.to_string(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(process_id: u32) -> Runner {
        Runner {
            host: "h".into(),
            process_id,
            started_unix_secs: SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(0, |now| now.as_secs()),
        }
    }

    #[test]
    fn a_run_alone_shares_its_folder_with_nobody_and_leaves_it_free() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model_dir = folder.path().join("model");
        let first = RunLock::take(&model_dir, true, &runner(1)).expect("it is free");
        for alone in [true, false] {
            let refused = RunLock::take(&model_dir, alone, &runner(2)).expect_err("it is in use");
            RunLock::refuse_if_taken(&model_dir).expect_err("it is in use");
            let told = refused.to_string();
            assert!(told.contains("pid 1 on h, started "), "{told}");
        }
        drop(first);
        RunLock::refuse_if_taken(&model_dir).expect("it is free");
        let chief = RunLock::take(&model_dir, false, &runner(3)).expect("it is free");
        let standby = RunLock::take(&model_dir, false, &runner(4)).expect("chiefs share it");
        let refused = RunLock::take(&model_dir, true, &runner(5)).expect_err("it is in use");
        assert!(refused.to_string().contains("pid 4"), "{refused}");
        drop((chief, standby));
        RunLock::take(&model_dir, true, &runner(6)).expect("it is free");
    }
}
