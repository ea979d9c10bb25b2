//! Manifest file: JSON whose last entry is the checksum of all bytes before it.

use std::path::Path;
use std::time::Duration;

use trainyard_model_dir::{FILE_BYTES_MAX, ModelDir};
use trainyard_storage::read_regular;

use crate::manifest::{FORMAT_VERSION, INCREMENT_FORMAT_VERSION};
use crate::{Error, Manifest};

/// Name of the manifest in a checkpoint's folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// Name that the manifest of a damaged checkpoint gets in a bucket.
pub(crate) const DAMAGED: &str = "damaged.json";
/// Format of manifests without a checksum. It is still read.
const UNSEALED_FORMAT_VERSION: u32 = 1;
/// Format of checkpoints that hold every row. It is still read.
const DENSE_FORMAT_VERSION: u32 = 2;
/// Length of [`tail`], in bytes.
const TAIL_BYTES: usize = ",\n  \"crc32c\": \"00000000\"\n}".len();

/// Returns the end of a manifest, which holds the CRC-32C of all bytes before it.
fn tail(crc32c: u32) -> String {
    format!(",\n  \"crc32c\": \"{crc32c:08x}\"\n}}")
}

/// Returns the text of a manifest. `path` is the file to be written, for errors.
///
/// # Errors
/// JSON cannot represent the manifest.
pub(crate) fn write(manifest: &Manifest, path: &Path) -> Result<Vec<u8>, Error> {
    let mut text = serde_json::to_vec_pretty(manifest)
        .map_err(|error| Error::io("encode", path)(error.into()))?;
    text.truncate(text.len().saturating_sub("\n}".len()));
    let tail = tail(crc32c::crc32c(&text));
    text.extend_from_slice(tail.as_bytes());
    Ok(text)
}

/// Pauses between the tries of a read that fails: a share may be away for a moment. The store of a bucket has retries of its
/// own.
const READ_PAUSES: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
];

/// Reads the manifest in the folder of a checkpoint.
///
/// # Errors
/// The file cannot be read, in several tries; or it is not a regular file, is too large, has another format, or is damaged.
pub(crate) fn read(checkpoint: &Path) -> Result<Manifest, Error> {
    for pause in READ_PAUSES {
        match try_to_read(checkpoint) {
            Err(error) if error.is_unreadable() && !ModelDir::is_bucket(checkpoint) => {
                std::thread::sleep(pause);
            }
            read => return read,
        }
    }
    try_to_read(checkpoint)
}

fn try_to_read(checkpoint: &Path) -> Result<Manifest, Error> {
    let path = checkpoint.join(MANIFEST);
    if let Some(bucket) = ModelDir::at(checkpoint)?.bucket() {
        let text = bucket
            .read(MANIFEST)?
            .ok_or_else(|| Error::damaged(&path, "it does not exist"))?;
        return parse(&text).map_err(|what| Error::damaged(&path, what));
    }
    let metadata = std::fs::metadata(&path).map_err(Error::io("find", &path))?;
    if !metadata.is_file() {
        return Err(Error::damaged(&path, "it is not a regular file"));
    }
    let length = metadata.len();
    if length > FILE_BYTES_MAX {
        return Err(Error::damaged(
            &path,
            format!("{length} bytes, at most {FILE_BYTES_MAX} are read"),
        ));
    }
    let text = read_regular(&path, FILE_BYTES_MAX).map_err(Error::io("read", &path))?;
    parse(&text).map_err(|what| Error::damaged(&path, what))
}

/// Parses the text of a manifest. The error is the fault of the text.
pub(crate) fn parse(text: &[u8]) -> Result<Manifest, String> {
    let seal = check(text);
    let manifest: Manifest = serde_json::from_slice(text).map_err(|error| match &seal {
        // A truncated file or a flipped bit is the likely reason. The JSON error gives the place.
        Err(what) => format!("{what}; as JSON: {error}"),
        Ok(()) => error.to_string(),
    })?;
    match manifest.format_version {
        INCREMENT_FORMAT_VERSION | FORMAT_VERSION | DENSE_FORMAT_VERSION => seal.map(|()| manifest),
        UNSEALED_FORMAT_VERSION if !mentions_seal(text) => Ok(manifest),
        version => Err(format!(
            "format version {version}, this release reads {DENSE_FORMAT_VERSION} to {INCREMENT_FORMAT_VERSION}"
        )),
    }
}

fn check(text: &[u8]) -> Result<(), String> {
    let (front, end) = text.split_at(text.len().saturating_sub(TAIL_BYTES));
    let found = crc32c::crc32c(front);
    if end == tail(found).as_bytes() {
        return Ok(());
    }
    let end = String::from_utf8_lossy(end).escape_debug().to_string();
    Err(format!(
        "crc32c {found:08x} of its first {} bytes, it ends with `{end}`",
        front.len()
    ))
}

/// Returns whether a manifest holds a checksum. A manifest of the oldest format has none, so its format was altered.
fn mentions_seal(text: &[u8]) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_slice(text).ok();
    value.is_none_or(|value| value.get("crc32c").is_some())
}
