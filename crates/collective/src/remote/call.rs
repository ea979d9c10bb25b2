//! Calls whose bodies are our own.

use prost::Message;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::codegen::http::{Method, Request, Version, header};
use tonic::transport::Channel;
use tonic::{Code, Status};
use trainyard_protocol::framing::read;
use trainyard_protocol::limits::CONTROL_MESSAGE_BYTES_MAX;

/// Calls `/trainyard.v1.CollectiveService/<method>` and returns the reply.
///
/// # Errors
/// The peer's status, or that of a connection that failed.
pub(crate) async fn call<R: Message + Default>(
    channel: &Channel,
    method: &str,
    body: Body,
) -> Result<R, Status> {
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("/trainyard.v1.CollectiveService/{method}"))
        .header(header::TE, "trailers")
        .header(header::CONTENT_TYPE, "application/grpc")
        .body(body)
        .map_err(|error| Status::internal(error.to_string()))?;
    let mut channel = channel.clone();
    let lost = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    std::future::poll_fn(|context| channel.poll_ready(context)).await.map_err(lost)?;
    let (head, body) = channel.call(request).await.map_err(lost)?.into_parts();
    match Status::from_header_map(&head.headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(read(body, CONTROL_MESSAGE_BYTES_MAX).await?.0),
    }
}

/// Returns the innermost cause that says something: `connection refused` rather than `transport error`.
pub(crate) fn root_cause(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        text = match error.downcast_ref::<std::io::Error>() {
            Some(io) if io.kind() != std::io::ErrorKind::Other => return io.kind().to_string(),
            _ => error.to_string(),
        };
        source = error.source();
    }
    if text.is_empty() { format!("{:?}", status.code()) } else { text }
}
