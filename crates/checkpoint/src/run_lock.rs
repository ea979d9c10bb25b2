//! A model folder is in use for as long as a run lasts: two runs in one process each would train over each other's checkpoints.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use trainyard_storage::is_remote;

use crate::Error;
use crate::place::encode;

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
        let Self { host, process_id, started_unix_secs } = self;
        write!(out, "pid {process_id} on {host}, started {started_unix_secs} s after 1970")
    }
}

/// The use of a model folder, until it is dropped or its process dies.
#[derive(Debug)]
pub struct RunLock {
    _file: Option<File>,
}

impl RunLock {
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
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(Error::io("open", &path))?;
        let locked = if alone { file.try_lock() } else { file.try_lock_shared() };
        match locked {
            Ok(()) => {}
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(Self { _file: None });
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            Err(TryLockError::WouldBlock) => {
                let by =
                    std::fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Runner>(&text).ok());
                let by =
                    by.map_or_else(|| "a process that has not said which".to_owned(), |by| by.to_string());
                return Err(Error::InUse { path: model_dir.to_owned(), by });
            }
        }
        let text = encode(runner, &path)?;
        let written = file.set_len(0).and_then(|()| file.write_all(&text));
        written.map_err(Error::io("write", &path))?;
        Ok(Self { _file: Some(file) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(process_id: u32) -> Runner {
        Runner { host: "h".into(), process_id, started_unix_secs: 9 }
    }

    #[test]
    fn a_run_alone_shares_its_folder_with_nobody_and_leaves_it_free() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model_dir = folder.path().join("model");
        let first = RunLock::take(&model_dir, true, &runner(1)).expect("it is free");
        for alone in [true, false] {
            let refused = RunLock::take(&model_dir, alone, &runner(2)).expect_err("it is in use");
            let told = refused.to_string();
            assert!(told.contains("pid 1 on h, started 9 s after 1970"), "{told}");
        }
        drop(first);
        let chief = RunLock::take(&model_dir, false, &runner(3)).expect("it is free");
        let standby = RunLock::take(&model_dir, false, &runner(4)).expect("chiefs share it");
        let refused = RunLock::take(&model_dir, true, &runner(5)).expect_err("it is in use");
        assert!(refused.to_string().contains("pid 4"), "{refused}");
        drop((chief, standby));
        RunLock::take(&model_dir, true, &runner(6)).expect("it is free");
    }
}
