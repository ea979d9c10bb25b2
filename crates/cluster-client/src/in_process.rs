//! A client of a parameter server in this process: each call is a call of the server.

use std::path::Path;
use std::sync::Arc;

use trainyard_cluster_spec::Task;
use trainyard_parameter_server::{
    LocalServer, Plan, Saved, ServerStatus, SnapshotRequest, Stepped,
};
use trainyard_parameter_store::{Identity, Opened, Pull, Push};

use crate::answer::Answer;
use crate::call::{ShardAnswer, ShardCall, ShardPull, ShardPush};
use crate::{Error, JobEnd, Preparation, ServerClient, ShardGradients};

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
        fingerprint: u64,
        data_shard: u64,
    ) -> Result<Opened, Error> {
        Ok(self.open_session(identity, fingerprint, data_shard)?)
    }

    async fn step(&self, identity: Identity, call: &ShardCall) -> Result<ShardAnswer, Error> {
        let push = call.push.as_ref().map(|push| push_of(identity, push));
        let pull = call.pull.as_ref().map(|pull| pull_of(identity, pull));
        let Stepped { pushed, pulled } = self.apply(push, pull).await?;
        Ok(ShardAnswer {
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

fn push_of(identity: Identity, push: &ShardPush) -> (Identity, Push<'_, ShardGradients>) {
    let ShardPush {
        seq,
        batch,
        batches,
        pulled_version,
        micro_batch,
        ref selection,
        ref gradients,
        rejected,
    } = *push;
    (
        Identity { seq, ..identity },
        Push {
            batch,
            batches,
            pulled_version,
            micro_batch,
            selection: selection.clone(),
            gradients: &**gradients,
            rejected,
        },
    )
}

fn pull_of(identity: Identity, pull: &ShardPull) -> (Identity, Pull) {
    let ShardPull {
        seq,
        ref selection,
        ref known,
        reserve_step,
        at_least,
        or_before,
        half_applied,
        ..
    } = *pull;
    (
        Identity { seq, ..identity },
        Pull {
            selection: Arc::clone(selection),
            known: known.clone(),
            reserve_step,
            at_least,
            or_before,
            half_applied,
        },
    )
}
