//! What the logs of a job's parameter servers have in the shared memory of this machine.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tracing::warn;
use trainyard_write_ahead_log::{Error, MemoryUse};

use crate::output::size;

/// The logs of a job in shared memory, as commands show them.
#[derive(Debug)]
pub(crate) struct LogMemory {
    logs: PathBuf,
    found: Result<Vec<MemoryUse>, Error>,
}

impl LogMemory {
    /// Looks for the memory of the logs in a folder.
    pub(crate) fn of(logs: &Path) -> Self {
        Self {
            logs: logs.to_owned(),
            found: MemoryUse::of_logs(logs),
        }
    }

    /// Returns a line for each log that has something in memory.
    pub(crate) fn lines(&self) -> Vec<String> {
        match &self.found {
            Ok(found) => found.iter().map(line).collect(),
            Err(error) => vec![format!(
                "memory      not known, as the logs in {} cannot be read: {error}",
                self.logs.display()
            )],
        }
    }

    /// Returns an array of the logs; null if they cannot be read.
    pub(crate) fn json(&self) -> Value {
        let object =
            |used: &MemoryUse| json!({"log": used.log, "folder": used.folder, "bytes": used.bytes});
        match &self.found {
            Ok(found) => found.iter().map(object).collect(),
            Err(_) => Value::Null,
        }
    }

    /// Logs what stays in memory behind a job that has ended.
    pub(crate) fn warn_of_rest(&self) {
        for used in self.found.iter().flatten() {
            warn!(
                log = used.log,
                memory = %used.folder.display(),
                bytes = used.bytes,
                "a log stays in shared memory: it has the updates since the latest checkpoint, with which the next start of \
                 the job goes on. Remove the folder in memory to give them up"
            );
        }
    }
}

fn line(used: &MemoryUse) -> String {
    let bytes = used
        .bytes
        .map_or_else(|| "what this user may not read".to_owned(), size);
    let text = format!(
        "memory      {bytes} of the log of {} in {}",
        used.log,
        used.folder.display()
    );
    // Whoever may write to the folder of the log has chosen the names.
    text.replace(char::is_control, "")
}
