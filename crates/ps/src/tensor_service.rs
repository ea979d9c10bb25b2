//! Serves `Step` without copying tensors. All other calls go to the generated service.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use metrics::{Gauge, gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as TowerService, http};
use tonic::server::NamedService;
use trainyard_daemon::Caller;
use trainyard_protocol::framing::{Outgoing, read_admitted};
use trainyard_protocol::limits::TENSOR_MESSAGE_BYTES_MAX;
use trainyard_protocol::unary_call::answer;
use trainyard_protocol::v1::parameter_service_server::{ParameterServiceServer, SERVICE_NAME};

use crate::service::Service;

/// The parameter service of one shard.
#[derive(Debug, Clone)]
pub(crate) struct TensorService {
    service: Arc<Service>,
    others: ParameterServiceServer<Service>,
    budget: MessageBudget,
}

/// Bytes per permit.
const UNIT_BYTES: usize = 1 << 10;

/// Memory budget for messages that are being read, applied and committed. Without free budget a message stays on its
/// connection (backpressure).
#[derive(Debug, Clone)]
pub(crate) struct MessageBudget {
    free: Arc<Semaphore>,
    units: usize,
    held: Gauge,
}

impl MessageBudget {
    pub(crate) fn new(most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let units = (most / UNIT_BYTES).max(1);
        let held = gauge!("trainyard_ps_memory_bytes", "kind" => "messages");
        Self {
            free: Arc::new(Semaphore::new(units)),
            units,
            held,
        }
    }

    /// Waits for free budget. A message that exceeds the whole budget takes all of it.
    async fn enter(self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // There are fewer than 2^32 units.
        let units = bytes.div_ceil(UNIT_BYTES).clamp(1, self.units) as u32;
        let permit = Arc::clone(&self.free).acquire_many_owned(units).await.ok();
        let held = (self.units - self.free.available_permits()) * UNIT_BYTES;
        self.held.set(held as f64);
        permit
    }
}

impl TensorService {
    pub(crate) fn new(service: Arc<Service>, budget: MessageBudget) -> Self {
        let others = ParameterServiceServer::from_arc(Arc::clone(&service))
            .max_decoding_message_size(TENSOR_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(TENSOR_MESSAGE_BYTES_MAX);
        Self {
            service,
            others,
            budget,
        }
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
            Some("Step") => {
                let caller = Caller::of(request.extensions());
                let budget = self.budget.clone();
                Box::pin(async move {
                    Ok(answer(
                        step(&service, caller, request.into_body(), budget).await,
                    ))
                })
            }
            _ => self.others.call(request),
        }
    }
}

async fn step(
    service: &Service,
    caller: Caller,
    body: Body,
    budget: MessageBudget,
) -> Result<Outgoing, Status> {
    let admit = |bytes: usize| budget.enter(bytes);
    let (request, payload, _room) = read_admitted(body, TENSOR_MESSAGE_BYTES_MAX, admit).await?;
    let (reply, tensor) = service.apply(caller, request, payload).await?;
    Ok(Outgoing::reply(&reply, tensor))
}
