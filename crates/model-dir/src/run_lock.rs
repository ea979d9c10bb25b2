//! Run lock: marks a model directory as in use while a run lasts. Without it, two runs in one process each would
//! overwrite each other's checkpoints.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use trainyard_storage::{open_lock, open_regular, read_regular};

use crate::Error;
use crate::bucket::FILE_BYTES_MAX;
use crate::durable::create_all;
use crate::files::encode;
use crate::model_dir::ModelDir;
use crate::own_files::refuse_unless_own;

/// The locked file. It holds the [`Runner`].
const RUN_LOCK: &str = "run.lock";

/// A process that runs a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// Host of the process.
    pub host: String,
    /// Process id on the host.
    pub process_id: u32,
    /// Start of the process, in seconds since 1970.
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

/// Extent of a run: one process, or a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// A run in one process: it shares the directory with no other run.
    Alone,
    /// A run of several processes, whose chiefs share the directory.
    Cluster,
}

/// The lock of a model directory. It ends when the value is dropped or the process dies.
#[derive(Debug)]
pub struct RunLock {
    _file: Option<File>,
}

impl RunLock {
    /// Checks that no run in one process has locked a directory, without locking it. It serves a program that starts
    /// the processes of a run.
    ///
    /// # Errors
    /// [`Error::InUse`] if a run in one process has locked the directory. The file cannot be read.
    pub fn refuse_if_taken(model_dir: &Path) -> Result<(), Error> {
        let path = model_dir.join(RUN_LOCK);
        if ModelDir::is_bucket(model_dir) {
            return Ok(());
        }
        let file = match open_regular(&path) {
            Ok(file) => file,
            // Without a lock file, no run uses the directory.
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

    /// Locks a model directory. A run in one process locks it exclusively. Chiefs of a cluster share
    /// the lock, because their terms decide which chief leads. Buckets and some file systems have no locks: there, a
    /// later run deposes an earlier one.
    ///
    /// # Errors
    /// [`Error::InUse`] if another run has locked the directory, [`Error::Foreign`] if the file is not of a run. The file
    /// cannot be created or written.
    pub fn take(model_dir: &Path, kind: RunKind, runner: &Runner) -> Result<Self, Error> {
        if ModelDir::is_bucket(model_dir) {
            return Ok(Self { _file: None });
        }
        create_all(model_dir)?;
        let path = model_dir.join(RUN_LOCK);
        let mut file = open_lock(&path).map_err(Error::io("open", &path))?;
        let locked = match kind {
            RunKind::Alone => file.try_lock(),
            RunKind::Cluster => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(Self { _file: None });
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            Err(TryLockError::WouldBlock) => return Err(in_use(model_dir, &path)),
        }
        refuse_unless_own::<Runner>(&path)?;
        let text = encode(runner, &path)?;
        let written = file.set_len(0).and_then(|()| file.write_all(&text));
        written.map_err(Error::io("write", &path))?;
        Ok(Self { _file: Some(file) })
    }
}

/// Returns ", started 12 s ago"; an empty text if the clock of this host is before the start.
pub(crate) fn started_ago(unix_secs: u64) -> String {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(unix_secs);
    match started.elapsed() {
        Ok(ago) if ago < Duration::from_secs(600) => format!(", started {} s ago", ago.as_secs()),
        Ok(ago) => format!(", started {} min ago", ago.as_secs() / 60),
        Err(_) => String::new(),
    }
}

/// Returns the error that names the process that uses a directory.
fn in_use(model_dir: &Path, lock: &Path) -> Error {
    let runner = read_regular(lock, FILE_BYTES_MAX)
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
    use std::os::unix::fs::PermissionsExt as _;

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
        let first = RunLock::take(&model_dir, RunKind::Alone, &runner(1)).expect("it is free");
        let file = std::fs::metadata(model_dir.join(RUN_LOCK)).expect("it is there");
        let mode = file.permissions().mode();
        assert_eq!(mode & 0o7, 0, "others may lock it: {mode:o}");
        for kind in [RunKind::Alone, RunKind::Cluster] {
            let refused = RunLock::take(&model_dir, kind, &runner(2)).expect_err("it is in use");
            RunLock::refuse_if_taken(&model_dir).expect_err("it is in use");
            let told = refused.to_string();
            assert!(told.contains("pid 1 on h, started "), "{told}");
        }
        drop(first);
        RunLock::refuse_if_taken(&model_dir).expect("it is free");
        let chief = RunLock::take(&model_dir, RunKind::Cluster, &runner(3)).expect("it is free");
        let standby =
            RunLock::take(&model_dir, RunKind::Cluster, &runner(4)).expect("chiefs share it");
        let refused =
            RunLock::take(&model_dir, RunKind::Alone, &runner(5)).expect_err("it is in use");
        assert!(refused.to_string().contains("pid 4"), "{refused}");
        drop((chief, standby));
        RunLock::take(&model_dir, RunKind::Alone, &runner(6)).expect("it is free");
    }
}
