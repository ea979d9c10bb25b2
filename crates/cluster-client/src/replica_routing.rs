//! The servers that may serve a shard: one server, or two that hold its replicas.
//!
//! Only the primary serves; the backup refuses. After a call that is refused in this way, or gets no reply, the
//! caller's retry goes to the other server. Everything that one server has acknowledged is known to its successor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::codegen::http::HeaderValue;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};
use trainyard_protocol::Channel;
use trainyard_protocol::v1::parameter_service_client::ParameterServiceClient;
use trainyard_protocol::{Reason, limits};

use crate::Error;

/// Adds the shard to the metadata of every call.
#[derive(Debug, Clone)]
pub(crate) struct NameShard(usize);

impl Interceptor for NameShard {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert(limits::SHARD_KEY, MetadataValue::from(self.0 as u64));
        Ok(request)
    }
}

pub(crate) type Client = ParameterServiceClient<InterceptedService<Channel, NameShard>>;

/// A server that may serve the shard.
#[derive(Debug, Clone)]
pub(crate) struct Replica {
    /// Name for messages.
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) channel: Channel,
}

/// All replicas, and the one in use. Clones share the choice.
#[derive(Debug, Clone)]
pub(crate) struct Replicas {
    replicas: Vec<Replica>,
    current: Arc<AtomicUsize>,
    /// The shard, for calls that build their own requests.
    pub(crate) shard: HeaderValue,
}

impl Replicas {
    /// Returns the single server of a shard.
    pub(crate) fn new(ps: usize, address: &str, channel: Channel) -> Self {
        let replicas = vec![replica(ps, format!("ps:{ps} at {address}"), channel)];
        Self {
            replicas,
            current: Arc::default(),
            shard: HeaderValue::from(ps as u64),
        }
    }

    /// Adds the server that holds the second replica.
    pub(crate) fn and(mut self, ps: usize, server: usize, address: &str, channel: Channel) -> Self {
        self.replicas.push(replica(
            ps,
            format!("ps:{ps} in ps:{server} at {address}"),
            channel,
        ));
        self
    }

    /// Returns the number of the replica in use, and the replica.
    pub(crate) fn current(&self) -> (usize, &Replica) {
        let current = self.current.load(Ordering::Relaxed) % self.replicas.len();
        (current, &self.replicas[current])
    }

    /// Passes on the outcome of a call to replica `asked`. If that replica does not serve, the next call goes to the
    /// other one.
    pub(crate) fn look<T>(&self, asked: usize, outcome: Result<T, Error>) -> Result<T, Error> {
        let elsewhere = |error: &Error| {
            matches!(error, Error::Unreachable { .. }) || error.reason() == Some(Reason::NotPrimary)
        };
        if outcome.as_ref().is_err_and(elsewhere) && self.replicas.len() > 1 {
            let next = (asked + 1) % self.replicas.len();
            // Another call may have switched before.
            let _ =
                self.current
                    .compare_exchange(asked, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        outcome
    }
}

fn replica(ps: usize, name: String, channel: Channel) -> Replica {
    let client = ParameterServiceClient::with_interceptor(channel.clone(), NameShard(ps))
        .max_decoding_message_size(limits::TENSOR_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::TENSOR_MESSAGE_BYTES_MAX);
    Replica {
        name,
        client,
        channel,
    }
}

#[cfg(test)]
mod tests {
    use trainyard_protocol::Refusal;

    use super::*;

    #[tokio::test]
    async fn the_other_replica_is_asked_when_one_is_gone_or_does_not_serve() {
        let channel = || {
            Channel::from(
                tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy(),
            )
        };
        let replicas = Replicas::new(0, "a:1", channel()).and(0, 1, "b:1", channel());
        let gone = || Error::Unreachable {
            peer: "ps:0".into(),
            message: "refused".into(),
        };
        let refused = |reason| Error::Refused {
            peer: "ps:0".into(),
            refusal: Refusal::new(reason, "no"),
        };
        assert_eq!(replicas.current().0, 0);
        assert!(replicas.look(0, Err::<(), _>(gone())).is_err());
        assert_eq!(replicas.current().0, 1);
        assert!(
            replicas.look(0, Err::<(), _>(gone())).is_err(),
            "a call that was made before"
        );
        assert_eq!(replicas.current().0, 1);
        assert!(
            replicas
                .clone()
                .look(1, Err::<(), _>(refused(Reason::NotPrimary)))
                .is_err()
        );
        assert_eq!(replicas.current().0, 0, "clones share it");
        assert!(
            replicas
                .look(0, Err::<(), _>(refused(Reason::NotReady)))
                .is_err()
        );
        assert_eq!(replicas.current().0, 0, "it only has to be waited for");
        let alone = Replicas::new(0, "a:1", channel());
        assert!(alone.look(0, Err::<(), _>(gone())).is_err());
        assert_eq!(alone.current().0, 0);
    }
}
