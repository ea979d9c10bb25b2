//! HTTP server with all limits set: connections, heads and bodies of requests have bounds and deadlines.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::{counter, gauge};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::warn;
use trainyard_daemon::{CancellationToken, LogRateLimit, connections_within_limit};
use trainyard_runtime::Connection;
use trainyard_security::{InnerProtocol, Security};

use crate::Error;
use crate::inference::{self, Answer, HEADER_LENGTH};
use crate::models::Models;
use crate::rest;

/// Delay after an error of accept, mostly for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Time that requests which have begun to arrive have to be answered after the server is told to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Bounds of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Most connections at a time. A further connection is closed.
    pub connections_max: usize,
    /// Time for the head of a request, from the connection or from the last answer.
    pub head_timeout: Duration,
    /// Time for the body of a request, from its head.
    pub body_timeout: Duration,
    /// Largest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// Most rows of a request.
    pub rows_max: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            body_bytes_max: 64 << 20,
            rows_max: 16_384,
        }
    }
}

/// What the server answers with, and the proof that it needs of its clients.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) models: Arc<Models>,
    pub(crate) limits: HttpLimits,
    pub(crate) security: Arc<Security>,
}

/// Serves predictions until `stop` is cancelled. Requests that have arrived are answered before it returns; clients that
/// are still sending have [`DRAIN`].
pub(crate) async fn serve(listener: TcpListener, service: Service, stop: CancellationToken) {
    let service = Arc::new(service);
    let refusals = Arc::<LogRateLimit>::default();
    let permits = Arc::new(Semaphore::new(connections_within_limit(
        service.limits.connections_max,
    )));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Ended connections are removed, so that the set does not grow.
            Some(_) = connections.join_next() => continue,
            () = stop.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(unsaid) = refusals.may() {
                    warn!(unsaid, "no connection can be accepted: {error}");
                }
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            counter!("trainyard_serving_connections_refused_total").increment(1);
            continue;
        };
        let service = Arc::clone(&service);
        let refusals = Arc::clone(&refusals);
        let stop = stop.clone();
        connections.spawn(async move {
            gauge!("trainyard_serving_connections").increment(1.0);
            match agree(&service.security, stream).await {
                Ok(stream) => serve_connection(stream, service, stop).await,
                Err(error) => {
                    counter!("trainyard_serving_connections_refused_total").increment(1);
                    if let Some(unsaid) = refusals.may() {
                        warn!(%peer, unsaid, "connection refused: {error}");
                    }
                }
            }
            gauge!("trainyard_serving_connections").decrement(1.0);
            drop(permit);
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // Clients that are too slow for it are dropped with their tasks.
    drop(timeout(DRAIN, ended).await);
}

/// Makes the TLS handshake, if the server has a certificate.
async fn agree(security: &Security, stream: TcpStream) -> io::Result<Connection> {
    // An answer is one write, so waiting for more of it only costs time.
    drop(stream.set_nodelay(true));
    if !security.has_tls() {
        return Ok(Box::new(stream));
    }
    let (stream, _) = security.accept(stream, InnerProtocol::Http1).await?;
    Ok(stream)
}

async fn serve_connection(stream: Connection, service: Arc<Service>, stop: CancellationToken) {
    let head_timeout = service.limits.head_timeout;
    let service = service_fn(|request| {
        let service = Arc::clone(&service);
        async move { Ok::<_, Infallible>(respond(&service, request).await) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    // Errors are ignored: the peer has closed the connection, or hyper has already replied.
    tokio::select! {
        served = connection.as_mut() => drop(served),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

async fn respond(service: &Service, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let outcome = answer(service, request).await;
    let (status, answer) = match outcome {
        Ok(answer) => (StatusCode::OK, answer),
        Err(error) => (error.status(), Answer::json(rest::error_body(&error))),
    };
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    let content = match answer.header_length {
        None => HeaderValue::from_static("application/json"),
        Some(length) => {
            headers.insert(HEADER_LENGTH, length.into());
            HeaderValue::from_static("application/octet-stream")
        }
    };
    headers.insert(CONTENT_TYPE, content);
    response
}

/// The target of a request, by protocol.
pub(crate) enum Target<'a> {
    TensorFlow(rest::Target<'a>),
    Inference(inference::Target<'a>),
}

impl<'a> Target<'a> {
    /// Parses the path of a request.
    ///
    /// # Errors
    /// The path is of no protocol.
    pub(crate) fn parse(path: &'a str) -> Result<Self, Error> {
        if let Some(path) = path.strip_prefix("/v1/models/") {
            return rest::Target::parse(path).map(Self::TensorFlow);
        }
        match path.strip_prefix("/v2") {
            Some(path) if path.is_empty() || path.starts_with('/') => {
                inference::Target::parse(path).map(Self::Inference)
            }
            _ => Err(Error::Path(
                "the path must begin with /v1/models/ (TensorFlow Serving) or /v2 (Open Inference Protocol)".to_owned(),
            )),
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::TensorFlow(target) => target.method(),
            Self::Inference(target) => target.method(),
        }
    }
}

async fn answer(service: &Service, request: Request<Incoming>) -> Result<Answer, Error> {
    let Service {
        models,
        limits,
        security,
    } = service;
    let (head, body) = request.into_parts();
    let authorization = head.headers.get(AUTHORIZATION);
    security
        .admit(authorization.map(HeaderValue::as_bytes))
        .map_err(Error::Unproved)
        .inspect_err(|_| counter!("trainyard_calls_refused_total").increment(1))?;
    let target = Target::parse(head.uri.path())?;
    let needed = target.method();
    if head.method != needed {
        return Err(Error::Request(format!(
            "this path needs the method {needed}, given {}",
            head.method
        )));
    }
    let header_length = header_length(&head.headers)?;
    let body = if needed == Method::POST {
        read_body(&head.headers, body, *limits).await?
    } else {
        Bytes::new()
    };
    dispatch(models, target, &body, header_length, limits.rows_max).await
}

/// Answers a request whose body has arrived.
pub(crate) async fn dispatch(
    models: &Models,
    target: Target<'_>,
    body: &Bytes,
    header_length: Option<usize>,
    rows_max: usize,
) -> Result<Answer, Error> {
    match target {
        Target::TensorFlow(target) => rest::respond(models, target, body, rows_max)
            .await
            .map(Answer::json),
        Target::Inference(target) => {
            inference::respond(models, target, body, header_length, rows_max).await
        }
    }
}

/// Returns the length of the JSON part of the body, if a header says it.
fn header_length(headers: &HeaderMap) -> Result<Option<usize>, Error> {
    let Some(value) = headers.get(HEADER_LENGTH) else {
        return Ok(None);
    };
    let parsed = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse().ok());
    parsed.map(Some).ok_or_else(|| {
        Error::Request(format!(
            "the header Inference-Header-Content-Length must be a whole number, given {value:?}"
        ))
    })
}

async fn read_body(
    headers: &HeaderMap,
    body: Incoming,
    limits: HttpLimits,
) -> Result<Bytes, Error> {
    let most = limits.body_bytes_max;
    let said = headers.get(CONTENT_LENGTH);
    let said = said.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > most as u64) {
        return Err(Error::Body { most });
    }
    if let Some(encoding) = headers.get(http::header::CONTENT_ENCODING) {
        return Err(Error::Request(format!(
            "a body must not be compressed, given the encoding {encoding:?}"
        )));
    }
    let read = timeout(limits.body_timeout, Limited::new(body, most).collect()).await;
    match read {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Error::Body { most }),
        Ok(Err(error)) => Err(Error::Request(format!("the body is cut short: {error}"))),
        Err(_) => Err(Error::SlowBody {
            secs: limits.body_timeout.as_secs(),
        }),
    }
}
