//! Detection of changed files, by size and time of change.

use std::hash::Hasher as _;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;
use trainyard_storage::{Stamp, Storage};

use crate::Error;
use crate::record::failed;

/// Number of files from which small files are slow: each file is opened, and a remote file needs a request.
const MANY_FILES: usize = 1000;
/// Mean size below which many files are slow to read, in bytes.
const SMALL_BYTES: u64 = 1 << 20;

pub(crate) fn stamp(storage: &Storage, file: &Path) -> Result<Stamp, Error> {
    storage.stamp(file).map_err(|error| failed(file, &error))
}

/// Checks that a file has not changed.
pub(crate) fn check(storage: &Storage, file: &Path, before: &Stamp) -> Result<(), Error> {
    let now = stamp(storage, file)?;
    if now == *before {
        return Ok(());
    }
    let what = if now.bytes == before.bytes {
        "its time of change differs".to_owned()
    } else {
        format!("it had {} bytes and has {}", before.bytes, now.bytes)
    };
    Err(Error::Changed {
        file: file.to_owned(),
        what,
    })
}

/// Logs a warning if the input has many small files.
pub(crate) fn warn_small(stamps: &[Stamp]) {
    let files = stamps.len();
    let mean_bytes = stamps.iter().map(|stamp| stamp.bytes).sum::<u64>() / files.max(1) as u64;
    if files >= MANY_FILES && mean_bytes < SMALL_BYTES {
        tracing::warn!(
            files,
            mean_bytes,
            "the input is many small files, which take long to open: join them (trainyard convert FILES OUT)"
        );
    }
}

/// Returns a fingerprint of the names, sizes and times of change of files, in order, by FNV-1a. Every process computes
/// the same number.
pub(crate) fn fingerprint(files: &[PathBuf], stamps: &[Stamp]) -> u64 {
    let mut hash = FnvHasher::default();
    let mut add = |bytes: &[u8]| hash.write(bytes);
    for (file, stamp) in files.iter().zip(stamps) {
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        add(&(name.len() as u64).to_le_bytes());
        add(name);
        add(&stamp.bytes.to_le_bytes());
        add(&stamp.version.to_le_bytes());
    }
    hash.finish()
}
