//! The parameters that a worker holds itself, and their handover to other workers.

use std::path::{Path, PathBuf};

use trainyard_checkpoint::{abandon, begin, commit, committed_folder, folder_name};
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
    ///
    /// # Errors
    /// The chief names no checkpoint of the model directory, or it cannot be read.
    pub(crate) async fn start(
        &mut self,
        config: &Config,
        identity: Identity,
        start: &GroupStart,
    ) -> Result<(), Error> {
        let own = |checkpoint: &PathBuf| {
            named_in(&config.job.model_dir, &folder_name(checkpoint), "the chief")
        };
        self.plan.checkpoint = start.checkpoint.as_ref().map(own).transpose()?;
        self.plan.forget_positions = start.forget_positions;
        self.shard.prepare(identity, &self.plan).await?;
        Ok(self.shard.open(identity)?)
    }

    /// Writes the parameters where another member can read them. Returns the name of the checkpoint in the folder of this
    /// handover.
    pub(crate) async fn hand_over(
        &self,
        config: &Config,
        identity: Identity,
        generation: u64,
    ) -> Result<String, Diagnostic> {
        let folder = handover_folder(config, identity.epoch, generation);
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
            Ok(folder_name(commit(&folder, &place, &manifest)?.path()))
        });
        if committed.is_err() {
            abandon(&place);
        }
        committed
    }

    /// Restores the parameters that another member has handed over in a generation, as the checkpoint of this name.
    ///
    /// # Errors
    /// The member names no checkpoint, or it cannot be read.
    pub(crate) async fn take_over(
        &mut self,
        config: &Config,
        identity: Identity,
        generation: u64,
        checkpoint: &str,
    ) -> Result<(), Error> {
        let folder = handover_folder(config, identity.epoch, generation);
        let checkpoint = named_in(&folder, checkpoint, "the member with the newest parameters")?;
        self.plan.checkpoint = Some(checkpoint);
        self.plan.forget_positions = false;
        self.shard.prepare(identity, &self.plan).await?;
        Ok(self.shard.open(identity)?)
    }
}

/// Returns the folder through which members hand over parameters in a generation.
fn handover_folder(config: &Config, epoch: u64, generation: u64) -> PathBuf {
    let all = config.job.model_dir.join(HANDOVER);
    all.join(format!("{epoch}-{generation}"))
}

/// Returns the checkpoint that a peer names in a folder of this task.
fn named_in(folder: &Path, name: &str, peer: &str) -> Result<PathBuf, Error> {
    let named = committed_folder(folder, name).map_err(|error| Error::Protocol {
        peer: peer.to_owned(),
        message: error.to_string(),
    })?;
    Ok(absolute(&named))
}

/// Removes the parameters that were handed over in a generation.
pub(crate) fn clear_handover(config: &Config, epoch: u64, generation: u64) {
    abandon(&handover_folder(config, epoch, generation));
    // The folder is removed unless other files are left in it.
    drop(std::fs::remove_dir(config.job.model_dir.join(HANDOVER)));
}
