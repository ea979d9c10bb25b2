//! Checkpoints of a running job. Meanwhile the chief closes sessions and assigns lanes. The last checkpoint is retried
//! until it is written.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tracing::{debug, error, warn};
use trainyard_checkpoint::Keep;
use trainyard_daemon::CancellationToken;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_parameter_store::State;
use trainyard_runtime::blocking;

use super::watch::{SAVE_RETRY_INTERVAL, STATUS_TIMEOUT, WATCH_INTERVAL, close_sessions, status};
use super::{Chief, Run};
use crate::save::{Cut, SaveRequest, Saver, Written};

/// Wait before the last checkpoint is retried. It is short, because all tasks wait and none trains.
const LAST_SAVE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Chief {
    /// Writes a checkpoint, unless the latest one holds the present values of all servers.
    pub(super) async fn save(&self, run: &mut Run) -> Result<(), Diagnostic> {
        self.save_as(run, Cut::of(&self.plan)).await
    }

    /// Writes a checkpoint while no task trains. The servers need not save a common step, whatever the update mode was
    /// before.
    pub(super) async fn save_apart(&self, run: &mut Run) -> Result<(), Diagnostic> {
        self.save_as(run, Cut::OnRequest).await
    }

    async fn save_as(&self, run: &mut Run, cut: Cut) -> Result<(), Diagnostic> {
        // A server may have applied more pushes of the same step since.
        if run.saved.step == Some(run.global_step) && run.saved.versions == run.versions {
            run.saved.at = Instant::now();
            self.tell_saved(run).await;
            return Ok(());
        }
        if let Some(evaluated) = &mut run.evaluated {
            evaluated.look(run.saved.step).await;
        }
        let job = &self.job;
        let saver = Saver {
            model_dir: &job.model_dir,
            shards: &self.shards,
            replica: self.mirror.as_ref().map(|mirror| &mirror.shard),
            plan: &self.plan,
            provenance: &run.provenance,
            keep: Keep {
                max: job.run.keep_checkpoint_max,
                every_n_hours: job.run.keep_checkpoint_every_n_hours,
                best: run
                    .evaluated
                    .as_ref()
                    .and_then(|evaluated| evaluated.verdict.best)
                    .map(|best| best.step),
                unevaluated: job.eval.every_checkpoint,
            },
            telemetry: &run.telemetry,
        };
        let bytes = run.server_bytes.iter().sum();
        let identity = self.identity(run);
        let request = SaveRequest {
            identity,
            cut,
            known_step: run.global_step,
            value_bytes: bytes,
        };
        let saving = saver.save(request, &mut run.saved.bases);
        // A checkpoint may take minutes. A task that dies meanwhile must not block the others.
        let tending = async {
            loop {
                tokio::time::sleep(WATCH_INTERVAL).await;
                close_sessions(self, identity, &run.telemetry, &mut run.unclosed).await;
                self.coordinator
                    .with(|membership, now| membership.assign_lanes(now, None));
            }
        };
        let written = tokio::select! {
            written = saving => written,
            () = tending => unreachable!("the loop never ends"),
        };
        self.observe_save(&written);
        let Written {
            step,
            path,
            versions,
            ..
        } = written?;
        self.record_job_as_run(run);
        run.saved.step = Some(step);
        run.saved.versions = versions;
        run.saved.at = Instant::now();
        self.tell_saved(run).await;
        run.callback_failure = self.call_back(step, path).await.err();
        Ok(())
    }

    /// Calls the callbacks that receive checkpoints.
    ///
    /// # Errors
    /// The user's code fails.
    async fn call_back(&self, step: u64, checkpoint: PathBuf) -> Result<(), Diagnostic> {
        if self.model.callbacks().is_none() {
            return Ok(());
        }
        let model = Arc::clone(&self.model);
        let called = blocking(move || {
            let callbacks = model.callbacks();
            callbacks.map_or(Ok(()), |callbacks| callbacks.after_save(step, &checkpoint))
        });
        match called.await {
            Ok(called) => Ok(called?),
            Err(panic) => {
                let message = format!("the callbacks of a checkpoint have failed: {panic}");
                Err(Diagnostic::error(Code::E9001, message))
            }
        }
    }

    /// Reports to every server which of its versions a committed checkpoint holds. A server that drains waits for this
    /// report.
    async fn tell_saved(&self, run: &Run) {
        let told = self
            .shards
            .iter()
            .zip(&run.saved.versions)
            .filter_map(|(shard, version)| Some((shard, version.as_ref()?.count())))
            .map(|(shard, version)| async move {
                let told =
                    tokio::time::timeout(STATUS_TIMEOUT, shard.saved(run.epoch, version)).await;
                if let Ok(Err(error)) = told {
                    debug!(%error, "a server did not accept the report of its checkpoint");
                }
            });
        join_all(told).await;
    }

    /// Writes the last checkpoint of a job that is done, and retries it: a failure may pass, such as a server that
    /// restarts or a full disk. Only this checkpoint and the servers' logs hold the work of hours.
    ///
    /// # Errors
    /// Another chief leads, a server has lost its values, or the checkpoint could not be written within the deadline.
    pub(super) async fn save_last(
        &self,
        run: &mut Run,
        stop: &CancellationToken,
    ) -> Result<(), Diagnostic> {
        let begun = Instant::now();
        let mut told_at = None::<Instant>;
        loop {
            let problem = match self.save(run).await {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            let waits = begun.elapsed() < self.connect_deadline && !stop.is_cancelled();
            if problem.code == Code::E2009 || !waits {
                return Err(problem);
            }
            if let Some(name) = self.forgetful_server().await {
                return Err(problem.note(format!("{name} was restarted, and has lost its values")));
            }
            if told_at.is_none_or(|at| at.elapsed() >= SAVE_RETRY_INTERVAL) {
                told_at = Some(Instant::now());
                error!("{}", problem.log_line());
                warn!(
                    "the chief retries the last checkpoint until it is written; the servers keep \
                    their values"
                );
            }
            tokio::select! {
                () = tokio::time::sleep(LAST_SAVE_RETRY_INTERVAL) => {}
                () = stop.cancelled() => {}
            }
            self.refresh(run).await;
        }
    }

    /// Returns the name of a server that answers and is empty.
    async fn forgetful_server(&self) -> Option<String> {
        let told = join_all((0..self.shards.len()).map(|ps| status(self, ps))).await;
        let place = told.iter().position(|status| {
            status
                .as_ref()
                .is_ok_and(|status| status.store.state == State::Empty)
        })?;
        Some(self.shards[place].name().to_owned())
    }
}
