//! The parameters that a worker holds itself, and their handover to other workers.

use std::path::{Path, PathBuf};

use trainyard_checkpoint::{abandon, begin, commit};
use trainyard_cluster_client::Error;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::absolute;
use trainyard_parameter_server::{LocalServer, Plan, SnapshotRequest};
use trainyard_parameter_store::{Identity, State};

use crate::outcome::into_diagnostic;
use crate::{Config, GroupAssignment, GroupStart, MemberValues, scale_learning_rates};

/// Folder in the model directory through which members hand over parameters.
const HANDOVER: &str = "handover";

/// A copy of all parameters.
#[derive(Debug, Clone)]
pub(crate) struct Replica {
    shard: LocalServer,
    plan: Plan,
    /// The learning rates of the plan have been scaled to the group.
    scaled: bool,
}

impl Replica {
    pub(crate) fn new(shard: LocalServer, plan: Plan) -> Self {
        Self {
            shard,
            plan,
            scaled: false,
        }
    }

    pub(crate) fn shard(&self) -> &LocalServer {
        &self.shard
    }

    /// Returns the parameters. `None` if there are none.
    pub(crate) fn values(&self) -> Option<MemberValues> {
        let status = self.shard.store().status();
        if !matches!(status.state, State::Open | State::Draining) {
            return None;
        }
        let positions = self.shard.store().positions();
        let position = positions.iter().find(|position| position.shard == 0);
        Some(MemberValues {
            prepared_epoch: status.prepared_epoch,
            step: status.version.steps()?,
            batches_applied: position.map_or(0, |position| position.batch),
        })
    }

    /// Returns the bytes of the parameters and their slots.
    pub(crate) fn bytes(&self) -> u64 {
        self.shard.store().status().value_bytes
    }

    pub(crate) fn global_step(&self) -> u64 {
        self.shard.store().status().global_step
    }

    /// Claims the store for the chief's term, and opens it if it holds parameters.
    pub(crate) fn claim(
        &mut self,
        config: &Config,
        identity: Identity,
        formed: &GroupAssignment,
    ) -> Result<(), Error> {
        if !self.scaled {
            scale_learning_rates(&config.job, &mut self.plan, formed.lanes as usize);
            self.scaled = true;
        }
        let folder = absolute(&config.job.model_dir);
        self.shard
            .claim(identity, config.servers.fingerprint(), &folder)?;
        if self.values().is_some() {
            self.shard.open(identity)?;
        }
        Ok(())
    }

    /// Makes the parameters from the start of the job: a checkpoint, or initial values.
    pub(crate) async fn start(
        &mut self,
        identity: Identity,
        start: &GroupStart,
    ) -> Result<(), Error> {
        self.plan.checkpoint.clone_from(&start.checkpoint);
        self.plan.forget_positions = start.forget_positions;
        self.shard.prepare(identity, &self.plan).await?;
        Ok(self.shard.open(identity)?)
    }

    /// Writes the parameters where another member can read them. Returns the checkpoint.
    pub(crate) async fn hand_over(
        &self,
        config: &Config,
        identity: Identity,
        generation: u64,
    ) -> Result<PathBuf, Diagnostic> {
        let folder = config
            .job
            .model_dir
            .join(HANDOVER)
            .join(format!("{}-{generation}", identity.epoch));
        let bytes = self.shard.store().status().value_bytes;
        let attempt = format!("{:016x}", identity.incarnation);
        let place = begin(&folder, self.global_step(), &attempt, bytes)?;
        let saved = self
            .shard
            .save(identity, &place, SnapshotRequest::default())
            .await
            .map_err(|error| into_diagnostic(&error.into()));
        let committed = saved.and_then(|saved| {
            let manifest = self
                .plan
                .manifest(&identity, &[saved])
                .map_err(|(_, error)| {
                    let message = format!(
                        "the manifest of the parameters for the other members cannot be \
                            made: {error}"
                    );
                    Diagnostic::error(Code::E3003, message)
                })?;
            Ok(commit(&folder, &place, &manifest)?.path().to_owned())
        });
        if committed.is_err() {
            abandon(&place);
        }
        committed.map(|path| absolute(&path))
    }

    /// Restores the parameters that another member has handed over.
    pub(crate) async fn take_over(
        &mut self,
        identity: Identity,
        checkpoint: &Path,
    ) -> Result<(), Error> {
        self.plan.checkpoint = Some(checkpoint.to_owned());
        self.plan.forget_positions = false;
        self.shard.prepare(identity, &self.plan).await?;
        Ok(self.shard.open(identity)?)
    }
}

/// Removes the parameters that were handed over in a generation.
pub(crate) fn clear_handover(config: &Config, epoch: u64, generation: u64) {
    let folder = config.job.model_dir.join(HANDOVER);
    abandon(&folder.join(format!("{epoch}-{generation}")));
    // The folder is removed unless other files are left in it.
    drop(std::fs::remove_dir(folder));
}
