//! HTTP client of admin ports.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Longest response, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Longest text of a refusal that a message quotes, in characters.
const REASON_CHARS_MAX: usize = 200;

/// Failure of a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The response is late.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The port cannot be reached.
    #[error(transparent)]
    Connect(#[from] std::io::Error),
    /// The connection broke.
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    /// The connection ended before the response.
    #[error("the connection was closed")]
    Closed,
    /// The address or the path is none of HTTP.
    #[error(transparent)]
    Request(#[from] hyper::http::Error),
    /// The body broke off, or is longer than 16 MiB.
    #[error("{0}")]
    Body(String),
    /// The task refuses the request.
    #[error("status {}: {}", .status.as_u16(), .reason.escape_debug())]
    Status {
        /// Status of the response.
        status: StatusCode,
        /// Begin of its body.
        reason: String,
    },
}

/// Requests `path` from `address`, `host:port`, and returns the body of the response.
///
/// # Errors
/// There is no response within `timeout`, its status is no success, or it is longer than 16 MiB.
pub async fn get(address: &str, path: &str, timeout: Duration) -> Result<Bytes, Error> {
    match tokio::time::timeout(timeout, exchange(address, path)).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Timeout(timeout)),
    }
}

async fn exchange(address: &str, path: &str) -> Result<Bytes, Error> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = hyper::Request::get(path)
        .header("host", address)
        .body(Empty::<Bytes>::new())?;
    let answered = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| Error::Body(error.to_string()))?
            .to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body);
        let reason = text.trim().chars().take(REASON_CHARS_MAX).collect();
        Err(Error::Status { status, reason })
    };
    tokio::select! {
        answer = answered => answer,
        // The connection ends after the response, or breaks off before it.
        broken = connection => Err(broken.map_or_else(Error::from, |()| Error::Closed)),
    }
}
