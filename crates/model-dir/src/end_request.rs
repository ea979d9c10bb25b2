//! Request to end the job: a file beside the evaluations. An evaluator never calls the chief; the chief learns from the file
//! that callbacks of an evaluator end the job.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::files::{create_folder, encode, read_json, write_atomically};

/// The latest request, below the model directory.
const REQUEST: &str = "eval/end_request.json";

/// A request to end the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndRequest {
    /// Term of the checkpoint after whose evaluation it was made. The chief of another term does not heed it.
    pub cluster_epoch: u64,
    /// Global step of that checkpoint.
    pub global_step: u64,
    /// Reason of the end.
    pub reason: String,
}

impl EndRequest {
    /// Writes the request, in the place of an earlier one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, model_dir: &Path) -> Result<(), Error> {
        let path = model_dir.join(REQUEST);
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        write_atomically(&path, &encode(self, &path)?)
    }

    /// Reads the latest request; nothing if there is none, or if it is invalid.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, Error> {
        Ok(read_json(&model_dir.join(REQUEST))?.and_then(Result::ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_request_is_read_and_one_of_another_form_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = || EndRequest::read(folder.path()).expect("it is readable");
        assert_eq!(read(), None);
        for global_step in [7, 9] {
            let request = EndRequest {
                cluster_epoch: 2,
                global_step,
                reason: "it is good".into(),
            };
            request.write(folder.path()).expect("there is room");
            assert_eq!(read(), Some(request));
        }
        std::fs::write(folder.path().join(REQUEST), "mine").expect("there is room");
        assert_eq!(read(), None);
    }
}
