//! Model directory: a folder of a file system, or a bucket.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use trainyard_storage::is_remote;

use crate::Error;
use crate::bucket::Bucket;

/// A model directory, or a folder in it.
#[derive(Debug)]
pub enum ModelDir {
    /// A folder of a file system.
    Folder(PathBuf),
    /// A prefix in an object store.
    Bucket(Bucket),
}

impl ModelDir {
    /// Returns the directory that a path or URL names. It need not exist.
    ///
    /// # Errors
    /// The URL names no folder of a store, or the store is read-only.
    pub fn at(path: &Path) -> Result<Self, Error> {
        if Self::is_bucket(path) {
            Ok(Self::Bucket(Bucket::at(path)?))
        } else {
            Ok(Self::Folder(path.to_owned()))
        }
    }

    /// Returns whether a path names a bucket. The store may be unknown or read-only.
    pub fn is_bucket(path: &Path) -> bool {
        is_remote(path)
    }

    /// Returns the bucket; nothing if the directory is a folder.
    pub fn bucket(self) -> Option<Bucket> {
        match self {
            Self::Bucket(bucket) => Some(bucket),
            Self::Folder(_) => None,
        }
    }

    /// Returns whether there is a regular file of this name.
    ///
    /// # Errors
    /// The directory cannot be accessed. It may hold the file.
    pub fn holds(&self, name: &str) -> Result<bool, Error> {
        match self {
            Self::Bucket(bucket) => Ok(bucket.bytes(name)?.is_some()),
            Self::Folder(folder) => {
                let path = folder.join(name);
                match std::fs::metadata(&path) {
                    Ok(metadata) => Ok(metadata.is_file()),
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::NotFound | ErrorKind::NotADirectory
                        ) =>
                    {
                        Ok(false)
                    }
                    Err(error) => Err(Error::io("find", &path)(error)),
                }
            }
        }
    }

    /// Writes an empty file, whose name says all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn mark(&self, name: &str) -> Result<(), Error> {
        match self {
            Self::Bucket(bucket) => bucket.put(name, b"".as_slice()),
            Self::Folder(folder) => {
                let path = folder.join(name);
                std::fs::write(&path, b"").map_err(Error::io("write", &path))
            }
        }
    }

    /// Removes a file. A missing file is not an error.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        match self {
            Self::Bucket(bucket) => bucket.remove(name),
            Self::Folder(folder) => {
                let path = folder.join(name);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(Error::io("remove", &path)(error))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}
