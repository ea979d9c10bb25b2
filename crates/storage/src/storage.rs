//! Access to local and remote files.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::remote::Clients;
use crate::{Error, File, Location, is_remote};

/// Access to files. Clones share threads and connections, which start with the first remote file.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    pub(crate) clients: Clients,
}

/// Stamp of a file. It differs if the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of change in nanoseconds since 1970, combined with the store's entity tag if there is one; 0 = unknown.
    pub version: u64,
}

/// An entry of a folder of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name in the folder.
    pub name: String,
    /// Time of writing, by the store's clock; absent = a folder.
    pub modified: Option<SystemTime>,
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
        match remote(name)? {
            None => Ok(File::local(std::fs::File::open(name)?)),
            Some(location) => Ok(File::remote(self.open_remote(location)?)),
        }
    }

    /// Returns the size and version of a file.
    ///
    /// # Errors
    /// As [`Storage::open`].
    pub fn stamp(&self, name: &Path) -> std::io::Result<Stamp> {
        match remote(name)? {
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
            Some(location) => Ok(self.stamp_remote(location)?),
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
        let listed = self.list(&location)?;
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
}

pub(crate) fn remote(name: &Path) -> Result<Option<Location>, Error> {
    match name.to_str() {
        Some(url) if is_remote(name) => Location::parse(url).map(Some),
        _ => Ok(None),
    }
}
