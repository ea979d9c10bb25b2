//! The Hadoop file system: a tree of folders and files, whose names change in one step.

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

use crate::backoff::Backoff;
use crate::executor::Executor;
use crate::retry::{ATTEMPT_MAX, fatal, shown};
use crate::write::{PART_BYTES, part};
use crate::{Error, Location};

/// What the client tries again by itself: enough to come round to the NameNode that leads. All else is tried again by
/// [`crate::retry`].
const FAILOVER: [(&str, &str); 3] = [
    ("dfs.client.failover.max.attempts", "4"),
    ("dfs.client.failover.sleep.base.millis", "100"),
    ("dfs.client.failover.sleep.max.millis", "1000"),
];

/// Longest wait for the removal of a file that came to nothing.
const DISCARD_MAX: Duration = Duration::from_secs(5);

/// A file system. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    client: hdfs_native::Client,
    objects: Arc<HdfsObjectStore>,
}

impl Tree {
    /// Makes the client of a NameNode, or of a name service that the files of `HADOOP_CONF_DIR` explain.
    pub(crate) fn open(url: &str, executor: &Executor) -> object_store::Result<Self> {
        let mut builder = ClientBuilder::new().with_config(FAILOVER);
        if url != "hdfs://" {
            builder = builder.with_url(url);
        }
        // It would start threads of its own otherwise, which may not end where those of another runtime run.
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

    /// Removes a file, or a folder with all that is in it, in one step. One that is not there has been.
    pub(crate) async fn remove(&self, key: &Key) -> object_store::Result<()> {
        self.client
            .delete(&path(key), true)
            .await
            .map(drop)
            .map_err(of)
    }

    /// Puts a file whole. It is written under another name first, so that it has its own once all of it is there; the
    /// NameNode gives a name only once.
    pub(crate) async fn put(
        &self,
        key: &Key,
        bytes: Bytes,
        mode: &PutMode,
    ) -> object_store::Result<()> {
        let over = Over::of(mode);
        // Most who come too late are told before they write.
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

    /// Sends so many bytes of a file of this machine from front to back. The new file has its name once all of it is there.
    /// What fails is sent again from the front, until `deadline` has gone by since an attempt came further than all before.
    pub(crate) async fn send(
        &self,
        file: &std::fs::File,
        bytes: u64,
        key: &Key,
        location: &Location,
        deadline: Duration,
    ) -> std::io::Result<()> {
        let mut furthest = 0;
        let mut since = Instant::now();
        let mut backoff = Backoff::new();
        let mut attempts = 0;
        loop {
            let mut sent = 0;
            let Err(error) = self.send_once(file, bytes, key, &mut sent).await? else {
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
            let pause = backoff.draw();
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

    /// Sends a file, and tells how far it came.
    async fn send_once(
        &self,
        file: &std::fs::File,
        bytes: u64,
        key: &Key,
        sent: &mut u64,
    ) -> std::io::Result<object_store::Result<()>> {
        let (mut out, temporary) = match in_time(self.create(key)).await {
            Ok(created) => created,
            Err(error) => return Ok(Err(error)),
        };
        let written = async {
            while *sent < bytes {
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

    /// Begins a file beside the place where it is to be, under a name that nobody else has.
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

    /// Gives a file that is whole its name, in one step.
    async fn name(&self, temporary: &str, key: &Key, over: Over) -> object_store::Result<()> {
        self.client
            .rename(temporary, &path(key), over == Over::Another)
            .await
            .map_err(of)
    }

    /// Removes what came to nothing.
    async fn discard(&self, temporary: &str) {
        // The NameNode may not be to be reached. Where it has done what was asked, there is no such name.
        let _ = timeout(DISCARD_MAX, self.client.delete(temporary, false)).await;
    }
}

/// What a new file may take the place of.
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
