//! Small files of a model directory, on this machine or in a bucket.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use trainyard_diagnostic::Diagnostic;
use trainyard_storage::{ResultFile, open_regular, read_regular};

use crate::bucket::{Bucket, FILE_BYTES_MAX};
use crate::model_dir::ModelDir;
use crate::{Error, durable};

/// Splits a path in a bucket into folder and name; nothing for a local path.
fn split(path: &Path) -> Result<Option<(Bucket, String)>, Error> {
    if !ModelDir::is_bucket(path) {
        return Ok(None);
    }
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let folder = ModelDir::at(path.parent().unwrap_or(path))?;
    Ok(folder.bucket().map(|bucket| (bucket, name)))
}

/// Returns a value as JSON. `path` is the file to be written, for errors.
///
/// # Errors
/// JSON cannot represent the value.
pub fn encode(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::io("encode", path)(error.into()))
}

/// Replaces a file atomically: a reader sees the old content or the new content, also after a power cut.
///
/// # Errors
/// The file cannot be written, flushed or renamed. The old file is unchanged.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    match split(path)? {
        Some((bucket, name)) => bucket.put(&name, bytes.to_vec()),
        None => durable::replace(path, bytes),
    }
}

/// Writes the whole file of a result that a user has named. A link stays one, unlike under [`write_atomically`]: the file that it names is
/// replaced, or made.
///
/// # Errors
/// The file cannot be written. The old file is unchanged.
pub fn write_result(path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    match split(path)? {
        Some((bucket, name)) => Ok(bucket.put(&name, bytes.to_vec())?),
        None => ResultFile::write(path, bytes),
    }
}

/// Reads a whole file of at most 256 MiB; nothing if there is none.
///
/// # Errors
/// The file cannot be read, is longer, or is no regular file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    if let Some((bucket, name)) = split(path)? {
        return Ok(bucket.read(&name)?.map(|text| text.to_vec()));
    }
    match read_regular(path, FILE_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Reads a value from a file of JSON; nothing if there is no file. The text of a local file is not held in memory. A file
/// of another form is an inner error.
///
/// # Errors
/// The file cannot be read.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<serde_json::Result<T>>, Error> {
    if ModelDir::is_bucket(path) {
        return Ok(read(path)?.map(|text| serde_json::from_slice(&text)));
    }
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    match serde_json::from_reader(BufReader::new(file)) {
        Err(error) if error.is_io() => Err(Error::io("read", path)(error.into())),
        parsed => Ok(Some(parsed)),
    }
}

/// Returns the names in a folder, ordered; none if the folder does not exist.
///
/// # Errors
/// The folder cannot be read.
pub fn names(folder: &Path) -> Result<Vec<String>, Error> {
    if let Some(bucket) = ModelDir::at(folder)?.bucket() {
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
        // This program writes only names that are UTF-8.
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Removes a file, or a folder with its content. A missing file is not an error.
///
/// # Errors
/// The file or folder cannot be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    if let Some(bucket) = ModelDir::at(path)?.bucket() {
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

/// Creates a folder with its parents, durably. In a bucket, folders need no creation.
///
/// # Errors
/// The folder cannot be created.
pub fn create_folder(folder: &Path) -> Result<(), Error> {
    if ModelDir::is_bucket(folder) {
        return Ok(());
    }
    durable::create_folders(folder)
}

/// Appends to a file; it is created if there is none. An object cannot be appended to, so in a bucket the whole file is
/// written again: it must have one writer.
///
/// # Errors
/// The file cannot be written, or an object cannot be read.
pub fn append(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if let Some((bucket, name)) = split(path)? {
        let mut whole = bucket.read(&name)?.unwrap_or_default().to_vec();
        whole.extend_from_slice(bytes);
        return bucket.put(&name, whole);
    }
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened
        .and_then(|mut file| file.write_all(bytes))
        .map_err(Error::io("write", path))
}

/// Reads the end of a file, about `bytes` of it, and returns it with the place at which it begins; nothing if there is no
/// file. An object is read whole.
///
/// # Errors
/// The file cannot be read.
pub fn read_tail(path: &Path, bytes: u64) -> Result<Option<(Vec<u8>, u64)>, Error> {
    if ModelDir::is_bucket(path) {
        return Ok(read(path)?.map(|text| (text, 0)));
    }
    let mut file = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("open", path))?,
    };
    let length = file.metadata().map_err(Error::io("find", path))?.len();
    let begin = length.saturating_sub(bytes);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(begin))
        .and_then(|_| file.take(bytes).read_to_end(&mut tail))
        .map_err(Error::io("read", path))?;
    Ok(Some((tail, begin)))
}

/// Copies a local file to which a task appends into `folder`, if that is in a bucket: an object cannot be appended to. A
/// local folder has the file itself.
///
/// # Errors
/// As [`send`].
pub fn show(file: &Path, folder: &Path) -> Result<(), Error> {
    if ModelDir::is_bucket(folder) {
        send(file, &folder.join(file.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Uploads a local file to a bucket. The object is complete or absent.
///
/// # Errors
/// The file cannot be read, `to` is not in a bucket, or the bucket cannot be written.
pub fn send(file: &Path, to: &Path) -> Result<(), Error> {
    let opened = File::open(file).map_err(Error::io("open", file))?;
    let bytes = opened.metadata().map_err(Error::io("find", file))?.len();
    match split(to)? {
        Some((bucket, name)) => bucket.send(opened, bytes, &name),
        None => Err(Error::io("send", to)(std::io::Error::new(
            ErrorKind::InvalidInput,
            "it is in no bucket",
        ))),
    }
}

/// Returns the absolute form of a local path. A path in a bucket is absolute already.
pub fn absolute(path: &Path) -> PathBuf {
    if ModelDir::is_bucket(path) {
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
    fn a_file_of_json_is_absent_or_good_or_of_another_form() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.json");
        let read = || read_json::<Vec<u8>>(&path).expect("it can be read");
        assert!(read().is_none());
        std::fs::write(&path, "[1, 2").expect("there is room");
        assert!(matches!(read(), Some(Err(_))));
        std::fs::write(&path, "[1, 2]").expect("there is room");
        assert_eq!(read().expect("a file").expect("a list"), [1, 2]);
        read_json::<Vec<u8>>(folder.path()).expect_err("a folder is no file");
    }

    #[test]
    fn a_value_that_json_cannot_say_is_an_error_that_names_its_file() {
        let keyed_by_pairs = BTreeMap::from([((1_u8, 2_u8), 3_u8)]);
        let error =
            encode(&keyed_by_pairs, Path::new("/model/leader.json")).expect_err("no key is a pair");
        assert_eq!(error.to_string(), "cannot encode /model/leader.json");
        assert_eq!(encode(&[1, 2], Path::new("any")).expect("a list"), b"[1,2]");
    }
}
