//! Connection limit: bounds the number of connections, and drops connections that do not send the HTTP/2 preface in
//! time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use metrics::counter;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use trainyard_runtime::Connection;
use trainyard_security::{InnerProtocol, Protection, Security};

use crate::authorization::{ConnectionInfo, Peer};
use crate::listener::{Listener, Stream, check_user, local, remote, speaks};
use crate::log_rate_limit::LogRateLimit;
use crate::loopback_user::check_loopback_user;
use crate::pending_handshakes::PendingHandshakes;

/// Most connections that wait for the server.
const BACKLOG: usize = 64;
/// The connection preface of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty settings frame (RFC 9113, section 6.5).
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The first bytes of a TLS handshake (RFC 8446, section 5.1).
const TLS: [u8; 2] = [0x16, 0x03];

/// A connection with or without TLS.
type Agreed = Either<Stream, Connection>;

/// A connection that counts toward the limit until it is dropped.
#[derive(Debug)]
pub(crate) struct LimitedConnection {
    stream: Agreed,
    /// Bytes that were read and that the server must read again.
    preface: &'static [u8],
    met: ConnectionInfo,
    _permit: OwnedSemaphorePermit,
}

/// Accepts connections: at most `most` are served at a time, while at most `agreeing_max` others are in the handshake.
/// Each must send its first byte within `first_bytes`, and the HTTP/2 preface within the same time after TLS.
pub(crate) fn accept(
    listener: Listener,
    (most, agreeing_max): (usize, usize),
    first_bytes: Duration,
    security: Arc<Security>,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<LimitedConnection>> {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let permits = Arc::new(Semaphore::new(most));
    tokio::spawn(async move {
        let mut pending_handshakes = PendingHandshakes::new(agreeing_max);
        let refusals = Arc::<LogRateLimit>::default();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly, file descriptors are exhausted. During a short pause, other connections may close.
                    if let Some(unsaid) = refusals.may() {
                        tracing::warn!(unsaid, "no connection can be accepted: {error}");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let sender = sender.clone();
            let security = Arc::clone(&security);
            let permits = Arc::clone(&permits);
            let refusals = Arc::clone(&refusals);
            pending_handshakes
                .spawn(async move {
                    let refuse = |error: io::Error| {
                        counter!("trainyard_connections_refused_total").increment(1);
                        if let Some(unsaid) = refusals.may() {
                            tracing::warn!(peer = %address, unsaid, "connection refused: {error}");
                        }
                    };
                    let (stream, peer) = match introduced(&security, stream, first_bytes).await {
                        Ok(Some(introduced)) => introduced,
                        Ok(None) => return,
                        Err(error) => return refuse(error),
                    };
                    match permits.try_acquire_owned() {
                        Ok(permit) => {
                            let met = ConnectionInfo {
                                peer,
                                address: address.to_string().into(),
                            };
                            let connection = LimitedConnection {
                                stream,
                                preface: PREFACE,
                                met,
                                _permit: permit,
                            };
                            drop(sender.send(Ok(connection)).await);
                        }
                        Err(_) => refuse(io::Error::other(format!(
                            "{most} connections are open, which is the limit"
                        ))),
                    }
                })
                .await;
        }
    });
    ReceiverStream::new(receiver)
}

/// Performs the handshake: TLS and the HTTP/2 preface. Returns nothing if the peer does not send enough in time.
async fn introduced(
    security: &Security,
    stream: Stream,
    first_bytes: Duration,
) -> io::Result<Option<(Agreed, Peer)>> {
    if !matches!(timeout(first_bytes, speaks(&stream)).await, Ok(true)) {
        return Ok(None);
    }
    let (mut stream, peer) = agree(security, stream).await?;
    match timeout(first_bytes, begin(&mut stream)).await {
        Ok(Ok(())) => Ok(Some((stream, peer))),
        Ok(Err(error)) => {
            drop(timeout(first_bytes, decline(stream)).await);
            Err(error)
        }
        Err(_) => Ok(None),
    }
}

/// Sends an HTTP/2 settings frame, so that a TLS client sees that this is not a TLS server. Then reads what the peer
/// has sent, because closing with unread bytes would reset the connection and lose the frame.
async fn decline(mut stream: Agreed) -> io::Result<()> {
    stream.write_all(&SETTINGS).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 512]).await? > 0 {}
    Ok(())
}

/// Reads the HTTP/2 preface. The HTTP/2 server itself would wait for it without a timeout.
async fn begin(stream: &mut Agreed) -> io::Result<()> {
    let mut said = [0; PREFACE.len()];
    let mut length = 0;
    while length < said.len() {
        match stream.read(&mut said[length..]).await? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the caller closed the connection before its first request",
                ));
            }
            more => length += more,
        }
        if said[..length] != PREFACE[..length] {
            let what = if said.starts_with(&TLS) {
                "the caller uses TLS, and this task does not: start this task with --tls-dir, or \
                the caller without it"
            } else {
                "the caller does not use HTTP/2"
            };
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
    Ok(())
}

/// Performs the TLS handshake, if this task uses TLS and the peer did not connect through a socket file. A peer there must be
/// of the same user, and so must one on loopback that need not prove who it is.
async fn agree(security: &Security, stream: Stream) -> io::Result<(Agreed, Peer)> {
    if let Some(peer) = local(&stream) {
        check_user(peer)?;
        return Ok((Either::Left(stream), Peer::SameHost));
    }
    if security.protection() == Protection::Nothing
        && !security.serves_clients()
        && let Some((peer, own)) = remote(&stream)
    {
        check_loopback_user(peer, own)?;
    }
    if !security.has_tls() {
        return Ok((Either::Left(stream), Peer::Unknown));
    }
    let (stream, identity) = security.accept(stream, InnerProtocol::Http2).await?;
    Ok((
        Either::Right(stream),
        identity.map_or(Peer::Unknown, Peer::Known),
    ))
}

impl Connected for LimitedConnection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.met.clone()
    }
}

impl AsyncRead for LimitedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.preface.is_empty() {
            let (now, later) = self
                .preface
                .split_at(self.preface.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.preface = later;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for LimitedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
