//! The chief, reached over gRPC.

use futures_util::future::BoxFuture;
use trainyard_cluster_client::{Error, timed};
use trainyard_protocol::Channel;
use trainyard_protocol::convert::Invalid;
use trainyard_protocol::v1::session_service_client::SessionServiceClient;
use trainyard_protocol::{limits, v1};

use super::{
    Coordinator, HeartbeatReply, HeartbeatRequest, JoinGroupReply, JoinGroupRequest, LeaveReason,
    LeaveRequest, NextShardReply, NextShardRequest, RegisterReply, RegisterRequest,
};

/// The chief, reached over gRPC.
#[derive(Debug, Clone)]
pub struct RemoteCoordinator {
    name: String,
    client: SessionServiceClient<Channel>,
}

impl RemoteCoordinator {
    /// Returns the chief that listens at one of `addresses`, reached through `channel`.
    pub fn new(addresses: &[String], channel: Channel) -> Self {
        let client = SessionServiceClient::new(channel)
            .max_decoding_message_size(limits::INLINE_RECORDS_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::CONTROL_MESSAGE_BYTES_MAX);
        Self {
            name: format!("chief:0 at {}", addresses.join(" or ")),
            client,
        }
    }

    /// Follows the leading chief of the model directory with this cluster id. Calls `heard` with the chief's term, 0 if
    /// it has none yet, when the chief answers and at each term that it begins. Returns when the connection breaks.
    ///
    /// # Errors
    /// The chief has not answered, or leads another job.
    pub async fn follow(&self, cluster_id: u128, mut heard: impl FnMut(u64)) -> Result<(), Error> {
        let request = v1::StandByRequest {
            cluster_id: cluster_id.to_be_bytes().to_vec().into(),
        };
        let mut client = self.client.clone();
        let reply = timed(&self.name, limits::CALL_TIMEOUT, client.stand_by(request)).await?;
        let mut signs = reply.into_inner();
        while let Ok(Some(sign)) = signs.message().await {
            heard(sign.cluster_epoch);
        }
        Ok(())
    }

    /// Returns the reply in a message.
    fn reply<M, T: TryFrom<M, Error = Invalid>>(&self, message: M) -> Result<T, Error> {
        message
            .try_into()
            .map_err(|error: Invalid| Error::Protocol {
                peer: self.name.clone(),
                message: error.to_string(),
            })
    }
}

impl Coordinator for RemoteCoordinator {
    fn register(&self, join: RegisterRequest) -> BoxFuture<'_, Result<RegisterReply, Error>> {
        Box::pin(async move {
            let mut client = self.client.clone();
            let message = v1::RegisterRequest::from(join);
            let call = client.register(message);
            let reply = timed(&self.name, limits::CALL_TIMEOUT, call).await?;
            self.reply(reply.into_inner())
        })
    }

    fn heartbeat(
        &self,
        heartbeat: HeartbeatRequest,
    ) -> BoxFuture<'_, Result<HeartbeatReply, Error>> {
        Box::pin(async move {
            let mut client = self.client.clone();
            let message = v1::HeartbeatRequest::from(heartbeat);
            let call = client.heartbeat(message);
            let reply = timed(&self.name, limits::CALL_TIMEOUT, call).await?;
            Ok(reply.into_inner().into())
        })
    }

    fn keep_alive(&self, heartbeat: HeartbeatRequest) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut client = self.client.clone();
            let message = v1::HeartbeatRequest::from(heartbeat);
            if let Ok(reply) = client.keep_alive(message).await {
                let mut attendance = reply.into_inner();
                while let Ok(Some(_)) = attendance.message().await {}
            }
        })
    }

    fn next_shard(&self, ask: NextShardRequest) -> BoxFuture<'_, Result<NextShardReply, Error>> {
        Box::pin(async move {
            let mut client = self.client.clone();
            let message = v1::NextShardRequest::from(ask);
            let call = client.next_shard(message);
            let reply = timed(&self.name, limits::CALL_TIMEOUT, call).await?;
            self.reply(reply.into_inner())
        })
    }

    fn join_group(&self, form: JoinGroupRequest) -> BoxFuture<'_, Result<JoinGroupReply, Error>> {
        Box::pin(async move {
            let mut client = self.client.clone();
            let message = v1::JoinGroupRequest::from(form);
            let call = client.join_group(message);
            let reply = timed(&self.name, limits::CALL_TIMEOUT, call).await?;
            self.reply(reply.into_inner())
        })
    }

    fn leave(
        &self,
        heartbeat: HeartbeatRequest,
        reason: LeaveReason,
    ) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let mut client = self.client.clone();
            let message = v1::LeaveRequest::from(LeaveRequest { heartbeat, reason });
            let call = client.leave(message);
            timed(&self.name, limits::CALL_TIMEOUT, call)
                .await
                .map(drop)
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
