//! Bucket: a folder that is a prefix in an object store. An object is complete or absent, and cannot be renamed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_storage::{Entry, Location, Scheme, Storage};

use crate::Error;

/// Timeout for accesses that may fail.
const OPTIONAL_FILE_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest object that is read whole, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// A folder of a writable object store.
#[derive(Debug)]
pub struct Bucket {
    storage: Storage,
    path: PathBuf,
}

impl Bucket {
    /// Returns the folder of a store that a URL names.
    ///
    /// # Errors
    /// The URL names no folder of a store, or the store is read-only.
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        let url = path.to_string_lossy();
        let url = url.trim_end_matches('/');
        if !url
            .split_once("://")
            .is_some_and(|(_, rest)| rest.contains('/'))
        {
            let reason = "a bucket alone is no folder: name a path in it".to_owned();
            return Err(trainyard_storage::Error::Url {
                url: url.to_owned(),
                reason,
            }
            .into());
        }
        let location = Location::parse(url)?;
        match location.scheme {
            Scheme::S3 | Scheme::Gs | Scheme::Hdfs => Ok(Self {
                storage: Storage::default(),
                path: url.into(),
            }),
            Scheme::Http => {
                let scheme = url.split("://").next().unwrap_or_default().to_owned();
                Err(trainyard_storage::Error::ReadOnly {
                    url: url.to_owned(),
                    scheme,
                }
                .into())
            }
        }
    }

    /// Returns a folder in this folder.
    pub fn below(&self, name: &str) -> Self {
        Self {
            storage: self.storage.clone(),
            path: self.path.join(name),
        }
    }

    /// Returns the same folder with a short timeout.
    pub fn hastily(self) -> Self {
        Self {
            storage: self.storage.with_deadline(OPTIONAL_FILE_TIMEOUT),
            ..self
        }
    }

    /// Returns the URL of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an object, or replaces it. Readers see the old object or the new one.
    ///
    /// # Errors
    /// The object cannot be written.
    pub fn put(&self, name: &str, bytes: impl Into<bytes::Bytes>) -> Result<(), Error> {
        Ok(self.storage.put(&self.path.join(name), bytes.into())?)
    }

    /// Writes an object if there is none. Returns `false` if there is one. It may be this one, if a reply was lost.
    ///
    /// # Errors
    /// The object cannot be written.
    pub fn put_if_absent(&self, name: &str, bytes: Vec<u8>) -> Result<bool, Error> {
        Ok(self
            .storage
            .put_if_absent(&self.path.join(name), bytes.into())?)
    }

    /// Uploads a file.
    ///
    /// # Errors
    /// The file cannot be read, or the object cannot be written.
    pub fn send(&self, file: std::fs::File, bytes: u64, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        self.storage
            .upload(file, bytes, &path)
            .map_err(Error::io("send", &path))
    }

    /// Reads a whole object; nothing if there is none.
    ///
    /// # Errors
    /// The object cannot be read, or is larger than 256 MiB.
    pub fn read(&self, name: &str) -> Result<Option<bytes::Bytes>, Error> {
        Ok(self.storage.read(&self.path.join(name), FILE_BYTES_MAX)?)
    }

    /// Returns the size of an object; nothing if there is none.
    ///
    /// # Errors
    /// The store does not say.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>, Error> {
        let path = self.path.join(name);
        match self.storage.stamp(&path) {
            Ok(stamp) => Ok(Some(stamp.bytes)),
            Err(error) => match trainyard_storage::Error::of(&error) {
                Some(trainyard_storage::Error::Missing { .. }) => Ok(None),
                _ => Err(Error::io("find", &path)(error)),
            },
        }
    }

    /// Returns the entries of this folder, or of a folder `name` in it, ordered by name.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn entries(&self, name: &str) -> Result<Vec<Entry>, Error> {
        let folder = if name.is_empty() {
            self.path.clone()
        } else {
            self.path.join(name)
        };
        Ok(self.storage.entries(&folder)?)
    }

    /// Removes an object, and all objects below a folder of that name.
    ///
    /// # Errors
    /// An object cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        Ok(self.storage.remove_all(&self.path.join(name), None)?)
    }

    /// Removes all objects in the folder, `first` before the others.
    ///
    /// # Errors
    /// An object cannot be removed.
    pub fn remove_all(&self, first: Option<&str>) -> Result<(), Error> {
        Ok(self.storage.remove_all(&self.path, first)?)
    }
}
