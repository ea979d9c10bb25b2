//! What the chief that leads was told of the job, for those who cannot ask it: the evaluator, and a chief that stands by.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::files::{self, encode, write_atomically};

/// The file, beside the checkpoints.
const JOB_RECORD: &str = "job.json";

/// The job of the chief that leads, or led last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Incarnation of that chief.
    pub cluster_epoch: u64,
    /// A line for each key that the tasks of a run must agree on.
    pub keys: Vec<String>,
}

impl JobRecord {
    /// Reads the record; nothing where there is none, as of a run of an earlier release.
    ///
    /// # Errors
    /// It cannot be read, or is no record.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, Error> {
        let path = model_dir.join(JOB_RECORD);
        let parse = |text: Vec<u8>| {
            serde_json::from_slice(&text).map_err(|error| Error::damaged(&path, error.to_string()))
        };
        files::read(&path)?.map(parse).transpose()
    }

    /// Replaces the record.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, model_dir: &Path) -> Result<(), Error> {
        let path = model_dir.join(JOB_RECORD);
        write_atomically(&path, &encode(self, &path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_none_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(JobRecord::read(folder.path()).expect("there is none"), None);
        let record = JobRecord {
            cluster_epoch: 3,
            keys: vec!["run.seed=1".to_owned()],
        };
        record.write(folder.path()).expect("there is room");
        assert_eq!(
            JobRecord::read(folder.path()).expect("it is read"),
            Some(record)
        );
        std::fs::write(folder.path().join(JOB_RECORD), "{").expect("written");
        assert!(JobRecord::read(folder.path()).is_err());
    }
}
