//! Publication: at intervals, every server writes the values that have changed, and the chief commits the cut.
//!
//! Training does not wait for it. A cut that fails is abandoned: the next one has its changes, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tracing::{debug, info, warn};
use trainyard_checkpoint::{
    CutKind, Manifest, Publication, abandon, kind_of, remove_cuts_after, stand_for,
};
use trainyard_cluster_client::{Error, ServerClient};
use trainyard_dashboard::{Published, RunHistory};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::absolute;
use trainyard_parameter_server::{Plan, Saved, SnapshotPurpose, SnapshotRequest};
use trainyard_parameter_store::{Identity, Version};
use trainyard_runtime::{FileWork, blocking, tell_if_slow};

use crate::own_folder::refuse_other_cluster;
use crate::save::Cut;
use crate::save_together::save_together;
use crate::telemetry::Telemetry;

/// Longest wait for the last cut of a job. Then readers take the last checkpoint.
const LAST_CUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between attempts at the last cut. A server may still write a cut that was given up.
const LAST_CUT_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Writer of cuts during one term of a chief.
pub(crate) struct Publisher {
    pub(crate) model_dir: PathBuf,
    pub(crate) shards: Vec<Arc<dyn ServerClient>>,
    pub(crate) plan: Plan,
    pub(crate) identity: Identity,
    pub(crate) observation: RunHistory,
    pub(crate) telemetry: Telemetry,
    pub(crate) state: PublisherState,
}

/// Progress of a publisher: the cuts that it has written.
#[derive(Debug, Default)]
pub(crate) struct PublisherState {
    /// Absent before the first cut, and after a failure.
    publication: Option<Publication>,
    /// Version of each server in the latest cut of this publisher.
    versions: Option<Vec<Option<Version>>>,
}

/// A cut that is written, and not committed.
struct WrittenCut {
    folder: PathBuf,
    manifest: Manifest,
    began: Instant,
}

impl Publisher {
    /// Publishes a cut every so often, until the future is dropped.
    pub(crate) async fn run(mut self, every: Duration) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None::<String>;
        loop {
            ticks.tick().await;
            match self.publish().await {
                Ok(()) => told = None,
                Err(problem) => {
                    let line = problem.log_line();
                    if told.as_ref() != Some(&line) {
                        warn!("{line}");
                        told = Some(line);
                    }
                }
            }
        }
    }

    /// Publishes the last cut of a job, which has the values of the last checkpoint.
    pub(crate) async fn publish_last(mut self) {
        let mut problem = None;
        let attempts = async {
            while let Err(refused) = self.publish().await {
                problem = Some(refused);
                sleep(LAST_CUT_RETRY_INTERVAL).await;
            }
        };
        if tokio::time::timeout(LAST_CUT_TIMEOUT, attempts)
            .await
            .is_ok()
        {
            return;
        }
        let why = problem.map_or_else(String::new, |problem| format!(": {}", problem.log_line()));
        warn!(
            "the last cut could not be published within {} s, so readers take the last checkpoint{why}",
            LAST_CUT_TIMEOUT.as_secs()
        );
    }

    /// Removes the cuts of later steps than the one with which the job ends.
    pub(crate) async fn go_back_to(self, step: u64) {
        let model_dir = self.model_dir.clone();
        let removed = async {
            self.check_folder().await?;
            let folder = self.model_dir.clone();
            in_background(&model_dir, move || Ok(remove_cuts_after(&folder, step)?)).await
        };
        let removed = removed.await;
        if let Err(problem) = removed {
            warn!(
                "cuts after step {step}, with which the job ends, remain: {}",
                problem.log_line()
            );
        }
    }

    /// Publishes a cut, unless the latest one of this publisher has the present values.
    async fn publish(&mut self) -> Result<(), Diagnostic> {
        let told = try_join_all(self.shards.iter().map(|shard| shard.status()));
        let told = told.await.map_err(|error| failed(&error))?;
        let versions: Vec<_> = told
            .iter()
            .map(|status| Some(status.store.version))
            .collect();
        if self.state.versions.as_ref() == Some(&versions) {
            return Ok(());
        }
        let outcome = self.publish_changes().await;
        if outcome.is_err() {
            self.state = PublisherState::default();
            self.telemetry.cut_failures.increment(1);
        }
        outcome
    }

    /// Publishes the changes since the latest cut. If a base is due, it comes first and stands for that cut, so readers of the
    /// latest cut go on with the changes. If there is no latest cut, or a server does not know it, a base is published alone.
    async fn publish_changes(&mut self) -> Result<(), Diagnostic> {
        self.check_folder().await?;
        let mut publication = match self.state.publication.take() {
            Some(publication) => publication,
            None => {
                let model_dir = self.model_dir.clone();
                let epoch = self.identity.epoch;
                let open = move || Ok(Publication::open(&model_dir, epoch)?);
                in_background(&self.model_dir, open).await?
            }
        };
        let continued = publication.continued();
        let continued = continued.filter(|names| names.len() == self.shards.len());
        let continued = continued.map(<[_]>::to_vec);
        if let Some(latest) = &continued
            && publication.is_base_due()
        {
            let mut base = self.write_base(&mut publication).await?;
            stand_for(&mut base.manifest, latest);
            (publication, _) = self.commit(publication, base).await?;
        }
        let increment = match &continued {
            Some(latest) => self.write_increment(&mut publication, latest).await?,
            None => None,
        };
        let cut = match increment {
            Some(increment) => increment,
            None => self.write_base(&mut publication).await?,
        };
        let (publication, manifest) = self.commit(publication, cut).await?;
        self.state.publication = Some(publication);
        self.state.versions = Some(manifest.versions());
        Ok(())
    }

    /// Lets every server write the changes since the cut with these snapshots; nothing if a server does not know that cut, as
    /// after its restart, and gave all rows.
    async fn write_increment(
        &self,
        publication: &mut Publication,
        latest: &[Option<String>],
    ) -> Result<Option<WrittenCut>, Diagnostic> {
        let written = self
            .write(publication, CutKind::Increment, Some(latest))
            .await?;
        if kind_of(&written.manifest) == Some(CutKind::Increment) {
            return Ok(Some(written));
        }
        debug!("a server does not know the latest cut: the next one is a base");
        give_up(written.folder).await;
        Ok(None)
    }

    /// Lets every server write all rows.
    async fn write_base(&self, publication: &mut Publication) -> Result<WrittenCut, Diagnostic> {
        let written = self.write(publication, CutKind::Base, None).await?;
        if kind_of(&written.manifest) == Some(CutKind::Base) {
            return Ok(written);
        }
        give_up(written.folder).await;
        let message = "a server gave changes, and all rows were asked for";
        Err(Diagnostic::error(Code::E3003, message)
            .help("run servers and chief of the same release"))
    }

    /// Lets every server write its part of a cut into a new folder.
    async fn write(
        &self,
        publication: &mut Publication,
        kind: CutKind,
        snapshots: Option<&[Option<String>]>,
    ) -> Result<WrittenCut, Diagnostic> {
        let began = Instant::now();
        let folder = publication.begin(kind)?;
        match self.write_parts(&folder, snapshots).await {
            Ok(manifest) => Ok(WrittenCut {
                folder,
                manifest,
                began,
            }),
            Err(problem) => {
                give_up(folder).await;
                Err(problem)
            }
        }
    }

    /// Makes a cut visible.
    async fn commit(
        &self,
        mut publication: Publication,
        cut: WrittenCut,
    ) -> Result<(Publication, Manifest), Diagnostic> {
        let WrittenCut {
            folder,
            manifest,
            began,
        } = cut;
        // It may have been replaced while the servers wrote.
        self.check_folder().await?;
        let commit = move || {
            publication.commit(&folder, &manifest)?;
            Ok((publication, manifest))
        };
        let (publication, manifest) = in_background(&self.model_dir, commit).await?;
        self.observe(&manifest, began.elapsed());
        Ok((publication, manifest))
    }

    /// Checks that the model directory is not that of another cluster.
    async fn check_folder(&self) -> Result<(), Diagnostic> {
        let model_dir = self.model_dir.clone();
        let own = self.identity.cluster_id;
        let omitted = "no cut is published into it";
        let check = move || refuse_other_cluster(&model_dir, own, omitted);
        in_background(&self.model_dir, check).await
    }

    /// Lets every server write its part of a cut. Returns the manifest.
    async fn write_parts(
        &self,
        folder: &Path,
        snapshots: Option<&[Option<String>]>,
    ) -> Result<Manifest, Diagnostic> {
        // The servers may run in other working directories, so they receive the absolute path.
        let folder = &absolute(folder);
        let request = |ps: usize| SnapshotRequest {
            step: None,
            base: snapshots.and_then(|names| names.get(ps)?.clone()),
            purpose: SnapshotPurpose::Publication,
        };
        let saved: Result<Vec<Saved>, Error> = match Cut::of(&self.plan) {
            Cut::AtOneStep => save_together(&self.shards, self.identity, folder, request).await,
            // Only a checkpoint holds the batches that a value has had.
            Cut::OnRequest | Cut::ReplicaFirst => {
                let shards = self.shards.iter().enumerate();
                try_join_all(
                    shards.map(|(ps, shard)| shard.save(self.identity, folder, request(ps))),
                )
                .await
            }
        };
        let saved = saved.map_err(|error| failed(&error))?;
        let manifest = self.plan.manifest(&self.identity, &saved);
        manifest.map_err(|(place, error)| {
            let message = format!("ps:{place} reported a part that the chief cannot read: {error}");
            Diagnostic::error(Code::E3003, message)
        })
    }

    fn observe(&self, manifest: &Manifest, took: Duration) {
        let step = manifest.global_step;
        let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
        let is_base = kind_of(manifest) == Some(CutKind::Base);
        self.telemetry.cuts.increment(1);
        self.telemetry.cut_bytes.increment(bytes);
        self.telemetry.cut_seconds.record(took);
        self.telemetry
            .cut_unix_seconds
            .set(manifest.created_unix_secs as f64);
        self.observation.published(Published {
            step,
            unix_secs: manifest.created_unix_secs as f64,
            bytes,
            is_base,
        });
        let seconds = format!("{:.3}", took.as_secs_f64());
        if is_base {
            info!(step, bytes, seconds, "a base is published");
        } else {
            debug!(step, bytes, seconds, "an increment is published");
        }
    }
}

async fn in_background<T: Send + 'static>(
    model_dir: &Path,
    work: impl FnOnce() -> Result<T, Diagnostic> + Send + 'static,
) -> Result<T, Diagnostic> {
    let done = tell_if_slow(FileWork::PublishedCut, model_dir, blocking(work)).await;
    done.map_err(|panic| {
        let message = format!("the cut could not be committed: {panic}");
        Diagnostic::error(Code::E9001, message)
    })?
}

/// Removes the files of a cut that is not committed.
async fn give_up(folder: PathBuf) {
    // Errors are ignored: the next chief, or the next base, removes what remains.
    drop(blocking(move || abandon(&folder)).await);
}

fn failed(error: &Error) -> Diagnostic {
    let message = format!("the values could not be published: {error}");
    Diagnostic::error(Code::E3003, message)
        .help("check that the servers run, and model_dir; the next cut has these changes, too")
}
