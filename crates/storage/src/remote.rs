//! Access to remote files: one client per store, and the threads that wait for the network.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hasher as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fnv::FnvHasher;
use futures_util::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::{GetOptions, ObjectMeta};

use crate::executor::Executor;
use crate::read_ahead::{Object, ReadAhead};
use crate::retry::retry;
use crate::store::{self, Client};
use crate::{Error, Location, Scheme, Stamp};

/// Largest number of files below the folder of a pattern.
const FILES_MAX: usize = 1 << 20;

/// Default deadline of an access, retries included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The clients of stores and their threads. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Clients {
    open: Arc<Mutex<Open>>,
    pub(crate) deadline: Duration,
    /// Largest number of files that a listing returns.
    files_max: usize,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            open: Arc::default(),
            deadline: REQUEST_TIMEOUT,
            files_max: FILES_MAX,
        }
    }
}

impl Clients {
    pub(crate) fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

#[derive(Debug, Default)]
struct Open {
    executor: Option<Arc<Executor>>,
    stores: HashMap<String, Client>,
}

impl Clients {
    pub(crate) fn open(&self, location: Location) -> Result<ReadAhead, Error> {
        let (executor, object, _) = self.object(location)?;
        Ok(ReadAhead::new(executor, object))
    }

    pub(crate) fn stamp(&self, location: Location) -> Result<Stamp, Error> {
        let (_, object, meta) = self.object(location)?;
        let modified = meta.last_modified.timestamp_nanos_opt().unwrap_or(0) as u64;
        let version = modified ^ object.mark.as_deref().map_or(0, fingerprint);
        Ok(Stamp {
            bytes: object.bytes,
            version,
        })
    }

    /// Returns the keys below a location's folder.
    pub(crate) fn list(&self, location: &Location) -> Result<Vec<String>, Error> {
        let (executor, store) = self.store(location)?;
        let store = store.objects;
        let folder = match location.folder() {
            "" => None,
            folder => Some(Key::parse(folder).map_err(|error| Error::Url {
                url: location.url.clone(),
                reason: error.to_string(),
            })?),
        };
        let asked = location.clone();
        let deadline = self.deadline;
        let most = self.files_max;
        let keys = self.wait(&executor, location, async move {
            retry(&asked, deadline, || {
                let store = Arc::clone(&store);
                let folder = folder.clone();
                async move {
                    let mut keys = Vec::new();
                    let mut listed = store.list(folder.as_ref());
                    while let Some(meta) = listed.try_next().await? {
                        keys.push(meta.location.to_string());
                        // One more than is allowed: the rest need not be requested.
                        if keys.len() > most {
                            break;
                        }
                    }
                    Ok(keys)
                }
            })
            .await
        })?;
        if keys.len() > most {
            return Err(Error::TooMany {
                url: location.url.clone(),
                prefix: format!("{}/{}", location.store, location.folder()),
                most,
            });
        }
        Ok(keys)
    }

    /// Requests the size of a file, which also checks that the file exists.
    fn object(&self, location: Location) -> Result<(Arc<Executor>, Object, ObjectMeta), Error> {
        let key = key(&location)?;
        let (executor, store) = self.store(&location)?;
        let store = store.objects;
        let asked = location.clone();
        let deadline = self.deadline;
        let client = Arc::clone(&store);
        let place = key.clone();
        let meta = self.wait(&executor, &location, async move {
            let head = || {
                let store = Arc::clone(&client);
                let key = place.clone();
                async move {
                    let options = GetOptions {
                        head: true,
                        ..GetOptions::default()
                    };
                    Ok(store.get_opts(&key, options).await?.meta)
                }
            };
            match retry(&asked, deadline, head).await {
                // A reply without a body does not say whether the bucket exists. A listing does.
                Err(Error::Missing { .. })
                    if asked.scheme == Scheme::S3 || asked.scheme == Scheme::Gs =>
                {
                    let first = || {
                        let store = Arc::clone(&client);
                        async move { store.list(Some(&Key::from("-"))).try_next().await }
                    };
                    match retry(&asked, deadline, first).await {
                        Err(missing @ Error::Bucket { .. }) => Err(missing),
                        Err(_) | Ok(_) => Err(Error::Missing {
                            url: asked.url.clone(),
                        }),
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

    /// Returns the client of a location's store, and the executor.
    pub(crate) fn store(&self, location: &Location) -> Result<(Arc<Executor>, Client), Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
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
        // The future itself keeps the deadline, at most twice.
        executor.wait(self.deadline * 3, future).unwrap_or_else(|| {
            let waited = self.deadline * 3;
            let reason = "no answer in time".to_owned();
            Err(Error::Unreachable {
                url: location.url.clone(),
                waited,
                attempts: 1,
                reason,
            })
        })
    }
}

/// Returns the key of a location in the form of its store's client.
pub(crate) fn key(location: &Location) -> Result<Key, Error> {
    let key = match location.scheme {
        Scheme::Http => Key::from_url_path(&location.key),
        _ => Key::parse(&location.key),
    };
    key.map_err(|error| Error::Url {
        url: location.url.clone(),
        reason: error.to_string(),
    })
}

/// Returns the FNV-1a hash of a mark, which is the same in every process.
fn fingerprint(mark: &str) -> u64 {
    let mut hash = FnvHasher::default();
    hash.write(mark.as_bytes());
    hash.finish()
}

#[cfg(test)]
mod tests {
    use object_store::{ObjectStore as _, PutOptions};

    use super::*;

    #[test]
    fn the_key_of_a_web_address_is_decoded() {
        let location = Location::parse("https://host:8080/x%20y.csv").expect("a URL");
        assert_eq!(key(&location).expect("a key").as_ref(), "x y.csv");
    }

    #[test]
    fn a_folder_with_more_files_than_a_listing_returns_is_refused_and_not_cut_short() {
        let objects = object_store::memory::InMemory::new();
        let clients = Clients {
            files_max: 2,
            ..Clients::default()
        };
        let put = |name: &str| {
            let key = Key::parse(name).expect("a key");
            let put = objects.put_opts(&key, "x".into(), PutOptions::default());
            futures_util::FutureExt::now_or_never(put)
                .expect("memory is written at once")
                .expect("written");
        };
        put("data/a.csv");
        put("data/b.csv");
        let location = Location::parse("s3://bucket/data/*.csv").expect("a URL");
        let client = Client::writes(objects.fork());
        let hold = |client| {
            let mut open = clients.open.lock().expect("no panic");
            open.stores.insert(location.store.clone(), client);
        };
        hold(client);
        assert_eq!(clients.list(&location).expect("listed").len(), 2);
        put("data/c.csv");
        hold(Client::writes(objects.fork()));
        let refused = clients.list(&location).expect_err("one too many");
        assert!(
            refused
                .to_string()
                .contains("more than 2 files begin with `s3://bucket/data`"),
            "{refused}"
        );
    }
}
