//! Operations on objects of a store: put, conditional put, upload in parts, read, list and remove.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt as _, PutMode, PutPayload};

use crate::executor::Executor;
use crate::part::{PART_BYTES, part};
use crate::remote::{Clients, key};
use crate::retry::retry;
use crate::store::{Client, Writing};
use crate::{Entry, Error, Location};

/// Most parts of an object (S3 and GCS).
const PARTS_MAX: u64 = 10_000;
/// Parts that are uploaded at once. An upload of a file takes 64 MiB of memory.
const PARTS_AT_ONCE: usize = 4;
/// Objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 8;

/// Place of an object that exists or will be written.
struct Place {
    location: Arc<Location>,
    executor: Arc<Executor>,
    client: Client,
    key: Key,
}

impl Clients {
    fn place(&self, name: &Path) -> Result<Place, Error> {
        let location = Location::parse(&name.to_string_lossy())?;
        let (executor, client) = self.store(&location)?;
        Ok(Place {
            key: key(&location)?,
            location: Arc::new(location),
            executor,
            client,
        })
    }

    pub(crate) fn put(&self, name: &Path, bytes: Bytes) -> Result<(), Error> {
        self.put_as(name, bytes, PutMode::Overwrite).map(drop)
    }

    pub(crate) fn put_if_absent(&self, name: &Path, bytes: Bytes) -> Result<bool, Error> {
        self.put_as(name, bytes, PutMode::Create)
    }

    fn put_as(&self, name: &Path, bytes: Bytes, mode: PutMode) -> Result<bool, Error> {
        let Place {
            location,
            executor,
            client,
            key,
        } = self.place(name)?;
        let writing = client.writing(&location)?;
        let asked = Arc::clone(&location);
        let deadline = self.deadline;
        self.wait(&executor, &location, async move {
            let put = || async {
                let put = match &writing {
                    Writing::Parts(_) => {
                        let payload = PutPayload::from_bytes(bytes.clone());
                        client
                            .objects
                            .put_opts(&key, payload, mode.clone().into())
                            .await
                            .map(drop)
                    }
                    #[cfg(feature = "hdfs")]
                    Writing::Tree(tree) => tree.put(&key, bytes.clone(), &mode).await,
                };
                match put {
                    Ok(()) => Ok(true),
                    Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                    Err(error) => Err(error),
                }
            };
            retry(&asked, deadline, put).await
        })
    }

    pub(crate) fn upload(
        &self,
        file: std::fs::File,
        bytes: u64,
        name: &Path,
    ) -> std::io::Result<()> {
        if bytes <= PART_BYTES {
            return Ok(self.put(name, part(&file, 0, bytes)?)?);
        }
        let to = self.place(name)?;
        match to.client.writing(&to.location)? {
            Writing::Parts(store) => self.send_parts(store, file, bytes, to),
            #[cfg(feature = "hdfs")]
            Writing::Tree(tree) => self.send_through(tree, file, bytes, to),
        }
    }

    /// Uploads a file in parts, several at once.
    fn send_parts(
        &self,
        store: Arc<dyn MultipartStore>,
        file: std::fs::File,
        bytes: u64,
        to: Place,
    ) -> std::io::Result<()> {
        let Place {
            location,
            executor,
            client,
            key,
        } = to;
        let part_bytes = PART_BYTES.max(bytes.div_ceil(PARTS_MAX));
        let count = bytes.div_ceil(part_bytes);
        // Each part has its own deadline, and so have the begin and the end of the upload.
        let turns = u32::try_from(count.div_ceil(PARTS_AT_ONCE as u64) + 3).unwrap_or(u32::MAX);
        let limit = self.deadline.saturating_mul(turns);
        let asked = Arc::clone(&location);
        let deadline = self.deadline;
        let sent = executor.wait(limit, async move {
            let asked = &*asked;
            let id = retry(asked, deadline, || store.create_multipart(&key)).await?;
            let send = |nth: u64| {
                let store = &store;
                let key = &key;
                let id = &id;
                let begin = nth * part_bytes;
                let read = part(&file, begin, part_bytes.min(bytes - begin));
                async move {
                    let payload = PutPayload::from_bytes(read?);
                    let put = || store.put_part(key, id, nth as usize, payload.clone());
                    std::io::Result::Ok(retry(asked, deadline, put).await?)
                }
            };
            let parts = stream::iter(0..count)
                .map(send)
                .buffered(PARTS_AT_ONCE)
                .try_collect::<Vec<PartId>>();
            let completed = match parts.await {
                Ok(parts) => {
                    let complete = || store.complete_multipart(&key, &id, parts.clone());
                    match retry(asked, deadline, complete).await {
                        // The reply to the completion was lost. The upload no longer exists because it is complete.
                        Err(Error::Missing { .. }) => {
                            let there =
                                retry(asked, deadline, || client.objects.head(&key)).await?;
                            if there.size == bytes {
                                Ok(())
                            } else {
                                Err(Error::Changed {
                                    url: asked.url.clone(),
                                }
                                .into())
                            }
                        }
                        outcome => outcome.map(drop).map_err(std::io::Error::from),
                    }
                }
                Err(error) => Err(error),
            };
            if completed.is_err() {
                // The store charges for incomplete uploads. It may be unreachable, so a failure is ignored.
                let _ = tokio::time::timeout(deadline, store.abort_multipart(&key, &id)).await;
            }
            completed
        });
        sent.unwrap_or_else(|| Err(late(&location, limit).into()))
    }

    /// Uploads a file sequentially.
    #[cfg(feature = "hdfs")]
    fn send_through(
        &self,
        tree: crate::hdfs::Tree,
        file: std::fs::File,
        bytes: u64,
        to: Place,
    ) -> std::io::Result<()> {
        let Place {
            location,
            executor,
            key,
            ..
        } = to;
        // Each part has a deadline, and so have the begin and the end of the upload.
        let turns = u32::try_from(bytes.div_ceil(PART_BYTES) + 3).unwrap_or(u32::MAX);
        let limit = self.deadline.saturating_mul(turns);
        let asked = Arc::clone(&location);
        let deadline = self.deadline;
        let upload = crate::hdfs::Upload { file, bytes, key };
        let sent = executor.wait(
            limit,
            async move { tree.send(&upload, &asked, deadline).await },
        );
        sent.unwrap_or_else(|| Err(late(&location, limit).into()))
    }

    pub(crate) fn read(&self, name: &Path, bytes_max: u64) -> Result<Option<Bytes>, Error> {
        let Place {
            location,
            executor,
            client,
            key,
        } = self.place(name)?;
        let asked = Arc::clone(&location);
        let deadline = self.deadline;
        let read = self.wait(&executor, &location, async move {
            let get = || async {
                let found = client.objects.get(&key).await?;
                let bytes = found.meta.size;
                Ok(if bytes > bytes_max {
                    Err(bytes)
                } else {
                    Ok(found.bytes().await?)
                })
            };
            retry(&asked, deadline, get).await
        });
        match read {
            Ok(Ok(bytes)) => Ok(Some(bytes)),
            Ok(Err(bytes)) => {
                let reason = format!("{bytes} bytes, at most {bytes_max} are read");
                Err(Error::Url {
                    url: location.url.clone(),
                    reason,
                })
            }
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn entries(&self, folder: &Path) -> Result<Vec<Entry>, Error> {
        let Place {
            location,
            executor,
            client,
            key,
        } = self.place(folder)?;
        let asked = Arc::clone(&location);
        let deadline = self.deadline;
        let listed = self.wait(&executor, &location, async move {
            retry(&asked, deadline, || {
                client.objects.list_with_delimiter(Some(&key))
            })
            .await
        })?;
        let last = |key: &Key| key.filename().map(str::to_owned);
        let folders = listed.common_prefixes.iter().filter_map(|key| {
            Some(Entry {
                name: last(key)?,
                modified: None,
            })
        });
        let object = |meta: &ObjectMeta| {
            Some(Entry {
                name: last(&meta.location)?,
                modified: Some(meta.last_modified.into()),
            })
        };
        let mut found: Vec<Entry> = folders
            .chain(listed.objects.iter().filter_map(object))
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    pub(crate) fn remove_all(&self, name: &Path, first: Option<&str>) -> Result<(), Error> {
        let Place {
            location,
            executor,
            client,
            key,
        } = self.place(name)?;
        let writing = client.writing(&location)?;
        let asked = Arc::clone(&location);
        let deadline = self.deadline;
        let first = first.map(|first| key.clone().join(first));
        self.wait(&executor, &location, async move {
            let asked = &*asked;
            let objects = &client.objects;
            let remove = |key: Key| async move {
                match retry(asked, deadline, || objects.delete(&key)).await {
                    Err(Error::Missing { .. }) => Ok(()),
                    outcome => outcome,
                }
            };
            if let Some(first) = first {
                remove(first).await?;
            }
            match writing {
                Writing::Parts(_) => {}
                #[cfg(feature = "hdfs")]
                Writing::Tree(tree) => return retry(asked, deadline, || tree.remove(&key)).await,
            }
            let list = || {
                objects
                    .list(Some(&key))
                    .map_ok(|meta| meta.location)
                    .try_collect::<Vec<Key>>()
            };
            let mut keys = retry(asked, deadline, list).await?;
            keys.push(key.clone());
            stream::iter(keys)
                .map(|key| Ok(remove(key)))
                .try_buffer_unordered(REMOVALS_AT_ONCE)
                .try_collect()
                .await
        })
    }
}

fn late(location: &Location, waited: Duration) -> Error {
    let url = location.url.clone();
    let reason = "no answer in time".to_owned();
    Error::Unreachable {
        url,
        waited,
        attempts: 1,
        reason,
    }
}
