//! Prepared epoch: the term in which the servers' values were made or restored.

use std::path::Path;

use crate::claim::{number_of, read_text};
use crate::durable::replace;
use crate::model_dir::ModelDir;
use crate::{Error, records};

/// Folder of the prepared epochs, in a bucket.
const PREPARED: &str = "prepared";

/// Records the prepared epoch durably: the servers get new values in this term. Values of earlier terms that a server
/// still holds no longer belong to the job.
///
/// # Errors
/// The file cannot be written.
pub fn note_prepared(model_dir: &Path, epoch: u64) -> Result<(), Error> {
    let text = format!("{epoch}\n").into_bytes();
    match ModelDir::at(model_dir)?.bucket() {
        Some(bucket) => records::write(&bucket, PREPARED, epoch, text),
        None => replace(&model_dir.join("prepared_epoch"), &text),
    }
}

/// Returns the prepared epoch: the term in which the servers' values were made or restored; 0 = unknown.
///
/// # Errors
/// The file or bucket cannot be read, or the file does not hold a term.
pub fn prepared_epoch(model_dir: &Path) -> Result<u64, Error> {
    if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
        return Ok(records::latest(&bucket, PREPARED)?.map_or(0, |latest| latest.number));
    }
    let path = model_dir.join("prepared_epoch");
    let cure = "stop all tasks of the job and remove the file: the servers then begin from the latest checkpoint";
    match read_text(&path)? {
        Some(text) => number_of(&text, &path, cure),
        None => Ok(0),
    }
}
