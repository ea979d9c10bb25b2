//! What tells that a file is still the one that was read.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::Error;
use crate::record::failed;

/// Size and time of change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    bytes: u64,
    /// Nanoseconds since 1970; 0 where the system does not tell.
    modified: u64,
}

impl FileStamp {
    pub(crate) fn of(file: &Path) -> Result<Self, Error> {
        let metadata = std::fs::metadata(file).map_err(|error| failed(file, &error))?;
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Ok(Self { bytes: metadata.len(), modified })
    }

    /// Checks that the file is as it was.
    pub(crate) fn check(&self, file: &Path) -> Result<(), Error> {
        let now = Self::of(file)?;
        if now == *self {
            return Ok(());
        }
        let what = match now.bytes == self.bytes {
            true => "its time of change differs".to_owned(),
            false => format!("it had {} bytes and has {}", self.bytes, now.bytes),
        };
        Err(Error::Changed { file: file.to_owned(), what })
    }
}

/// Returns one number for names, sizes and times of change of files in order, by FNV-1a
/// (<http://www.isthe.com/chongo/tech/comp/fnv/>), the same in every process.
pub(crate) fn fingerprint(files: &[PathBuf], stamps: &[FileStamp]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (file, stamp) in files.iter().zip(stamps) {
        let name = file.file_name().unwrap_or_default().as_encoded_bytes();
        add(&(name.len() as u64).to_le_bytes());
        add(name);
        add(&stamp.bytes.to_le_bytes());
        add(&stamp.modified.to_le_bytes());
    }
    state
}
