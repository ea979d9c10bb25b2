//! Calls whose tensors are not copied on their way to and from the connection.

use bytes::Bytes;
use prost::Message;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::codegen::http::{Method, Request, Version, header};
use tonic::transport::Channel;
use tonic::{Code, Status};
use trainyard_protocol::framing::{Outgoing, Tensor, read};
use trainyard_protocol::limits::TENSOR_MESSAGE_BYTES_MAX;

/// Calls `/trainyard.v1.ParameterService/<method>` with these fields and this payload, and returns the reply's.
///
/// # Errors
/// The peer's status, or that of a connection that failed.
pub(crate) async fn call<R: Message + Default>(
    channel: &Channel,
    method: &str,
    fields: &impl Message,
    payload: impl Tensor,
) -> Result<(R, Vec<Bytes>), Status> {
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("/trainyard.v1.ParameterService/{method}"))
        .header(header::TE, "trailers")
        .header(header::CONTENT_TYPE, "application/grpc")
        .body(Body::new(Outgoing::request(fields, payload)))
        .map_err(|error| Status::internal(error.to_string()))?;
    let mut channel = channel.clone();
    let lost = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    std::future::poll_fn(|context| channel.poll_ready(context)).await.map_err(lost)?;
    let (head, body) = channel.call(request).await.map_err(lost)?.into_parts();
    match Status::from_header_map(&head.headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => read(body, TENSOR_MESSAGE_BYTES_MAX).await,
    }
}
