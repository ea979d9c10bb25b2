//! Recording of a run: what the chief observes goes to the run history, the metrics and the summary writer.

use std::path::Path;
use std::time::Duration;

use metrics::gauge;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;
use trainyard_checkpoint::{Checkpoint, list};
use trainyard_cluster_client::Error;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_server::ServerStatus;
use trainyard_parameter_store::State;
use trainyard_runtime::{FileWork, blocking, tell_if_slow};
use trainyard_trainer::{JobState, LoopStatus};

use super::{Chief, LEAVE_TIMEOUT, Run};
use crate::own_folder::OwnFolder;
use crate::save::Written;
use trainyard_dashboard::history_file;
use trainyard_dashboard::missing;
use trainyard_dashboard::{RunHistory, Saved};

/// Interval between points of the curves.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the curves are written for the next chief.
const HISTORY_WRITE_INTERVAL: Duration = Duration::from_secs(30);

impl Chief {
    /// Restores the curves and the checkpoints of earlier runs to the run history, and sets the metrics that the job
    /// determines.
    pub(super) fn recall(&self, run: &Run) {
        if let Some(secs) = self.job.run.save_checkpoints_secs {
            gauge!("trainyard_checkpoint_interval_seconds").set(secs as f64);
        }
        run.telemetry.expected_tasks.set(self.tasks as f64);
        match history_file::kept(&self.job.model_dir) {
            Ok(curves) => self.observation.resume(curves),
            Err(problem) => {
                warn!(%problem, "the chief cannot read the curves of earlier runs: the curves start from here")
            }
        }
        let found = list(&self.job.model_dir).unwrap_or_else(|error| {
            warn!(model_dir = %self.job.model_dir.display(), %error, "the chief cannot list the earlier checkpoints: the page does not show them");
            Vec::new()
        });
        for found in found {
            let checkpoint = match Checkpoint::open(&found.path) {
                Ok(checkpoint) => checkpoint,
                Err(error) => {
                    warn!(checkpoint = %found.path.display(), %error, "the chief cannot read the checkpoint: the page does not show it");
                    continue;
                }
            };
            let manifest = checkpoint.manifest();
            let unix_secs = manifest.created_unix_secs as f64;
            let bytes = manifest.shards.iter().map(|shard| shard.bytes).sum();
            self.observation.saved(Saved {
                step: found.step,
                unix_secs,
                bytes,
                seconds: None,
            });
            run.telemetry.checkpoint_unix_seconds.set(unix_secs);
            run.telemetry.checkpoint_step.set(found.step as f64);
        }
    }

    /// Passes the global step to the summary writer. The chief calls it while its own training loop does not train and
    /// reports no steps.
    pub(super) fn tell_step(&self, run: &Run) {
        if let Some(events) = self.events.as_ref().filter(|_| run.global_step > 0) {
            events.step(
                run.global_step,
                self.coordinator.with(|membership, _| membership.loss()),
            );
        }
    }

    /// Adds points to the curves while the job trains, until the handle is aborted. It polls the first server itself,
    /// because the watch waits for silent servers and for checkpoints.
    pub(super) fn looks(&self, run: &Run) -> JoinHandle<()> {
        let coordinator = self.coordinator.clone();
        let observation = self.observation.clone();
        let model_dir = self.job.model_dir.clone();
        let own = self.folder.clone();
        let server = self.shards.first().cloned();
        let gauge = run.telemetry.global_steps_per_second.clone();
        tokio::spawn(async move {
            let mut before = None::<(Instant, u64)>;
            let mut kept_at = Instant::now();
            let mut keeping = None::<AbortOnDropHandle<()>>;
            loop {
                tokio::time::sleep(SAMPLE_INTERVAL).await;
                // The model directory may not answer for long, and the step of the run must not wait for it.
                let is_idle = keeping.as_ref().is_none_or(AbortOnDropHandle::is_finished);
                if is_idle && kept_at.elapsed() >= HISTORY_WRITE_INTERVAL {
                    let keep = blocking(keep(&observation, &model_dir, &own));
                    let folder = model_dir.clone();
                    keeping = Some(AbortOnDropHandle::new(tokio::spawn(async move {
                        let _ = tell_if_slow(FileWork::History, &folder, keep).await;
                    })));
                    kept_at = Instant::now();
                }
                if coordinator.with(|membership, _| membership.state()) != JobState::Training {
                    before = None;
                    continue;
                }
                let asked = async { server.as_ref()?.status().await.ok() };
                let told = tokio::time::timeout(SAMPLE_INTERVAL, asked)
                    .await
                    .ok()
                    .flatten();
                let (now, known, views) = coordinator
                    .with(|membership, now| (now, membership.global_step(), membership.view(now)));
                let step = told.map_or(known, |told| told.store.global_step).max(known);
                let at = Instant::now();
                let rate = before.map_or(0.0, |(since, from)| {
                    step.saturating_sub(from) as f64
                        / at.duration_since(since).as_secs_f64().max(1e-9)
                });
                before = Some((at, step));
                gauge.set(rate);
                observation.look(step, rate, now, views);
            }
        })
    }

    /// Writes the curves for the next chief, within a limited time.
    pub(super) async fn keep_curves(&self) {
        let keeping = blocking(keep(&self.observation, &self.job.model_dir, &self.folder));
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, keeping).await;
    }

    pub(super) fn observe_server(&self, ps: usize, status: &ServerStatus) {
        let store = &status.store;
        let state = match store.state {
            State::Open | State::Draining => "ready",
            _ => "waiting",
        };
        self.observation.server(ps, |server| {
            (server.state, server.reason) = (state, None);
            (server.version, server.value_bytes) = (store.version.count(), store.value_bytes);
        });
    }

    pub(super) fn observe_silence(&self, ps: usize, error: &Error) {
        self.observation.server(ps, |server| {
            (server.state, server.reason) = ("silent", Some(error.to_string()));
        });
    }

    /// Returns whether no parameter server answers. Then it is more likely that this chief is cut off than that all
    /// servers are.
    pub(super) fn is_cut_off(&self) -> bool {
        let servers = self.observation.servers();
        !servers.is_empty() && servers.iter().all(|server| server.state == "silent")
    }

    /// Sets the status of the chief when the tasks change that an open job waits for. `told` holds the tasks of the
    /// last status.
    pub(super) fn tell_of_missing(&self, told: &mut Vec<String>) {
        let active = self.coordinator.with(|membership, _| membership.active());
        let missing = missing(&self.observation.servers(), active);
        if missing != *told {
            let state = if missing.is_empty() {
                "training"
            } else {
                "waiting"
            };
            // The backup of a silent server takes its shards over, and training goes on.
            let goes_on = self.pairs.is_some() && active > 0;
            (self.set_status)(LoopStatus {
                state,
                is_ready: missing.is_empty() || goes_on,
                waiting_for: missing.clone(),
            });
            *told = missing;
        }
    }

    pub(super) fn observe_save(&self, written: &Result<Written, Diagnostic>) {
        let Ok(Written {
            step,
            path,
            bytes,
            unix_secs,
            time,
            ..
        }) = written
        else {
            // A server that cannot be reached is no failure of the disk, here as in the metrics.
            if !matches!(written, Err(problem) if problem.code == Code::E2003) {
                self.observation.not_saved();
            }
            return;
        };
        let unix_secs = *unix_secs as f64;
        let seconds = Some(time.as_secs_f64());
        self.observation.saved(Saved {
            step: *step,
            unix_secs,
            bytes: *bytes,
            seconds,
        });
        if let Some(events) = &self.events {
            events.checkpoint(*step, path.clone());
        }
    }
}

/// Returns a closure that writes the present curves, unless the folder is that of another cluster.
fn keep(
    observation: &RunHistory,
    model_dir: &Path,
    own: &OwnFolder,
) -> impl FnOnce() + Send + 'static {
    let curves = observation.curves();
    let model_dir = model_dir.to_owned();
    let own = own.clone();
    move || {
        if !own.is_own() {
            return;
        }
        if let Err(error) = history_file::keep(&model_dir, &curves) {
            warn!(%error, "the chief could not write the curves of the run: the next chief \
                starts without them");
        }
    }
}
