//! Accepted connections, bounded in number, dropped when they do not say in time what HTTP/2 begins with.

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
use trainyard_security::Security;

use crate::authorization::{ConnectionInfo, Peer};
use crate::listener::{Listener, Stream, is_local, speaks};
use crate::log_rate_limit::LogRateLimit;
use crate::pending_handshakes::PendingHandshakes;

/// Connections that may wait to be served.
const BACKLOG: usize = 64;
/// What HTTP/2 begins with (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame of settings that changes none (RFC 9113, section 6.5).
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The first bytes of a TLS handshake (RFC 8446, section 5.1).
const TLS: [u8; 2] = [0x16, 0x03];

/// A connection with or without TLS.
type Agreed = Either<Stream, Connection>;

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct LimitedConnection {
    stream: Agreed,
    /// What has been read of it, for whoever serves it to read again.
    preface: &'static [u8],
    met: ConnectionInfo,
    _permit: OwnedSemaphorePermit,
}

/// Accepts connections: serves at most `most` at a time, while as many as `agreeing_max` others agree on how. Each must send its first
/// byte within `first_bytes`, and what HTTP/2 begins with within as long again after TLS.
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
            let Ok((stream, address)) = accepted else {
                // Out of descriptors, mostly: a short pause lets others close theirs.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let sender = sender.clone();
            let security = Arc::clone(&security);
            let permits = Arc::clone(&permits);
            let refusals = Arc::clone(&refusals);
            pending_handshakes.spawn(async move {
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
                        "{most} are open, which is the most"
                    ))),
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

/// Finds out who has connected, and whether he begins as HTTP/2 does. Nothing where he does not say enough in time.
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

/// Says that HTTP/2 is spoken here, as its servers begin, so that a peer that speaks TLS knows that this is none; and takes in what it has said,
/// or it would hear of a reset alone.
async fn decline(mut stream: Agreed) -> io::Result<()> {
    stream.write_all(&SETTINGS).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 512]).await? > 0 {}
    Ok(())
}

/// Reads what HTTP/2 begins with, for which whoever serves the connection would wait for ever.
async fn begin(stream: &mut Agreed) -> io::Result<()> {
    let mut said = [0; PREFACE.len()];
    let mut length = 0;
    while length < said.len() {
        match stream.read(&mut said[length..]).await? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "it has ended before it began",
                ));
            }
            more => length += more,
        }
        if said[..length] != PREFACE[..length] {
            let what = if said.starts_with(&TLS) {
                "it speaks TLS, and this task does not: start this one with --tls-dir, or that one without"
            } else {
                "it does not speak HTTP/2"
            };
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
    Ok(())
}

/// Agrees on TLS, where this task has it, with whoever does not come through a file of this host.
async fn agree(security: &Security, stream: Stream) -> io::Result<(Agreed, Peer)> {
    if is_local(&stream) {
        return Ok((Either::Left(stream), Peer::SameHost));
    }
    if !security.has_tls() {
        return Ok((Either::Left(stream), Peer::Unknown));
    }
    let (stream, identity) = security.accept(stream).await?;
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
