//! Checkpoints: every server writes its file, the chief commits them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::time::Instant;
use trainyard_checkpoint::{Bases, Keep, Manifest, abandon, begin, commit, retain};
use trainyard_cluster_client::{Error, ServerClient};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{absolute, known_cluster_id};
use trainyard_parameter_server::{LocalServer, Plan, Provenance, Saved, SnapshotRequest};
use trainyard_parameter_store::{Identity, State, Update, Version};
use trainyard_protocol::Reason;
use trainyard_runtime::{FileWork, blocking, tell_if_slow};
use trainyard_trainer::into_diagnostic;

use crate::own_folder::{of_other_cluster, refuse_other_cluster};
use crate::save_together::save_together;
use crate::telemetry::Telemetry;

/// Longest wait for a server that still writes another checkpoint.
const SAVE_RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between requests to a server that still writes another checkpoint.
const SAVE_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for the servers to give room on the disk back to a checkpoint.
const MAKE_ROOM_TIMEOUT: Duration = Duration::from_secs(5);

/// What the chief does not do in a model directory that is not its own.
const NOT_WRITTEN: &str = "no checkpoint is written into it";

/// A checkpoint that has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) step: u64,
    /// Path of the checkpoint.
    pub(crate) path: PathBuf,
    /// Version of each server.
    pub(crate) versions: Vec<Option<Version>>,
    pub(crate) bytes: u64,
    pub(crate) unix_secs: u64,
    /// Time that the save took.
    pub(crate) time: Duration,
}

/// Arguments of a save.
#[derive(Debug)]
pub(crate) struct Saver<'a> {
    pub(crate) model_dir: &'a Path,
    pub(crate) shards: &'a [Arc<dyn ServerClient>],
    /// The chief's copy of the parameters that workers hold themselves. It is the first one of `shards`.
    pub(crate) replica: Option<&'a LocalServer>,
    pub(crate) plan: &'a Plan,
    pub(crate) provenance: &'a Provenance,
    /// Retention: which checkpoints are kept.
    pub(crate) keep: Keep,
    pub(crate) telemetry: &'a Telemetry,
}

/// The instant at which the servers take their parts of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Each server takes its part when the request arrives.
    OnRequest,
    /// All servers take their parts at the same synchronous step.
    AtOneStep,
    /// The chief's replica takes its part first. A step is finished once the servers of tables have all of its rows, so
    /// their parts have the rows of every step that the dense variables have. Rows that they have beyond it are of batches
    /// that count as applied when their step is computed again.
    ReplicaFirst,
}

impl Cut {
    /// Returns the instant for servers that apply the pushes of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        match plan.update {
            _ if plan.hybrid => Self::ReplicaFirst,
            Update::Sync => Self::AtOneStep,
            Update::Async | Update::StaleSynchronous { .. } => Self::OnRequest,
        }
    }
}

/// A checkpoint to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaveRequest {
    pub(crate) identity: Identity,
    pub(crate) cut: Cut,
    /// Global step that the chief knows. The checkpoint may be of a later step.
    pub(crate) known_step: u64,
    /// Bytes of all values and slots.
    pub(crate) value_bytes: u64,
}

impl Saver<'_> {
    /// Writes and commits a checkpoint.
    pub(crate) async fn save(
        &self,
        request: SaveRequest,
        bases: &mut Bases,
    ) -> Result<Written, Diagnostic> {
        let mut saved = self.save_uncounted(request, bases).await;
        let lacks_room = |problem: &Diagnostic| problem.code == Code::E3006;
        // Logs on the disk of the checkpoints keep files there for later, which a server gives back. Checkpoints that the rule does
        // not keep are there where it was changed.
        if saved.as_ref().is_err_and(lacks_room) {
            let model_dir = self.model_dir.to_owned();
            let keep = self.keep;
            let cluster = request.identity.cluster_id;
            let removed = self.on_files(move || {
                refuse_other_cluster(&model_dir, cluster, "its old checkpoints stay")?;
                Ok(retain(&model_dir, keep)?)
            });
            if let Err(problem) = removed.await {
                tracing::debug!(problem = %problem.log_line(), "old checkpoints stay");
            }
            let asked = self.shards.iter().map(|shard| async move {
                drop(tokio::time::timeout(MAKE_ROOM_TIMEOUT, shard.make_room()).await);
            });
            join_all(asked).await;
            saved = self.save_uncounted(request, bases).await;
        }
        if let Err(problem) = &saved {
            // An unreachable server is reported as such, and is not a failure of the disk.
            if problem.code != Code::E2003 {
                self.telemetry.checkpoint_failures.increment(1);
            }
        }
        saved
    }

    async fn save_uncounted(
        &self,
        request: SaveRequest,
        bases: &mut Bases,
    ) -> Result<Written, Diagnostic> {
        let started = Instant::now();
        let identity = request.identity;
        let attempt = format!("{}-{:016x}", identity.epoch, identity.incarnation);
        let (step, bytes) = (request.known_step, request.value_bytes);
        let model_dir = self.model_dir.to_owned();
        let begun = self.on_files(move || {
            check_model_dir(&model_dir, identity)?;
            Ok(begin(&model_dir, step, &attempt, bytes)?)
        });
        let folder = begun.await?;
        let mut saved = self.write(identity, request.cut, &folder, bases).await;
        match &mut saved {
            Ok(Written {
                step,
                unix_secs,
                time,
                ..
            }) => {
                *time = started.elapsed();
                self.telemetry
                    .checkpoint_unix_seconds
                    .set(*unix_secs as f64);
                self.telemetry.checkpoints.increment(1);
                self.telemetry.checkpoint_step.set(*step as f64);
                self.telemetry.checkpoint_seconds.record(started.elapsed());
                tracing::info!(
                    step,
                    seconds = format!("{:.3}", started.elapsed().as_secs_f64()),
                    "checkpoint saved"
                );
            }
            Err(_) => {
                let abandoned = self.on_files(move || {
                    abandon(&folder);
                    Ok(())
                });
                // The next checkpoint removes what remains.
                drop(abandoned.await);
            }
        }
        saved
    }

    /// Works on files of the model directory, whose file system may not answer for long.
    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Diagnostic> + Send + 'static,
    ) -> Result<T, Diagnostic> {
        let done = tell_if_slow(FileWork::Checkpoint, self.model_dir, blocking(work)).await;
        done.map_err(|panic| {
            let message = format!("the files of a checkpoint could not be written: {panic}");
            Diagnostic::error(Code::E9001, message)
        })?
    }

    async fn write(
        &self,
        identity: Identity,
        cut: Cut,
        folder: &Path,
        bases: &mut Bases,
    ) -> Result<Written, Diagnostic> {
        // The servers may run in other working directories, so they receive the absolute path.
        let shown = &absolute(folder);
        let saved = match cut {
            Cut::AtOneStep => {
                let request = |ps: usize| SnapshotRequest {
                    base: bases.name_for(ps),
                    ..SnapshotRequest::default()
                };
                save_together(self.shards, identity, shown, request).await
            }
            Cut::OnRequest => self.save_each(identity, shown, 0, bases).await,
            Cut::ReplicaFirst => self.save_replica_first(identity, shown, bases).await,
        };
        let saved = saved.map_err(|error| failed(&error))?;
        let mut manifest = self
            .plan
            .manifest(&identity, &saved)
            .map_err(|(place, error)| {
                let name = self
                    .shards
                    .get(place)
                    .map_or("a server", |shard| shard.name());
                Diagnostic::error(
                    Code::E3003,
                    format!(
                        "{name} reported a part of the checkpoint that the chief cannot \
                        read: {error}"
                    ),
                )
            })?;
        if let Err(error) = bases.link(&mut manifest, folder) {
            tracing::warn!(
                %error,
                "the base of an incremental checkpoint cannot be linked: checkpoints are whole from now on"
            );
            *bases = Bases::without_links();
            return Box::pin(self.write(identity, cut, folder, bases)).await;
        }
        let step = manifest.global_step;
        let versions = manifest.versions();
        manifest.input = self.provenance.input.clone();
        manifest.job = self.provenance.job.clone();
        let model_dir = self.model_dir.to_owned();
        let folder = folder.to_owned();
        let keep = self.keep;
        let work = move || -> Result<(Manifest, PathBuf), Diagnostic> {
            // It may have been replaced while the servers wrote.
            refuse_other_cluster(&model_dir, identity.cluster_id, NOT_WRITTEN)?;
            let path = commit(&model_dir, &folder, &manifest)?.path().to_owned();
            match retain(&model_dir, keep) {
                Ok(removed) if !removed.is_empty() => {
                    tracing::debug!(?removed, "removed old checkpoints")
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the chief has not removed old checkpoints: the \
                        newest is incomplete, or the removal failed");
                }
            }
            Ok((manifest, path))
        };
        let (manifest, path) = self.on_files(work).await?;
        *bases = bases.after(&manifest, &path);
        let bytes = manifest.shards.iter().map(|shard| shard.bytes).sum();
        let unix_secs = manifest.created_unix_secs;
        Ok(Written {
            step,
            path,
            versions,
            bytes,
            unix_secs,
            time: Duration::ZERO,
        })
    }
}

/// Checks that the model directory is that of the job. Below a mount that is gone there may be another folder.
fn check_model_dir(model_dir: &Path, identity: Identity) -> Result<(), Diagnostic> {
    let found = known_cluster_id(model_dir)?;
    if found == Some(identity.cluster_id) {
        return Ok(());
    }
    let own = identity.cluster_id;
    if let Some(found) = found {
        return Err(of_other_cluster(model_dir, own, found, NOT_WRITTEN));
    }
    let folder = model_dir.display();
    let message = format!("the model directory {folder} has no cluster_id any more: {NOT_WRITTEN}");
    Err(Diagnostic::error(Code::E3003, message)
        .note("it was moved or cleared, or its mount is gone")
        .help("bring it back: the chief tries again"))
}

impl Saver<'_> {
    /// Saves the parts of the stores from `first` on, each when the request arrives.
    async fn save_each(
        &self,
        identity: Identity,
        folder: &Path,
        first: usize,
        bases: &Bases,
    ) -> Result<Vec<Saved>, Error> {
        let shards = self.shards.iter().enumerate().skip(first);
        try_join_all(
            shards.map(|(ps, shard)| save_on(&**shard, identity, folder, bases.name_for(ps))),
        )
        .await
    }

    /// Takes the state of the chief's replica, then saves it and the parts of the servers.
    async fn save_replica_first(
        &self,
        identity: Identity,
        folder: &Path,
        bases: &Bases,
    ) -> Result<Vec<Saved>, Error> {
        let Some(replica) = self.replica else {
            return self.save_each(identity, folder, 0, bases).await;
        };
        let request = SnapshotRequest {
            base: bases.name_for(0),
            ..SnapshotRequest::default()
        };
        let begun = replica.begin_save(identity, request).await?;
        let written = async { Ok(begun.write(folder).await?) };
        let (dense, tables) =
            tokio::try_join!(written, self.save_each(identity, folder, 1, bases))?;
        Ok(std::iter::once(dense).chain(tables).collect())
    }
}

/// Requests a server to write its part, again while the server still writes a checkpoint for the previous chief. A
/// restarted server has nothing to write.
async fn save_on(
    shard: &dyn ServerClient,
    identity: Identity,
    folder: &Path,
    base: Option<String>,
) -> Result<Saved, Error> {
    let started = Instant::now();
    loop {
        let at = SnapshotRequest {
            step: None,
            base: base.clone(),
            ..SnapshotRequest::default()
        };
        match shard.save(identity, folder, at).await {
            Err(error)
                if error.reason() == Some(Reason::NotReady)
                    && started.elapsed() < SAVE_RETRY_TIMEOUT =>
            {
                match shard.status().await {
                    Ok(status) if status.store.state == State::Empty => return Err(error),
                    // A server that reads its log is retried.
                    Err(other) if !other.may_pass() => return Err(other),
                    _ => {}
                }
                tracing::debug!(%error, "the server cannot save yet: the chief retries");
                tokio::time::sleep(SAVE_RETRY_INTERVAL).await;
            }
            saved => return saved,
        }
    }
}

fn failed(error: &Error) -> Diagnostic {
    if error.reason() == Some(Reason::StaleEpoch) {
        return Diagnostic::error(Code::E2009, error.to_string())
            .help("another chief has taken over the job: this chief ends");
    }
    if error.may_pass() {
        return Diagnostic::error(
            Code::E2003,
            format!("the checkpoint waits for a server: {error}"),
        )
        .help("check that the server runs and can be reached");
    }
    if error.reason() == Some(Reason::Limit) {
        return into_diagnostic(error);
    }
    Diagnostic::error(Code::E3003, error.to_string()).help("check the disk of model_dir")
}
