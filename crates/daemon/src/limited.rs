//! Accepted connections, bounded in number, dropped when they say nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use crate::listener::{Listener, Stream, speaks};

/// Connections that may wait to be served.
const BACKLOG: usize = 64;

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Limited {
    stream: Stream,
    _permit: OwnedSemaphorePermit,
}

/// Accepts connections: at most `most` at a time, each of which must send its first byte within `first_bytes`.
pub(crate) fn accept(
    listener: Listener,
    most: usize,
    first_bytes: Duration,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<Limited>> {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let permits = Arc::new(Semaphore::new(most));
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            let Ok((stream, peer)) = accepted else {
                // Out of descriptors, mostly: a short pause lets others close theirs.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                tracing::warn!(%peer, most, "connection refused: too many are open");
                continue;
            };
            let sender = sender.clone();
            tokio::spawn(async move {
                if let Ok(true) = tokio::time::timeout(first_bytes, speaks(&stream)).await {
                    drop(sender.send(Ok(Limited { stream, _permit: permit })).await);
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

impl Connected for Limited {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Limited {
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
