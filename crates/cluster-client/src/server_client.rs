//! A client of one parameter server, remote or in this process.

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
use crate::{Error, LocalServer, Preparation, RemoteServer};

/// The contents that the chief gives to the parameter servers.
#[derive(Debug, Clone)]
pub struct Plan {
    /// All variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Slices of the variables, and their servers.
    pub layout: Layout,
    /// Fingerprint of the variables and the layout.
    pub fingerprint: u64,
    /// Update rules, by group.
    pub optimizers: BTreeMap<String, OptimizerConfig>,
    /// Seed of the initial values.
    pub seed: u64,
    /// Last global step; 0 = no bound.
    pub global_step_max: u64,
    /// When pushes take effect, in the store that counts the steps.
    pub update: Update,
    /// Bounds that gradients must keep.
    pub guard: Guard,
    /// Whether the store that counts the steps is the workers' own copy of the variables that are read whole. All
    /// other variables then lie on servers, where each push takes effect as it arrives.
    pub hybrid: bool,
    /// Checkpoint to restore from; absent = initial values.
    pub checkpoint: Option<PathBuf>,
    /// Source of the initial values of the variables that it names.
    pub warm_start: Option<WarmStart>,
    /// Fingerprint of the job file's settings of variables, rules, steps and input.
    pub settings: u64,
    /// Whether to ignore the positions in the data of the checkpoint, because the input is now divided in another
    /// way.
    pub forget_positions: bool,
}

impl Plan {
    /// Returns the manifest of a checkpoint. `saved` has the parts of all servers, in their order.
    ///
    /// # Errors
    /// The entry of a server cannot be parsed. The error has the number of the server, from 0.
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

/// The status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Status of the store.
    pub store: Status,
    /// Random number of the process start. Another value means that the server was restarted. The store's prepared
    /// epoch says whether its values were lost.
    pub incarnation: u64,
    /// Fingerprint of the settings that the server was prepared with; 0 if it is not prepared, or for a store in this
    /// process.
    pub settings: u64,
    /// Whether the server's log is so long that a checkpoint is due.
    pub wants_checkpoint: bool,
    /// Positions of the data shards, if requested.
    pub positions: Vec<ShardPosition>,
}

/// The written part of one server in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Entry of the part in the manifest, as JSON.
    pub record: String,
    /// Global step of the snapshot; of `ps:0` only.
    pub global_step: u64,
}

/// One parameter server.
#[derive(Debug, Clone)]
pub enum ServerClient {
    /// A server in this process.
    Local(LocalServer),
    /// A server that is reached over a network.
    Remote(RemoteServer),
}

macro_rules! dispatch {
    ($self:ident, $shard:ident => $call:expr) => {
        match $self {
            Self::Local($shard) => $call,
            Self::Remote($shard) => $call,
        }
    };
}

/// The futures are boxed, so that their code is compiled in this crate only. Each call is made once; the caller
/// retries. A call that failed with [`Error::Unreachable`] may have had its effect. All calls may be repeated.
impl ServerClient {
    /// Returns the name for messages, for example `ps:1 at 10.0.0.5:2222`.
    pub fn name(&self) -> &str {
        dispatch!(self, shard => shard.name())
    }

    /// Returns the status of the server.
    ///
    /// # Errors
    /// No reply came.
    pub fn status(&self) -> BoxFuture<'_, Result<ServerStatus, Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.status(false).await) })
    }

    /// Returns the status of the server with the positions of the data shards.
    ///
    /// # Errors
    /// No reply came.
    pub fn positions(&self) -> BoxFuture<'_, Result<ServerStatus, Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.status(true).await) })
    }

    /// Reports that a checkpoint with the server's state at `version` has been committed.
    ///
    /// # Errors
    /// No reply came.
    pub fn saved(&self, epoch: u64, version: u64) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.saved(epoch, version).await) })
    }

    /// Claims the server for the term of `identity`.
    ///
    /// # Errors
    /// The server belongs to another cluster, a later term has claimed it, or its `model_dir` is another one.
    pub fn claim<'a>(
        &'a self,
        identity: Identity,
        cluster: u64,
        model_dir: &'a Path,
    ) -> BoxFuture<'a, Result<ServerStatus, Error>> {
        Box::pin(async move {
            dispatch!(self, shard => shard.claim(identity, cluster, model_dir).await)
        })
    }

    /// Replaces the contents of the server. Preparing may take longer than one call: [`crate::prepare`] repeats the
    /// call until the server is done.
    ///
    /// # Errors
    /// The server refuses, or the checkpoint cannot be read.
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

    /// Admits workers.
    ///
    /// # Errors
    /// The server refuses.
    pub fn open(&self, identity: Identity) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.open(identity).await) })
    }

    /// Opens a session of a worker. Returns the first batch of `data_shard` that has not been applied on this server.
    ///
    /// # Errors
    /// The server refuses.
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
    /// The server refuses, or its reply is invalid.
    pub fn step<'a>(
        &'a self,
        identity: Identity,
        call: &'a ShardCall,
    ) -> BoxFuture<'a, Result<ShardAnswer, Error>> {
        Box::pin(async move { dispatch!(self, shard => shard.step(identity, call).await) })
    }

    /// Closes a session of `task`.
    ///
    /// # Errors
    /// The server refuses.
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

    /// Writes the server's part of a checkpoint to `directory`: the current state or, under synchronous updates, the
    /// state at a version that may still be ahead.
    ///
    /// # Errors
    /// The server refuses, the file cannot be written, or the version is past or was not reached in time.
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

    /// Ends the job on this server. `failed`: the job has failed and may be restarted, so the server keeps its log.
    ///
    /// # Errors
    /// The server refuses.
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
