//! Access to files: clients of stores, each made once, and the threads that wait for them.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hasher as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fnv::FnvHasher;
use futures_util::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::{GetOptions, ObjectMeta};

use crate::executor::Executor;
use crate::read_ahead::Object;
use crate::retry::retry;
use crate::store::{self, Client};
use crate::{Error, File, Location, Scheme, is_remote};

/// How long a failing access is tried again.
const DEADLINE: Duration = Duration::from_secs(60);
/// Most files that a pattern may match.
const FILES_MAX: usize = 1 << 20;

/// Access to files. Clones share what is open; threads and connections are there once a remote file is named.
#[derive(Debug, Clone)]
pub struct Storage {
    shared: Arc<Shared>,
    pub(crate) deadline: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    executor: Option<Arc<Executor>>,
    stores: HashMap<String, Client>,
}

/// What tells that a file is still the one that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its size.
    pub bytes: u64,
    /// Time of change in nanoseconds since 1970, mixed with the store's own mark of the content if it has one; 0 where
    /// nobody tells.
    pub version: u64,
}

impl Default for Storage {
    fn default() -> Self {
        Self { shared: Arc::default(), deadline: DEADLINE }
    }
}

impl Storage {
    /// Returns the same access, which tries a failing access again for so long; 60 s by default.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Opens a file to read it from its start.
    ///
    /// # Errors
    /// It does not exist or may not be read. Of a remote file, [`Error::of`] gives the reason.
    pub fn open(&self, name: &Path) -> std::io::Result<File> {
        match remote(name)? {
            None => Ok(File::local(std::fs::File::open(name)?)),
            Some(location) => {
                let (executor, object, _) = self.object(location)?;
                Ok(File::remote(executor, object))
            }
        }
    }

    /// Returns size and version of a file.
    ///
    /// # Errors
    /// As of [`Storage::open`].
    pub fn stamp(&self, name: &Path) -> std::io::Result<Stamp> {
        match remote(name)? {
            None => {
                let metadata = std::fs::metadata(name)?;
                let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                let version = modified.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                Ok(Stamp { bytes: metadata.len(), version })
            }
            Some(location) => {
                let (_, object, meta) = self.object(location)?;
                let modified = meta.last_modified.timestamp_nanos_opt().unwrap_or(0) as u64;
                let version = modified ^ object.mark.as_deref().map_or(0, fingerprint);
                Ok(Stamp { bytes: object.bytes, version })
            }
        }
    }

    /// Returns the remote files that a URL or pattern stands for, sorted. `*` and `?` match anything but `/`. A URL
    /// without wildcards is returned as it is: whether the file exists is seen when it is opened.
    ///
    /// # Errors
    /// It is no URL, the store cannot be listed, or nothing matches.
    pub fn expand(&self, url: &str) -> Result<Vec<PathBuf>, Error> {
        let location = Location::parse(url)?;
        if !location.is_pattern() {
            return match location.key.contains('*') {
                true => Err(Error::NoListing { url: location.url }),
                false => Ok(vec![location.url.into()]),
            };
        }
        let pattern = glob::Pattern::new(&location.key)
            .map_err(|error| Error::Url { url: location.url.clone(), reason: error.to_string() })?;
        let listed = self.list(&location)?;
        let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
        let matching = listed.iter().filter(|key| pattern.matches_with(key, options));
        let mut found: Vec<PathBuf> =
            matching.map(|key| format!("{}/{key}", location.store).into()).collect();
        if found.is_empty() {
            let prefix = format!("{}/{}", location.store, location.folder());
            return Err(Error::NoMatch { url: location.url, prefix, seen: listed.len() });
        }
        found.sort();
        Ok(found)
    }

    /// Returns the keys below a location's folder.
    fn list(&self, location: &Location) -> Result<Vec<String>, Error> {
        let (executor, store) = self.store(location)?;
        let store = store.objects;
        let folder = match location.folder() {
            "" => None,
            folder => Some(
                Key::parse(folder)
                    .map_err(|error| Error::Url { url: location.url.clone(), reason: error.to_string() })?,
            ),
        };
        let (asked, deadline) = (location.clone(), self.deadline);
        self.wait(&executor, location, async move {
            retry(&asked, deadline, || {
                let (store, folder) = (Arc::clone(&store), folder.clone());
                async move {
                    let mut keys = Vec::new();
                    let mut listed = store.list(folder.as_ref());
                    while let Some(meta) = listed.try_next().await? {
                        keys.push(meta.location.to_string());
                        if keys.len() == FILES_MAX {
                            break;
                        }
                    }
                    Ok(keys)
                }
            })
            .await
        })
    }

    /// Asks for a file's size, by which its existence is known.
    fn object(&self, location: Location) -> Result<(Arc<Executor>, Object, ObjectMeta), Error> {
        let key = location.key()?;
        let (executor, store) = self.store(&location)?;
        let store = store.objects;
        let (asked, deadline) = (location.clone(), self.deadline);
        let (client, place) = (Arc::clone(&store), key.clone());
        let meta = self.wait(&executor, &location, async move {
            let head = || {
                let (store, key) = (Arc::clone(&client), place.clone());
                async move {
                    let options = GetOptions { head: true, ..GetOptions::default() };
                    Ok(store.get_opts(&key, options).await?.meta)
                }
            };
            match retry(&asked, deadline, head).await {
                // An answer without a body does not say whether there is the bucket: the list of its files does.
                Err(Error::Missing { .. }) if asked.scheme == Scheme::S3 || asked.scheme == Scheme::Gs => {
                    let first = || {
                        let store = Arc::clone(&client);
                        async move { store.list(Some(&Key::from("-"))).try_next().await }
                    };
                    match retry(&asked, deadline, first).await {
                        Err(missing @ Error::Bucket { .. }) => Err(missing),
                        Err(_) | Ok(_) => Err(Error::Missing { url: asked.url.clone() }),
                    }
                }
                outcome => outcome,
            }
        })?;
        let object = Object {
            location: Arc::new(location),
            store,
            key,
            bytes: meta.size,
            mark: meta.e_tag.clone(),
            deadline: self.deadline,
        };
        Ok((executor, object, meta))
    }

    /// Returns the client of a location's store, and the threads that wait.
    pub(crate) fn store(&self, location: &Location) -> Result<(Arc<Executor>, Client), Error> {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        let executor = match &open.executor {
            Some(executor) => Arc::clone(executor),
            None => {
                let started = Executor::start();
                let started = started.map_err(|error| Error::Settings {
                    url: location.url.clone(),
                    reason: error.to_string(),
                })?;
                Arc::clone(open.executor.insert(Arc::new(started)))
            }
        };
        let store = match open.stores.get(&location.store) {
            Some(store) => store.clone(),
            None => {
                let made = store::open(location, &executor)?;
                open.stores.insert(location.store.clone(), made.clone());
                made
            }
        };
        Ok((executor, store))
    }

    pub(crate) fn wait<T: Send + 'static>(
        &self,
        executor: &Executor,
        location: &Location,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        // What is waited for has the deadline itself, at most twice.
        executor.wait(self.deadline * 3, future).unwrap_or_else(|| {
            let (waited, reason) = (self.deadline * 3, "no answer in time".to_owned());
            Err(Error::Unreachable { url: location.url.clone(), waited, attempts: 1, reason })
        })
    }
}

pub(crate) fn remote(name: &Path) -> Result<Option<Location>, Error> {
    match name.to_str() {
        Some(url) if is_remote(name) => Location::parse(url).map(Some),
        _ => Ok(None),
    }
}

/// FNV-1a: the same in every process.
fn fingerprint(mark: &str) -> u64 {
    let mut hash = FnvHasher::default();
    hash.write(mark.as_bytes());
    hash.finish()
}
