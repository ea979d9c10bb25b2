//! One parameter server, wherever it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use trainyard_checkpoint::{Manifest, ShardRecord, WarmStart};
use trainyard_cluster_spec::Task;
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_store::{Guard, Identity, Opened, ShardPosition, Status, Update};
use trainyard_variable::{Layout, VariableSpec};

use crate::call::{ShardAnswer, ShardCall};
use crate::{Error, LocalShard, Preparation, RemoteShard};

/// What the chief wants every parameter server to hold.
#[derive(Debug, Clone)]
pub struct Plan {
    /// All variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Their cut over the servers.
    pub layout: Layout,
    /// Fingerprint of both.
    pub fingerprint: u64,
    /// Update rules, by group.
    pub optimizers: BTreeMap<String, OptimizerConfig>,
    /// Seed of first values.
    pub seed: u64,
    /// Last global step; 0 = no bound.
    pub global_step_max: u64,
    /// When pushes take effect, in the store that counts the steps.
    pub update: Update,
    /// What values pushes may hold.
    pub guard: Guard,
    /// Whether that store is the workers' own copy of what is read whole, and everything else lies on servers, where each
    /// push takes effect as it comes.
    pub hybrid: bool,
    /// Checkpoint to restore from; absent = first values.
    pub checkpoint: Option<PathBuf>,
    /// Where first values come from, for the variables that it names.
    pub warm_start: Option<WarmStart>,
    /// Fingerprint of everything that the job file says of variables, rules, steps and input.
    pub settings: u64,
    /// Whether the checkpoint's positions in the data mean nothing: the input is divided in another way now.
    pub forget_positions: bool,
}

impl Plan {
    /// Returns the manifest of a checkpoint that every server has written its part of, in their order.
    ///
    /// # Errors
    /// Names the server, from 0, whose entry cannot be read.
    pub fn manifest(
        &self,
        identity: &Identity,
        saved: &[Saved],
    ) -> Result<Manifest, (usize, String)> {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let step = saved.first().map_or(0, |saved| saved.global_step);
        let cluster_id = format!("{:032x}", identity.cluster_id);
        let mut manifest = Manifest::new(cluster_id, identity.epoch, step, now);
        let records = saved
            .iter()
            .map(|saved| serde_json::from_str(&saved.record))
            .enumerate();
        let record = |(place, record): (usize, Result<ShardRecord, serde_json::Error>)| {
            record.map_err(|error| (place, error.to_string()))
        };
        manifest.shards = records.map(record).collect::<Result<_, _>>()?;
        manifest.num_ps = saved.len();
        manifest.variables.clone_from(&self.variables);
        manifest.optimizers.clone_from(&self.optimizers);
        manifest.seed = self.seed;
        Ok(manifest)
    }
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    /// The store's part.
    pub store: Status,
    /// Random per process start: another value means that the server was restarted. Whether it has lost its memory, the
    /// store says.
    pub incarnation: u64,
    /// Fingerprint of the settings that it was prepared with; 0 where nothing was prepared, or for a store in this
    /// process.
    pub settings: u64,
    /// Whether its log has grown long, so that a checkpoint is due.
    pub wants_checkpoint: bool,
    /// How far the data has been applied, where that was asked.
    pub positions: Vec<ShardPosition>,
}

/// A written shard of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The shard's entry in the manifest, as JSON.
    pub record: String,
    /// Global step at the moment of the copy; of `ps:0` only.
    pub global_step: u64,
}

/// One parameter server.
#[derive(Debug, Clone)]
pub enum Shard {
    /// In this process.
    Local(LocalShard),
    /// Behind a network.
    Remote(RemoteShard),
}

macro_rules! dispatch {
    ($self:ident, $shard:ident => $call:expr) => {
        match $self {
            Self::Local($shard) => $call,
            Self::Remote($shard) => $call,
        }
    };
}

/// Futures are boxed, so that what is behind them is compiled here alone. Every call is made once: retrying is the caller's. A call that failed with [`Error::Unreachable`] may have had its
/// effect; all of them may be repeated.
impl Shard {
    /// Returns the name for messages, for example `ps:1 at 10.0.0.5:2222`.
    pub fn name(&self) -> &str {
        dispatch!(self, shard => shard.name())
    }

    /// Returns what the server is and does.
    ///
    /// # Errors
    /// No answer.
    pub fn status(&self) -> BoxFuture<'_, Result<ShardStatus, Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.status(false).await) })
    }

    /// The same, with how far the data has been applied.
    ///
    /// # Errors
    /// No answer.
    pub fn positions(&self) -> BoxFuture<'_, Result<ShardStatus, Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.status(true).await) })
    }

    /// Tells the server that a checkpoint has been committed which holds its state of `version`.
    ///
    /// # Errors
    /// No answer.
    pub fn saved(&self, epoch: u64, version: u64) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.saved(epoch, version).await) })
    }

    /// Takes the server over for the epoch of `identity`.
    ///
    /// # Errors
    /// Refused by a server of another cluster or a higher epoch, or one that does not see the same `model_dir`.
    pub fn claim<'a>(
        &'a self,
        identity: Identity,
        cluster: u64,
        model_dir: &'a Path,
    ) -> BoxFuture<'a, Result<ShardStatus, Error>> {
        Box::pin(async move {
            dispatch!(self, shard => shard.claim(identity, cluster, model_dir).await)
        })
    }

    /// Replaces everything the server holds. That may take longer than a call: the same call is made until it is done,
    /// see [`crate::prepare`].
    ///
    /// # Errors
    /// Refused, or the checkpoint cannot be read.
    pub fn prepare<'a>(
        &'a self,
        identity: Identity,
        plan: &'a Plan,
    ) -> BoxFuture<'a, Result<Preparation, Error>> {
        Box::pin(async move {
            match self {
                Self::Local(shard) => shard.prepare(identity, plan).await.map(Preparation::Done),
                Self::Remote(shard) => shard.prepare(identity, plan).await,
            }
        })
    }

    /// Lets workers in.
    ///
    /// # Errors
    /// Refused.
    pub fn open(&self, identity: Identity) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.open(identity).await) })
    }

    /// Starts a worker's session; tells the first batch of `data_shard` that has not been applied here.
    ///
    /// # Errors
    /// Refused.
    pub fn open_session(
        &self,
        identity: Identity,
        fingerprint: u64,
        data_shard: u64,
    ) -> BoxFuture<'_, Result<Opened, Error>> {
        Box::pin(async move {
            dispatch!(self, shard => shard.open_session(identity, fingerprint, data_shard).await)
        })
    }

    /// Applies one step's gradients, then reads what a later step needs.
    ///
    /// # Errors
    /// Refused, or an answer that is none.
    pub fn step<'a>(
        &'a self,
        identity: Identity,
        call: &'a ShardCall,
    ) -> BoxFuture<'a, Result<ShardAnswer, Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.step(identity, call).await) })
    }

    /// Ends a session of `task`.
    ///
    /// # Errors
    /// Refused.
    pub fn close_session(
        &self,
        identity: Identity,
        task: Task,
        session: u64,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            dispatch!(self, shard => shard.close_session(identity, task, session).await)
        })
    }

    /// Writes the server's shard of a checkpoint into `directory`: of this moment or, under synchronous updates, of a
    /// version that may be about to come.
    ///
    /// # Errors
    /// Refused, the file cannot be written, or the version is past or has not come in time.
    pub fn save<'a>(
        &'a self,
        identity: Identity,
        directory: &'a Path,
        at_version: Option<u64>,
    ) -> BoxFuture<'a, Result<Saved, Error>> {
        Box::pin(async move {
            dispatch!(self, shard => shard.save(identity, directory, at_version).await)
        })
    }

    /// Ends the job for this server. `failed`: it is not done, and may be started again; then the server's log stays.
    ///
    /// # Errors
    /// Refused.
    pub fn finish<'a>(
        &'a self,
        identity: Identity,
        reason: &'a str,
        failed: bool,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(
            async move { dispatch!(self, shard => shard.finish(identity, reason, failed).await) },
        )
    }
}
