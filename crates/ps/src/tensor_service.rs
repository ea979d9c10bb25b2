//! Steps without copies of their tensors; every other call as generated.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as TowerService, http};
use tonic::server::NamedService;
use trainyard_protocol::framing::{Outgoing, read};
use trainyard_protocol::limits::TENSOR_MESSAGE_BYTES_MAX;
use trainyard_protocol::own_body::answer;
use trainyard_protocol::v1::parameter_service_server::{ParameterServiceServer, SERVICE_NAME};

use crate::service::Service;

/// The parameter service as a server routes to it.
#[derive(Debug, Clone)]
pub(crate) struct TensorService {
    service: Arc<Service>,
    others: ParameterServiceServer<Service>,
}

impl TensorService {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        let others = ParameterServiceServer::from_arc(Arc::clone(&service))
            .max_decoding_message_size(TENSOR_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(TENSOR_MESSAGE_BYTES_MAX);
        Self { service, others }
    }
}

impl NamedService for TensorService {
    const NAME: &'static str = SERVICE_NAME;
}

impl TowerService<http::Request<Body>> for TensorService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = Arc::clone(&self.service);
        match request.uri().path().rsplit('/').next() {
            Some("Step") => Box::pin(async move { Ok(answer(step(&service, request.into_body()).await)) }),
            _ => self.others.call(request),
        }
    }
}

async fn step(service: &Service, body: Body) -> Result<Outgoing, Status> {
    let (request, payload) = read(body, TENSOR_MESSAGE_BYTES_MAX).await?;
    let (reply, tensor) = service.apply(request, payload).await?;
    Ok(Outgoing::reply(&reply, tensor))
}
