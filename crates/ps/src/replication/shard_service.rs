//! The parameter service of a server. A call to a server with replicas of two shards names its shard.

use std::convert::Infallible;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as TowerService, http};
use tonic::server::NamedService;
use trainyard_protocol::limits::SHARD_KEY;
use trainyard_protocol::v1::parameter_service_server::SERVICE_NAME;
use trainyard_protocol::{Reason, Refusal, shown};

use crate::replication::replica_service::Replicas;
use crate::tensor_service::{MessageBudget, TensorService};

/// Routes calls to the replica that serves their shard.
#[derive(Debug, Clone)]
pub(crate) struct ShardService {
    replicas: Replicas,
    /// Shard of the calls that name none.
    own: usize,
    /// Memory budget for the messages of both shards.
    budget: MessageBudget,
}

impl ShardService {
    pub(crate) fn new(replicas: Replicas, own: usize, budget: MessageBudget) -> Self {
        Self {
            replicas,
            own,
            budget,
        }
    }

    fn find(&self, request: &http::Request<Body>) -> Result<TensorService, Refusal> {
        let named = request.headers().get(SHARD_KEY);
        let shard = match named {
            None => self.own,
            Some(named) => {
                let text = String::from_utf8_lossy(named.as_bytes());
                text.parse().map_err(|_| {
                    let message = format!(
                        "metadata `{SHARD_KEY}` must be a number, given `{}`",
                        shown(&text)
                    );
                    Refusal::new(Reason::BadRequest, message)
                })?
            }
        };
        let replica = self.replicas.of(shard).ok_or_else(|| {
            let message = format!(
                "this server has no replica of ps:{shard}: its cluster file is another one"
            );
            Refusal::new(Reason::OtherCluster, message)
        })?;
        let service = replica.serving().ok_or_else(|| {
            let message = format!("the replica of ps:{shard} in this server does not serve it");
            Refusal::new(Reason::NotPrimary, message)
        })?;
        Ok(TensorService::new(service, self.budget.clone()))
    }
}

impl NamedService for ShardService {
    const NAME: &'static str = SERVICE_NAME;
}

impl TowerService<http::Request<Body>> for ShardService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match self.find(&request) {
            Ok(mut service) => service.call(request),
            Err(refusal) => Box::pin(async move { Ok(Status::from(refusal).into_http()) }),
        }
    }
}
