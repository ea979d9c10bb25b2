//! Hadoop file system: a tree of folders and files with atomic renames.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hdfs_native::file::FileWriter;
use hdfs_native::{ClientBuilder, HdfsError, WriteOptions};
use hdfs_native_object_store::HdfsObjectStore;
use object_store::path::Path as Key;
use object_store::{Error as StoreError, ObjectStore, PutMode};
use tokio::time::{Instant, sleep, timeout};

use crate::executor::Executor;
use crate::part::{PART_BYTES, part};
use crate::retry::{ATTEMPT_MAX, backoff, fatal, shown};
use crate::{Error, Location};

/// Retries of the HDFS client itself: enough to reach the active NameNode. [`crate::retry`] retries all other failures.
const FAILOVER: [(&str, &str); 3] = [
    ("dfs.client.failover.max.attempts", "4"),
    ("dfs.client.failover.sleep.base.millis", "100"),
    ("dfs.client.failover.sleep.max.millis", "1000"),
];

/// Timeout for removing a temporary file after a failure.
const DISCARD_MAX: Duration = Duration::from_secs(5);

/// A client of a file system. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    client: hdfs_native::Client,
    objects: Arc<HdfsObjectStore>,
}

/// A local file to upload.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) file: std::fs::File,
    pub(crate) bytes: u64,
    pub(crate) key: Key,
}

impl Tree {
    /// Opens the client of a NameNode, or of a name service that the files of `HADOOP_CONF_DIR` define.
    pub(crate) fn open(url: &str, executor: &Executor) -> object_store::Result<Self> {
        let mut builder = ClientBuilder::new().with_config(FAILOVER);
        if url != "hdfs://" {
            builder = builder.with_url(url);
        }
        // Otherwise the client starts its own runtime, which must not be dropped inside another runtime.
        if let Some(threads) = executor.handle() {
            builder = builder.with_io_runtime(threads.clone());
        }
        let client = builder.build().map_err(of)?;
        Ok(Self {
            objects: Arc::new(HdfsObjectStore::new(client.clone())),
            client,
        })
    }

    pub(crate) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.objects) as Arc<dyn ObjectStore>
    }

    /// Removes a file, or a folder with its content, atomically. A missing file is not an error.
    pub(crate) async fn remove(&self, key: &Key) -> object_store::Result<()> {
        self.client
            .delete(&path(key), true)
            .await
            .map(drop)
            .map_err(of)
    }

    /// Writes a file under a temporary name and renames it, so that its name appears when the file is complete. The
    /// NameNode gives each name to one file only.
    pub(crate) async fn put(
        &self,
        key: &Key,
        bytes: Bytes,
        mode: &PutMode,
    ) -> object_store::Result<()> {
        let over = Over::of(mode);
        // This check refuses most late writers before they write.
        if over == Over::Nothing && self.client.get_file_info(&path(key)).await.is_ok() {
            return Err(of(HdfsError::AlreadyExists(path(key))));
        }
        let (mut file, temporary) = self.create(key).await?;
        let written = async {
            file.write_bytes(bytes).await.map_err(of)?;
            file.close().await.map_err(of)?;
            self.name(&temporary, key, over).await
        };
        let outcome = written.await;
        if outcome.is_err() {
            self.discard(&temporary).await;
        }
        outcome
    }

    /// Uploads a local file sequentially. The new file gets its name when it is complete. After a
    /// failure, the upload restarts from the beginning. After `deadline` without an attempt that gets further, it
    /// fails.
    pub(crate) async fn send(
        &self,
        upload: &Upload,
        location: &Location,
        deadline: Duration,
    ) -> std::io::Result<()> {
        let mut furthest = 0;
        let mut since = Instant::now();
        let mut backoff = backoff();
        let mut attempts = 0;
        loop {
            let mut sent = 0;
            let Err(error) = self.send_once(upload, &mut sent).await? else {
                return Ok(());
            };
            attempts += 1;
            if let Some(error) = fatal(location, &error, attempts) {
                return Err(error.into());
            }
            if sent > furthest {
                (furthest, since) = (sent, Instant::now());
                backoff.reset();
            }
            let waited = since.elapsed();
            let pause = backoff.next_pause();
            let reason = shown(&error);
            if waited + pause >= deadline {
                return Err(Error::Unreachable {
                    url: location.url.clone(),
                    waited,
                    attempts,
                    reason,
                }
                .into());
            }
            tracing::warn!(
                url = location.url,
                attempts,
                sent,
                reason,
                "a file is sent again"
            );
            sleep(pause).await;
        }
    }

    /// Makes one attempt to upload a file. `sent` counts the bytes.
    async fn send_once(
        &self,
        upload: &Upload,
        sent: &mut u64,
    ) -> std::io::Result<object_store::Result<()>> {
        let Upload { file, bytes, key } = upload;
        let (mut out, temporary) = match in_time(self.create(key)).await {
            Ok(created) => created,
            Err(error) => return Ok(Err(error)),
        };
        let written = async {
            while *sent < *bytes {
                let next = part(file, *sent, PART_BYTES.min(bytes - *sent))?;
                let length = next.len() as u64;
                if let Err(error) = in_time(async { out.write_bytes(next).await.map_err(of) }).await
                {
                    return Ok(Err(error));
                }
                *sent += length;
            }
            let named = async {
                in_time(async { out.close().await.map_err(of) }).await?;
                in_time(self.name(&temporary, key, Over::Another)).await
            };
            Ok(named.await)
        };
        let outcome = written.await;
        if !matches!(outcome, Ok(Ok(()))) {
            self.discard(&temporary).await;
        }
        outcome
    }

    /// Creates a temporary file with a unique name in the folder of `key`.
    async fn create(&self, key: &Key) -> object_store::Result<(FileWriter, String)> {
        let folder = key
            .as_ref()
            .rsplit_once('/')
            .map_or(String::new(), |(folder, _)| format!("/{folder}"));
        let name = key.filename().unwrap_or_default();
        let drawn = RandomState::new().hash_one(key);
        let temporary = format!("{folder}/.{name}.tmp.{drawn:016x}");
        let file = self
            .client
            .create(&temporary, WriteOptions::default())
            .await
            .map_err(of)?;
        Ok((file, temporary))
    }

    /// Renames a complete file to its final name, atomically.
    async fn name(&self, temporary: &str, key: &Key, over: Over) -> object_store::Result<()> {
        self.client
            .rename(temporary, &path(key), over == Over::Another)
            .await
            .map_err(of)
    }

    /// Removes the temporary file of a failed write.
    async fn discard(&self, temporary: &str) {
        // The NameNode may be unreachable. If it has renamed the file after all, the temporary name does not exist.
        let _ = timeout(DISCARD_MAX, self.client.delete(temporary, false)).await;
    }
}

/// The file that a new file may replace: none, or another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Nothing,
    Another,
}

impl Over {
    fn of(mode: &PutMode) -> Self {
        match mode {
            PutMode::Overwrite => Self::Another,
            PutMode::Create | PutMode::Update(_) => Self::Nothing,
        }
    }
}

fn path(key: &Key) -> String {
    format!("/{key}")
}

async fn in_time<T>(
    step: impl Future<Output = object_store::Result<T>>,
) -> object_store::Result<T> {
    let late = |_| StoreError::Generic {
        store: "HDFS",
        source: "no answer in time".into(),
    };
    timeout(ATTEMPT_MAX, step).await.map_err(late)?
}

fn of(error: HdfsError) -> StoreError {
    match error {
        HdfsError::AlreadyExists(ref path) => StoreError::AlreadyExists {
            path: path.clone(),
            source: error.into(),
        },
        _ => StoreError::Generic {
            store: "HDFS",
            source: error.into(),
        },
    }
}
