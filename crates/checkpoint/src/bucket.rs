//! Bucket: a folder that is a prefix in an object store. An object is complete or absent, and cannot be renamed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_storage::{Entry, Location, Scheme, Storage, is_remote};

use crate::Error;
use crate::manifest_file::MANIFEST_BYTES_MAX;

/// Timeout for accesses that may fail.
const OPTIONAL_FILE_TIMEOUT: Duration = Duration::from_secs(5);

/// A folder of a writable object store.
#[derive(Debug)]
pub(crate) struct Bucket {
    storage: Storage,
    path: PathBuf,
}

impl Bucket {
    /// Returns the folder of a store that a path names; nothing for a local path.
    ///
    /// # Errors
    /// The path names no folder of a store, or the store is read-only.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>, Error> {
        if !is_remote(path) {
            return Ok(None);
        }
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
            Scheme::S3 | Scheme::Gs | Scheme::Hdfs => Ok(Some(Self {
                storage: Storage::default(),
                path: url.into(),
            })),
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
    pub(crate) fn below(&self, name: &str) -> Self {
        Self {
            storage: self.storage.clone(),
            path: self.path.join(name),
        }
    }

    /// Returns the same folder with a short timeout.
    pub(crate) fn hastily(self) -> Self {
        Self {
            storage: self.storage.with_deadline(OPTIONAL_FILE_TIMEOUT),
            ..self
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an object, or replaces it. Readers see the old object or the new one.
    pub(crate) fn put(&self, name: &str, bytes: impl Into<bytes::Bytes>) -> Result<(), Error> {
        Ok(self.storage.put(&self.path.join(name), bytes.into())?)
    }

    /// Writes an object if there is none. Returns `false` if there is one. It may be this one, if a reply was lost.
    pub(crate) fn put_if_absent(&self, name: &str, bytes: Vec<u8>) -> Result<bool, Error> {
        Ok(self
            .storage
            .put_if_absent(&self.path.join(name), bytes.into())?)
    }

    /// Uploads a file.
    pub(crate) fn send(&self, file: std::fs::File, bytes: u64, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        self.storage
            .upload(file, bytes, &path)
            .map_err(Error::io("send", &path))
    }

    /// Reads a whole object; nothing if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<bytes::Bytes>, Error> {
        Ok(self
            .storage
            .read(&self.path.join(name), MANIFEST_BYTES_MAX)?)
    }

    /// Returns the size of an object; nothing if there is none.
    pub(crate) fn bytes(&self, name: &str) -> Result<Option<u64>, Error> {
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
    pub(crate) fn entries(&self, name: &str) -> Result<Vec<Entry>, Error> {
        let folder = if name.is_empty() {
            self.path.clone()
        } else {
            self.path.join(name)
        };
        Ok(self.storage.entries(&folder)?)
    }

    /// Removes an object, and all objects below a folder of that name.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        Ok(self.storage.remove_all(&self.path.join(name), None)?)
    }

    /// Removes all objects in the folder, `first` before the others.
    pub(crate) fn remove_all(&self, first: Option<&str>) -> Result<(), Error> {
        Ok(self.storage.remove_all(&self.path, first)?)
    }
}
