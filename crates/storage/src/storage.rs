//! Access to local and remote files.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use crate::remote::Clients;
use crate::{Entry, Error, File, Location, Stamp, is_remote};

/// Access to files. Clones share threads and connections, which start with the first remote file.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    clients: Clients,
}

impl Storage {
    /// Returns the same access with another deadline, up to which failures are retried. Default: 60 s.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self {
            clients: self.clients.with_deadline(deadline),
        }
    }

    /// Opens a file for reading, at its start.
    ///
    /// # Errors
    /// The file does not exist or may not be read. [`Error::of`] gives the reason for a remote file.
    pub fn open(&self, name: &Path) -> std::io::Result<File> {
        match location(name)? {
            None => Ok(File::local(std::fs::File::open(name)?)),
            Some(location) => Ok(File::remote(self.clients.open(location)?)),
        }
    }

    /// Returns the size and version of a file.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub fn stamp(&self, name: &Path) -> std::io::Result<Stamp> {
        match location(name)? {
            None => {
                let metadata = std::fs::metadata(name)?;
                let modified = metadata
                    .modified()
                    .ok()
                    .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                let version =
                    modified.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                Ok(Stamp {
                    bytes: metadata.len(),
                    version,
                })
            }
            Some(location) => Ok(self.clients.stamp(location)?),
        }
    }

    /// Returns the remote files that a URL or pattern matches, sorted. `*` and `?` match anything but `/`. A URL
    /// without wildcards is returned unchanged: opening the file checks that it exists.
    ///
    /// # Errors
    /// The name is not a URL, the store cannot be listed, or nothing matches.
    pub fn expand(&self, url: &str) -> Result<Vec<PathBuf>, Error> {
        let location = Location::parse(url)?;
        if !location.is_pattern() {
            return if location.key.contains('*') {
                Err(Error::NoListing { url: location.url })
            } else {
                Ok(vec![location.url.into()])
            };
        }
        let pattern = glob::Pattern::new(&location.key).map_err(|error| Error::Url {
            url: location.url.clone(),
            reason: error.to_string(),
        })?;
        let listed = self.clients.list(&location)?;
        let options = glob::MatchOptions {
            require_literal_separator: true,
            ..glob::MatchOptions::default()
        };
        let matching = listed
            .iter()
            .filter(|key| pattern.matches_with(key, options));
        let mut found: Vec<PathBuf> = matching
            .map(|key| format!("{}/{key}", location.store).into())
            .collect();
        if found.is_empty() {
            let prefix = format!("{}/{}", location.store, location.folder());
            return Err(Error::NoMatch {
                url: location.url,
                prefix,
                seen: listed.len(),
            });
        }
        found.sort();
        Ok(found)
    }

    /// Writes an object, or replaces it. Readers see the old object or the new one.
    ///
    /// # Errors
    /// The store is read-only, denies access, or cannot be reached.
    pub fn put(&self, name: &Path, bytes: Bytes) -> Result<(), Error> {
        self.clients.put(name, bytes)
    }

    /// Writes an object if there is none of that name. Returns `false` if there is one. It may be this one: if the
    /// reply to a write is lost, the write is retried.
    ///
    /// # Errors
    /// As [`Storage::put`].
    pub fn put_if_absent(&self, name: &Path, bytes: Bytes) -> Result<bool, Error> {
        self.clients.put_if_absent(name, bytes)
    }

    /// Uploads a local file of `bytes` bytes, in parts if it is large. The object appears when it is complete.
    ///
    /// # Errors
    /// As [`Storage::put`], inside an I/O error: see [`Error::of`]. Or the file cannot be read.
    pub fn upload(&self, file: std::fs::File, bytes: u64, name: &Path) -> std::io::Result<()> {
        self.clients.upload(file, bytes, name)
    }

    /// Reads a whole object of at most `bytes_max` bytes; nothing if there is none.
    ///
    /// # Errors
    /// The object is larger, the bucket does not exist, or the store denies access or cannot be reached.
    pub fn read(&self, name: &Path, bytes_max: u64) -> Result<Option<Bytes>, Error> {
        self.clients.read(name, bytes_max)
    }

    /// Returns the entries of a folder, ordered by name; none if the folder does not exist.
    ///
    /// # Errors
    /// The bucket does not exist, or the store denies access or cannot be reached.
    pub fn entries(&self, folder: &Path) -> Result<Vec<Entry>, Error> {
        self.clients.entries(folder)
    }

    /// Removes an object, and all objects below a folder of that name, `first` before the others.
    ///
    /// # Errors
    /// As [`Storage::put`].
    pub fn remove_all(&self, name: &Path, first: Option<&str>) -> Result<(), Error> {
        self.clients.remove_all(name, first)
    }
}

/// Returns the location that a name stands for, if it is not a path.
fn location(name: &Path) -> Result<Option<Location>, Error> {
    match name.to_str() {
        Some(url) if is_remote(name) => Location::parse(url).map(Some),
        _ => Ok(None),
    }
}

#[cfg(all(test, not(feature = "object-stores")))]
mod tests {
    use trainyard_diagnostic::Diagnostic;

    use super::*;

    #[test]
    fn a_remote_name_is_refused_with_the_feature_that_it_needs() {
        for (name, feature) in [
            ("s3://b/x.csv", "object-stores"),
            ("https://h/x", "object-stores"),
            ("hdfs://n:1/x", "hdfs"),
        ] {
            let refused = Storage::default()
                .stamp(name.as_ref())
                .expect_err("there are no stores");
            let refused: Diagnostic = Error::of(&refused).expect("it is ours").clone().into();
            let told = refused.render();
            assert!(
                told.contains(name) && told.contains(&format!("--features {feature}")),
                "{told}"
            );
        }
    }
}
