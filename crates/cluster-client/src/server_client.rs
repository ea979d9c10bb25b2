//! A client of one parameter server, remote or in this process.

use std::path::Path;

use futures_util::future::BoxFuture;
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::{Identity, Opened};

use crate::call::{ShardAnswer, ShardCall};
use crate::{Error, LocalServer, Plan, Preparation, RemoteServer, Saved, ServerStatus};

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
