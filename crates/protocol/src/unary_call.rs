//! Unary calls with the bodies of [`crate::framing`], which carry a tensor without a copy.

use bytes::Bytes;
use prost::Message;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::codegen::http::{HeaderValue, Method, Request, Response, Version, header};
use tonic::{Code, Status};

use crate::Channel;
use crate::framing::{Outgoing, read};
use crate::limits::SHARD_KEY;

/// The content type of gRPC.
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// Calls the method at `path` (`/package.Service/Method`). `shard` names the shard of a server that holds several.
/// Returns the reply and its payload, together at most `bytes_max` bytes.
///
/// # Errors
/// Returns the status of the peer, or of a failed connection.
pub async fn call<R: Message + Default>(
    channel: &Channel,
    path: &str,
    shard: Option<&HeaderValue>,
    body: Body,
    bytes_max: usize,
) -> Result<(R, Vec<Bytes>), Status> {
    let mut request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(path)
        .header(header::TE, "trailers")
        .header(header::CONTENT_TYPE, GRPC)
        .body(body)
        .map_err(|error| Status::internal(error.to_string()))?;
    if let Some(shard) = shard {
        request.headers_mut().insert(SHARD_KEY, shard.clone());
    }
    let mut channel = channel.clone();
    let lost = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    std::future::poll_fn(|context| channel.poll_ready(context))
        .await
        .map_err(lost)?;
    let (head, body) = channel.call(request).await.map_err(lost)?.into_parts();
    match Status::from_header_map(&head.headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => read(body, bytes_max).await,
    }
}

/// Returns the HTTP response of a service.
pub fn answer(outcome: Result<Outgoing, Status>) -> Response<Body> {
    match outcome {
        Ok(body) => {
            let mut response = Response::new(Body::new(body));
            response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
            response
        }
        Err(status) => status.into_http(),
    }
}
