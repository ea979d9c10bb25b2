//! A client of one parameter server, whether the server is remote or in this process.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use trainyard_checkpoint::PartRead;
use trainyard_cluster_spec::Task;
use trainyard_parameter_server::{Plan, Saved, ServerStatus, SnapshotRequest};
use trainyard_parameter_store::{Identity, OpenSession, Opened, Progress, StepReply, StepRequest};
use trainyard_protocol::payload::Encoding;

use crate::{Answer, Error, ShardGradients};

/// Progress of a server that prepares its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preparation {
    /// All values are ready. The parts are those that the server has read of checkpoint tensors which other servers
    /// have read too.
    Done(Vec<PartRead>),
    /// The server is still preparing.
    UnderWay(Progress),
}

/// The end of a job, for its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// The job is done, and its last checkpoint holds every update. The server removes its log.
    Done,
    /// The job has failed and may be restarted. The server keeps its log.
    Failed,
}

/// One parameter server. Each call is made once; the caller retries. A call that failed with [`Error::Unreachable`] may
/// have had its effect. All calls may be repeated.
#[tonic::async_trait]
pub trait ServerClient: Debug + Send + Sync {
    /// Returns the name for messages, for example `ps:1 at 10.0.0.5:2222`.
    fn name(&self) -> &str;

    /// Returns whether calls travel over a network.
    fn is_remote(&self) -> bool;

    /// Returns the status of the server.
    ///
    /// # Errors
    /// No reply came.
    async fn status(&self) -> Result<ServerStatus, Error>;

    /// Returns the status of the server with the positions of the data shards.
    ///
    /// # Errors
    /// No reply came.
    async fn positions(&self) -> Result<ServerStatus, Error>;

    /// Reports that a checkpoint with the server's state at `version` has been committed.
    ///
    /// # Errors
    /// No reply came.
    async fn saved(&self, epoch: u64, version: u64) -> Result<(), Error>;

    /// Makes the server give files that its log keeps for later back to a checkpoint that lacks room on their disk.
    ///
    /// # Errors
    /// No reply came.
    async fn make_room(&self) -> Result<(), Error>;

    /// Claims the server for the term of `identity`. `cluster` is the fingerprint of the chief's cluster spec.
    ///
    /// # Errors
    /// The server belongs to another cluster, a later term has claimed it, or its `model_dir` is another one.
    async fn claim(
        &self,
        identity: Identity,
        cluster: u64,
        model_dir: &Path,
    ) -> Result<ServerStatus, Error>;

    /// Replaces the contents of the server. Preparing may take longer than one call: [`crate::prepare`] repeats the
    /// call until the server is done.
    ///
    /// # Errors
    /// The server refuses, or the checkpoint cannot be read.
    async fn prepare(&self, identity: Identity, plan: &Plan) -> Result<Preparation, Error>;

    /// Admits workers.
    ///
    /// # Errors
    /// The server refuses.
    async fn open(&self, identity: Identity) -> Result<(), Error>;

    /// Opens a session of a worker. Returns the first batch of its data shard that has not been applied on this server.
    ///
    /// # Errors
    /// The server refuses.
    async fn open_session(
        &self,
        identity: Identity,
        request: &OpenSession,
    ) -> Result<Opened, Error>;

    /// Applies one step's gradients, then reads what a later step needs. The values that are read travel in this
    /// `encoding`.
    ///
    /// # Errors
    /// The server refuses, or its reply is invalid.
    async fn step(
        &self,
        identity: Identity,
        request: &StepRequest<Arc<ShardGradients>>,
        encoding: Encoding,
    ) -> Result<StepReply<Box<dyn Answer>>, Error>;

    /// Closes a session of `task`.
    ///
    /// # Errors
    /// The server refuses.
    async fn close_session(
        &self,
        identity: Identity,
        task: Task,
        session: u64,
    ) -> Result<(), Error>;

    /// Writes the server's part of a checkpoint to `directory`: the current state or, under synchronous updates, the
    /// state at a version that may still be ahead.
    ///
    /// # Errors
    /// The server refuses, the file cannot be written, or the version is past or was not reached in time.
    async fn save(
        &self,
        identity: Identity,
        directory: &Path,
        at: SnapshotRequest,
    ) -> Result<Saved, Error>;

    /// Ends the job on this server.
    ///
    /// # Errors
    /// The server refuses.
    async fn finish(&self, identity: Identity, reason: &str, end: JobEnd) -> Result<(), Error>;
}
