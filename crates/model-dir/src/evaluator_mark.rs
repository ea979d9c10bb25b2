//! Evaluator mark: a file beside the evaluations. An evaluator never calls the chief; the chief learns from the mark
//! that an evaluator runs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::files::{self, create_folder, encode, write_atomically};
use crate::model_dir::ModelDir;
use crate::own_files::refuse_unless_own;

/// The mark of a running evaluator, below the model directory.
const MARK: &str = "eval/evaluator.json";

/// The file with the latest evaluation, below the model directory.
const RESULT: &str = "eval/result.json";

/// The checkpoint that was evaluated last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Evaluated {
    /// Term of the checkpoint.
    pub cluster_epoch: u64,
    /// Global step of the checkpoint.
    pub global_step: u64,
}

impl Evaluated {
    /// Reads which checkpoint was evaluated last; nothing if there is no file, or if it is invalid.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, Error> {
        let text = files::read(&model_dir.join(RESULT))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }
}

/// The mark of a running evaluator. A killed evaluator leaves its mark behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatorMark {
    /// Process id of the evaluator.
    pub process_id: u32,
    /// Start of the process, in seconds since 1970.
    pub started_unix_secs: u64,
}

impl EvaluatorMark {
    /// Writes the mark.
    ///
    /// # Errors
    /// The file cannot be written. [`Error::Foreign`] if there is one that is no mark.
    pub fn write(&self, model_dir: &Path) -> Result<(), Error> {
        let path = path(model_dir);
        refuse_unless_own::<Self>(&path)?;
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        write_atomically(&path, &encode(self, &path)?)
    }

    /// Returns whether there is a mark.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_there(model_dir: &Path) -> Result<bool, Error> {
        Ok(files::read(&path(model_dir))?.is_some())
    }

    /// Removes the mark.
    ///
    /// # Errors
    /// The file cannot be removed. [`Error::Foreign`] if it is no mark.
    pub fn remove(model_dir: &Path) -> Result<(), Error> {
        refuse_unless_own::<Self>(&path(model_dir))?;
        ModelDir::at(model_dir)?.remove(MARK)
    }
}

fn path(model_dir: &Path) -> PathBuf {
    model_dir.join(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_evaluation_is_told_and_a_damaged_one_tells_of_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || Evaluated::read(folder.path()).expect("it is told");
        assert_eq!(read(), None);
        std::fs::create_dir(folder.path().join("eval")).expect("there is room");
        let write =
            |text: &str| std::fs::write(folder.path().join(RESULT), text).expect("there is room");
        write(r#"{"cluster_epoch": 2, "global_step": 301, "metrics": {"auc": 0.9}}"#);
        assert_eq!(
            read(),
            Some(Evaluated {
                cluster_epoch: 2,
                global_step: 301
            })
        );
        write("{\"cluster_epoch\": 2, ");
        assert_eq!(read(), None);
    }

    #[test]
    fn a_mark_is_there_until_it_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let is_there = || EvaluatorMark::is_there(folder.path()).expect("it is told");
        assert!(!is_there());
        EvaluatorMark {
            process_id: 7,
            started_unix_secs: 9,
        }
        .write(folder.path())
        .expect("there is room");
        assert!(is_there());
        EvaluatorMark::remove(folder.path()).expect("removed");
        assert!(!is_there());
    }
}
