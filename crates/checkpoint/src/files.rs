//! Small files of a model folder, wherever it is: on this machine or in a bucket.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trainyard_storage::is_remote;

use crate::bucket::Bucket;
use crate::{Error, durable};

/// Splits a name in a bucket into folder and name.
fn split(path: &Path) -> Result<Option<(Bucket, String)>, Error> {
    if !is_remote(path) {
        return Ok(None);
    }
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(Bucket::of(path.parent().unwrap_or(path))?.map(|bucket| (bucket, name)))
}

/// Returns a value as JSON, for the file at a path.
///
/// # Errors
/// JSON cannot say it: nothing is to be written then.
pub fn encode(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::io("encode", path)(error.into()))
}

/// Replaces a file in one step: a reader sees the old text or the new, also after a power cut.
///
/// # Errors
/// The file cannot be written, flushed or renamed; the old one is then as it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    match split(path)? {
        Some((bucket, name)) => bucket.put(&name, bytes.to_vec()),
        None => durable::replace(path, bytes),
    }
}

/// Reads a file whole; nothing where there is none. In a bucket it may have 256 MiB at most.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    if let Some((bucket, name)) = split(path)? {
        return Ok(bucket.read(&name)?.map(|text| text.to_vec()));
    }
    match std::fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Returns the names in a folder, in order; none where there is no such folder.
///
/// # Errors
/// It cannot be read.
pub fn names(folder: &Path) -> Result<Vec<String>, Error> {
    if let Some(bucket) = Bucket::of(folder)? {
        return Ok(bucket
            .entries("")?
            .into_iter()
            .map(|entry| entry.name)
            .collect());
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("read", folder))?;
        // A name that is no text is none of ours.
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Removes a file, or a folder with all that is in it; one that is not there has been.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    if let Some(bucket) = Bucket::of(path)? {
        return bucket.remove_all(None);
    }
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Sends a file of this machine to a place in a bucket, where it is whole or absent.
///
/// # Errors
/// The file cannot be read, the place is in no bucket, or cannot be written.
pub fn send(file: &Path, to: &Path) -> Result<(), Error> {
    let opened = std::fs::File::open(file).map_err(Error::io("open", file))?;
    let bytes = opened.metadata().map_err(Error::io("find", file))?.len();
    match split(to)? {
        Some((bucket, name)) => bucket.send(opened, bytes, &name),
        None => Err(Error::io("send", to)(std::io::Error::new(
            ErrorKind::InvalidInput,
            "it is in no bucket",
        ))),
    }
}

/// Returns a path as every process of this machine knows it; in a bucket it is that already.
pub fn absolute(path: &Path) -> PathBuf {
    if is_remote(path) {
        path.to_owned()
    } else {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_value_that_json_cannot_say_is_an_error_that_names_its_file() {
        let keyed_by_pairs = BTreeMap::from([((1_u8, 2_u8), 3_u8)]);
        let error =
            encode(&keyed_by_pairs, Path::new("/model/leader.json")).expect_err("no key is a pair");
        assert_eq!(error.to_string(), "cannot encode /model/leader.json");
        assert_eq!(encode(&[1, 2], Path::new("any")).expect("a list"), b"[1,2]");
    }
}
