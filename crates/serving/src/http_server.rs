//! HTTP server with all limits set: connections, heads and bodies of requests have bounds and deadlines.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING,
    WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
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
use trainyard_daemon::{CancellationToken, Hosts, LogRateLimit, connections_within_limit};
use trainyard_runtime::Connection;
use trainyard_security::{InnerProtocol, Security};

use crate::Error;
use crate::connections::{Activity, Connections, Phase};
use crate::http_answer::Answer;
use crate::inference::{self, HEADER_LENGTH};
use crate::intake::{FREE_BYTES, HttpLimits, Intake, Room, next_frame};
use crate::models::Models;
use crate::paced::Paced;
use crate::rest;
use crate::same_site;
use crate::uri_path::UriPath;

/// Delay after an error of accept, mostly for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Time that requests which have begun to arrive have to be answered after the server is told to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Time for the head of the first request of a connection.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// What the server answers with, and the proof that it needs of its clients.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) models: Arc<Models>,
    pub(crate) limits: HttpLimits,
    pub(crate) intake: Intake,
    /// Names of this server; absent = requests may name any.
    pub(crate) hosts: Option<Hosts>,
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
    let mut open = Connections::default();
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
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => Ok(permit),
            Err(_) if open.make_room() => Arc::clone(&permits).acquire_owned().await.map_err(drop),
            Err(_) => Err(()),
        };
        let Ok(permit) = permit else {
            counter!("trainyard_serving_connections_refused_total").increment(1);
            continue;
        };
        let activity = Arc::new(Activity::new());
        let active = Arc::clone(&activity);
        let service = Arc::clone(&service);
        let refusals = Arc::clone(&refusals);
        let stop = stop.clone();
        let task = connections.spawn(async move {
            let _permit = permit;
            let _counted = Counted::new();
            match agree(&service.security, stream).await {
                Ok(stream) => serve_connection(stream, service, activity, stop).await,
                Err(error) => {
                    counter!("trainyard_serving_connections_refused_total").increment(1);
                    if let Some(unsaid) = refusals.may() {
                        warn!(%peer, unsaid, "connection refused: {error}");
                    }
                }
            }
        });
        open.forget_ended();
        open.add(task, active);
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // Clients that are too slow for it are dropped with their tasks.
    drop(timeout(DRAIN, ended).await);
}

/// A connection in the gauge of all, until it is dropped.
struct Counted;

impl Counted {
    fn new() -> Self {
        gauge!("trainyard_serving_connections").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        gauge!("trainyard_serving_connections").decrement(1.0);
    }
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

async fn serve_connection(
    stream: Connection,
    service: Arc<Service>,
    activity: Arc<Activity>,
    stop: CancellationToken,
) {
    let head_timeout = service.limits.head_timeout;
    let service = service_fn(|request| {
        let service = Arc::clone(&service);
        let activity = Arc::clone(&activity);
        async move {
            activity.enter(Phase::Receiving);
            let answer = respond(&service, request, &activity).await;
            activity.enter(Phase::Idle);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout);
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    // Errors are ignored: the peer has closed the connection, or hyper has already replied.
    tokio::select! {
        served = connection.as_mut() => drop(served),
        () = activity.is_silent(FIRST_HEAD_TIMEOUT.min(head_timeout)) => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

async fn respond(
    service: &Service,
    request: Request<Incoming>,
    activity: &Activity,
) -> Response<Paced<Full<Bytes>>> {
    // A proxy that goes by the length of the body would take its rest for the next request (RFC 9112, section 6.3).
    let is_last = request.headers().contains_key(TRANSFER_ENCODING);
    let outcome = answer(service, request, activity).await;
    let (status, answer) = match outcome {
        Ok(answer) => (StatusCode::OK, answer),
        Err(error) => (error.status(), Answer::json(rest::error_body(&error))),
    };
    let deadline = service.intake.body_timeout;
    let body = Paced::new(Full::new(answer.body), answer.room, deadline);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if is_last {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
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

/// The path of a request, by protocol.
pub(crate) enum ProtocolPath<'a> {
    TensorFlow(UriPath<'a>),
    Inference(UriPath<'a>),
}

impl<'a> ProtocolPath<'a> {
    /// Divides and decodes a path.
    ///
    /// # Errors
    /// The path is of no protocol, or not encoded as it must be.
    pub(crate) fn parse(path: &'a str) -> Result<Self, Error> {
        if let Some(path) = path.strip_prefix("/v1/models/") {
            return UriPath::parse(path, true).map(Self::TensorFlow);
        }
        match path.strip_prefix("/v2") {
            Some(path) if path.is_empty() || path.starts_with('/') => {
                UriPath::parse(path, false).map(Self::Inference)
            }
            _ => Err(Error::Path(
                "the path must begin with /v1/models/ (TensorFlow Serving) or /v2 (Open Inference Protocol)".to_owned(),
            )),
        }
    }
}

impl<'a> Target<'a> {
    /// Parses the path of a request.
    ///
    /// # Errors
    /// The path is none of its protocol.
    pub(crate) fn parse(path: &'a ProtocolPath<'_>) -> Result<Self, Error> {
        match path {
            ProtocolPath::TensorFlow(path) => rest::Target::parse(path).map(Self::TensorFlow),
            ProtocolPath::Inference(path) => inference::Target::parse(path).map(Self::Inference),
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::TensorFlow(target) => target.method(),
            Self::Inference(target) => target.method(),
        }
    }
}

async fn answer(
    service: &Service,
    request: Request<Incoming>,
    activity: &Activity,
) -> Result<Answer, Error> {
    let Service {
        models,
        intake,
        hosts,
        security,
        ..
    } = service;
    let (head, body) = request.into_parts();
    check_host(head.version, &head.headers)?;
    if let Some(hosts) = hosts {
        same_site::check(&head.headers, hosts)?;
    }
    let authorization = head.headers.get(AUTHORIZATION);
    security
        .admit(authorization.map(HeaderValue::as_bytes))
        .map_err(Error::Unproved)
        .inspect_err(|_| counter!("trainyard_calls_refused_total").increment(1))?;
    let path = ProtocolPath::parse(head.uri.path())?;
    let target = Target::parse(&path)?;
    let needed = target.method();
    if head.method != needed {
        return Err(Error::Request(format!(
            "this path needs the method {needed}, given {}",
            head.method
        )));
    }
    let header_length = header_length(&head.headers)?;
    // It is given back once the answer is made.
    let mut room = Room::default();
    let body = if needed == Method::POST {
        read_body(&head.headers, body, intake, &mut room).await?
    } else {
        Bytes::new()
    };
    activity.enter(Phase::Answering);
    dispatch(models, target, &body, header_length, intake).await
}

/// Refuses a request of several headers Host, of which a proxy may take another one than this server, and one of HTTP/1.1 without any
/// (RFC 9112, section 3.2).
fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Error> {
    let message = match headers.get_all(HOST).iter().count() {
        0 if version == Version::HTTP_11 => "a request of HTTP/1.1 must have the header Host",
        0 | 1 => return Ok(()),
        _ => "a request must have one header Host, given several",
    };
    Err(Error::Request(message.to_owned()))
}

/// Answers a request whose body has arrived.
pub(crate) async fn dispatch(
    models: &Models,
    target: Target<'_>,
    body: &Bytes,
    header_length: Option<usize>,
    intake: &Intake,
) -> Result<Answer, Error> {
    match target {
        Target::TensorFlow(target) => rest::respond(models, target, body, intake).await,
        Target::Inference(target) => {
            inference::respond(models, target, body, header_length, intake).await
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
            "the header Inference-Header-Content-Length must be a whole number, given `{}`",
            shown_value(value)
        ))
    })
}

/// Returns the value of a header for a message.
fn shown_value(value: &HeaderValue) -> String {
    crate::text::shown(&String::from_utf8_lossy(value.as_bytes()))
}

async fn read_body(
    headers: &HeaderMap,
    body: Incoming,
    intake: &Intake,
    room: &mut Room,
) -> Result<Bytes, Error> {
    let most = intake.body_bytes_max;
    let said = headers.get(CONTENT_LENGTH);
    let said = said.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > most as u64) {
        return Err(Error::Body { most });
    }
    if let Some(encoding) = headers.get(http::header::CONTENT_ENCODING) {
        return Err(Error::Request(format!(
            "a body must not be compressed, given the encoding `{}`",
            shown_value(encoding)
        )));
    }
    let expected = said.map_or(most, |said| said as usize);
    let read = timeout(intake.body_timeout, gather(body, expected, intake, room)).await;
    read.unwrap_or_else(|_| {
        Err(Error::SlowBody {
            secs: intake.body_timeout.as_secs(),
        })
    })
}

/// Reads a body. What others wait for must not be silent.
async fn gather(
    body: Incoming,
    expected: usize,
    intake: &Intake,
    room: &mut Room,
) -> Result<Bytes, Error> {
    let most = intake.body_bytes_max;
    let mut body = body;
    let mut gathered = BytesMut::new();
    loop {
        let Some(frame) = next_frame(&mut body, gathered.len()).await? else {
            return Ok(gathered.freeze());
        };
        let frame =
            frame.map_err(|error| Error::Request(format!("the body is cut short: {error}")))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        if gathered.len() + piece.len() > most {
            return Err(Error::Body { most });
        }
        if room.is_none() && gathered.len() + piece.len() > FREE_BYTES {
            *room = intake.admit(expected, 1).await;
        }
        gathered.extend_from_slice(&piece);
    }
}
