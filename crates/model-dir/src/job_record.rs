//! Job record: the agreement of the job, written by the leading chief. The evaluator and a standby chief read it,
//! because they cannot ask the chief.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::files::{self, encode, write_atomically};

/// Name of the file, beside the checkpoints.
const JOB_RECORD: &str = "job.json";

/// The job of the leading chief, or of the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Term of that chief.
    pub cluster_epoch: u64,
    /// One line per key of the agreement.
    pub keys: Vec<String>,
}

impl JobRecord {
    /// Reads the record; nothing if there is none. Runs of earlier releases wrote none.
    ///
    /// # Errors
    /// The file cannot be read, or is not a job record.
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
    /// The file cannot be written.
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
