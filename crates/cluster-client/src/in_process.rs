//! A client of a parameter server in this process: each call is a call of the server.

use std::path::Path;
use std::sync::Arc;

use trainyard_cluster_spec::Task;
use trainyard_parameter_server::{LocalServer, Plan, Saved, ServerStatus, SnapshotRequest};
use trainyard_parameter_store::{Identity, OpenSession, Opened, StepReply, StepRequest};
use trainyard_protocol::payload::Encoding;

use crate::{Answer, Error, JobEnd, Preparation, ServerClient, ShardGradients};

#[tonic::async_trait]
impl ServerClient for LocalServer {
    fn name(&self) -> &str {
        self.name()
    }

    fn is_remote(&self) -> bool {
        false
    }

    async fn status(&self) -> Result<ServerStatus, Error> {
        Ok(self.status())
    }

    async fn positions(&self) -> Result<ServerStatus, Error> {
        Ok(self.positions())
    }

    async fn saved(&self, epoch: u64, version: u64) -> Result<(), Error> {
        self.store().saved(epoch, version);
        Ok(())
    }

    async fn make_room(&self) -> Result<(), Error> {
        // It keeps no log.
        Ok(())
    }

    async fn claim(
        &self,
        identity: Identity,
        cluster: u64,
        model_dir: &Path,
    ) -> Result<ServerStatus, Error> {
        Ok(self.claim(identity, cluster, model_dir)?)
    }

    async fn prepare(&self, identity: Identity, plan: &Plan) -> Result<Preparation, Error> {
        Ok(Preparation::Done(self.prepare(identity, plan).await?))
    }

    async fn open(&self, identity: Identity) -> Result<(), Error> {
        Ok(self.open(identity)?)
    }

    async fn open_session(
        &self,
        identity: Identity,
        request: &OpenSession,
    ) -> Result<Opened, Error> {
        Ok(self.open_session(identity, request)?)
    }

    async fn step(
        &self,
        identity: Identity,
        request: &StepRequest<Arc<ShardGradients>>,
        _encoding: Encoding,
    ) -> Result<StepReply<Box<dyn Answer>>, Error> {
        let StepReply { pushed, pulled } = self.apply(&identity, request).await?;
        Ok(StepReply {
            pushed,
            pulled: pulled.map(|(pulled, reading)| (pulled, Box::new(reading) as Box<dyn Answer>)),
        })
    }

    async fn close_session(
        &self,
        identity: Identity,
        task: Task,
        session: u64,
    ) -> Result<(), Error> {
        Ok(self.close_session(identity, task, session)?)
    }

    async fn save(
        &self,
        identity: Identity,
        directory: &Path,
        at: SnapshotRequest,
    ) -> Result<Saved, Error> {
        Ok(self.save(identity, directory, at).await?)
    }

    async fn finish(&self, identity: Identity, _reason: &str, _end: JobEnd) -> Result<(), Error> {
        Ok(self.finish(identity)?)
    }
}
