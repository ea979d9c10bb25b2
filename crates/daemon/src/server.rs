//! gRPC server with all limits set.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_security::Security;

use crate::authorization::Authorization;
use crate::process::connections_within_limit;
use crate::{Context, Listener, Readiness, connection_limit};

/// Limits of a server. tonic replaces some of hyper's defaults by "no limit", so each limit is set here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Most connections that are served at a time.
    pub connections_max: usize,
    /// Most connections at a time in the handshake: TLS and the HTTP/2 preface. A further connection drops the oldest
    /// one.
    pub agreeing_max: usize,
    /// Timeout for the first byte of a new connection, and, after TLS, for the HTTP/2 preface.
    pub first_bytes_timeout: Duration,
    /// Most concurrent streams of a connection.
    pub streams_max: u32,
    /// Most unprocessed streams that a peer may reset before the server closes its connection.
    pub pending_resets_max: usize,
    /// Most streams that the server may reset before it closes the connection.
    pub local_resets_max: usize,
    /// Largest headers of a request, in bytes.
    pub header_bytes_max: u32,
    /// HTTP/2 window of a stream and of a connection, in bytes.
    pub window_bytes: u32,
    /// Largest HTTP/2 frame, in bytes.
    pub frame_bytes: u32,
    /// Idle time after which a connection is pinged.
    pub keepalive_interval: Duration,
    /// Time after which a ping without reply closes the connection.
    pub keepalive_timeout: Duration,
    /// Time that open calls have to end after `stop` is cancelled.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            agreeing_max: 256,
            first_bytes_timeout: Duration::from_secs(5),
            streams_max: 128,
            pending_resets_max: 20,
            local_resets_max: 1024,
            header_bytes_max: 16 << 10,
            window_bytes: 8 << 20,
            frame_bytes: 1 << 20,
            // The clients have the same values: each side detects a silent peer after 4.5 s.
            keepalive_interval: Duration::from_secs(1),
            keepalive_timeout: Duration::from_millis(3500),
            drain: Duration::from_secs(2),
        }
    }
}

/// The services of a task.
#[derive(Debug)]
pub struct Services {
    /// The gRPC services.
    pub routes: Routes,
    /// Their descriptors, for reflection.
    pub descriptors: &'static [u8],
}

/// What a server that is no task shows of its state, and the proof that it needs of its clients.
#[derive(Debug, Clone, Copy)]
pub struct Door<'a> {
    /// The state that the health service shows.
    pub readiness: &'a Readiness,
    /// The credentials of the server.
    pub security: &'a Arc<Security>,
}

/// Serves `services`, the health service and reflection until `stop` is cancelled. The context's security authorizes
/// callers.
///
/// # Errors
/// The transport failed.
pub fn serve(
    listener: Listener,
    services: Services,
    context: &Context,
    limits: ServerLimits,
    stop: CancellationToken,
) -> BoxFuture<'_, Result<(), Diagnostic>> {
    let door = (&context.readiness, &context.security);
    // The future is boxed, so that HTTP/2 is compiled once here, and not again in each program that serves.
    Box::pin(serve_guarded(listener, services, door, limits, stop))
}

/// As [`serve`], for a daemon that is no task of a cluster.
///
/// # Errors
/// The transport failed.
pub fn serve_service(
    listener: Listener,
    services: Services,
    door: Door<'_>,
    limits: ServerLimits,
    stop: CancellationToken,
) -> BoxFuture<'_, Result<(), Diagnostic>> {
    let door = (door.readiness, door.security);
    Box::pin(serve_guarded(listener, services, door, limits, stop))
}

async fn serve_guarded(
    listener: Listener,
    services: Services,
    (readiness, security): (&Readiness, &Arc<Security>),
    limits: ServerLimits,
    stop: CancellationToken,
) -> Result<(), Diagnostic> {
    let Services {
        routes,
        descriptors,
    } = services;
    let (reporter, health) = tonic_health::server::health_reporter();
    let mut standing = readiness.watch();
    let watcher = tokio::spawn(async move {
        loop {
            let ready = standing.borrow_and_update().ready;
            let status = if ready {
                tonic_health::ServingStatus::Serving
            } else {
                tonic_health::ServingStatus::NotServing
            };
            reporter.set_service_status("", status).await;
            if standing.changed().await.is_err() {
                return;
            }
        }
    });
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(descriptors)
        .build_v1()
        .map_err(|error| {
            Diagnostic::error(
                Code::E9001,
                format!("the descriptors of the services cannot be read: {error}"),
            )
        })?;
    let first_bytes = limits.first_bytes_timeout;
    let incoming = connection_limit::accept(
        listener,
        (
            connections_within_limit(limits.connections_max),
            limits.agreeing_max,
        ),
        first_bytes,
        Arc::clone(security),
        stop.clone(),
    );
    let server = Server::builder()
        .layer(Authorization::new(Arc::clone(security)))
        .max_concurrent_streams(limits.streams_max)
        .http2_max_pending_accept_reset_streams(Some(limits.pending_resets_max))
        .http2_max_local_error_reset_streams(Some(limits.local_resets_max))
        .http2_max_header_list_size(limits.header_bytes_max)
        .initial_stream_window_size(limits.window_bytes)
        .initial_connection_window_size(limits.window_bytes)
        .max_frame_size(limits.frame_bytes)
        .http2_keepalive_interval(Some(limits.keepalive_interval))
        .http2_keepalive_timeout(Some(limits.keepalive_timeout))
        .add_routes(routes.add_service(health).add_service(reflection))
        .serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
    let served = tokio::select! {
        served = server => served,
        // Connections that do not end within the drain time are dropped.
        () = async { stop.cancelled().await; tokio::time::sleep(limits.drain).await } => Ok(()),
    };
    watcher.abort();
    served
        .map_err(|error| Diagnostic::error(Code::E9002, format!("the server has failed: {error}")))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::port::bind;

    /// Starts a server of no services but that of health.
    async fn serve(
        limits: ServerLimits,
        stop: &CancellationToken,
    ) -> (
        std::net::SocketAddr,
        tokio::task::JoinHandle<Result<(), Diagnostic>>,
    ) {
        let listener = bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let readiness = Readiness::default();
        let end = stop.clone();
        let server = tokio::spawn(async move {
            let door = (&readiness, &Arc::default());
            let services = Services {
                routes: Routes::default(),
                descriptors: &[],
            };
            serve_guarded(Listener::Tcp(listener), services, door, limits, end).await
        });
        (address, server)
    }

    // HTTP/2 as it is on the wire (RFC 9113, RFC 7541).
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    const REFUSED_STREAM: u32 = 7;
    /// `:status 200`, an entry of the static table.
    const STATUS_200: u8 = 0x88;
    /// A status that is none of the static table.
    const STATUS_IN_WORDS: u8 = 0x48;

    /// A connection that has begun as HTTP/2 does.
    struct Peer(tokio::net::TcpStream);

    impl Peer {
        async fn connect(address: std::net::SocketAddr) -> Self {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream
                .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
                .await
                .unwrap();
            Self(stream)
        }

        /// Begins a call of the health service; `filler` bytes stand in a field of their own.
        async fn call(&mut self, stream: u32, flags: u8, filler: usize) {
            // POST and http, of the static table.
            let mut block = vec![0x83, 0x86];
            let filler = "a".repeat(filler);
            for (name, value) in [
                (":path", "/grpc.health.v1.Health/Check"),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            ] {
                block.extend([0, name.len() as u8]);
                block.extend(name.bytes());
                block.push(value.len() as u8);
                block.extend(value.bytes());
            }
            for part in filler.as_bytes().chunks(100) {
                block.extend([0, 1, b'x', part.len() as u8]);
                block.extend(part);
            }
            let mut frame = (block.len() as u32).to_be_bytes()[1..].to_vec();
            frame.extend([HEADERS, END_HEADERS | flags]);
            frame.extend(stream.to_be_bytes());
            frame.extend(block);
            self.0.write_all(&frame).await.unwrap();
        }

        /// Returns the stream of the next frame of a kind, and its payload.
        async fn next(&mut self, kind: u8) -> (u32, Vec<u8>) {
            let next = tokio::time::timeout(Duration::from_secs(10), self.read_to(kind));
            next.await.expect("the server answers")
        }

        async fn read_to(&mut self, kind: u8) -> (u32, Vec<u8>) {
            loop {
                let mut head = [0; 9];
                self.0.read_exact(&mut head).await.unwrap();
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                self.0.read_exact(&mut payload).await.unwrap();
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                if head[3] == kind {
                    return (stream, payload);
                }
            }
        }
    }

    #[tokio::test]
    async fn streams_and_headers_beyond_their_bounds_are_refused_and_those_at_them_are_answered() {
        let stop = CancellationToken::new();
        let limits = ServerLimits {
            streams_max: 3,
            header_bytes_max: 1 << 10,
            ..ServerLimits::default()
        };
        let (address, server) = serve(limits, &stop).await;
        let mut peer = Peer::connect(address).await;
        // None of them says its message.
        for stream in [1, 3, 5, 7] {
            peer.call(stream, 0, 0).await;
        }
        let (stream, code) = peer.next(RST_STREAM).await;
        assert_eq!((stream, code), (7, REFUSED_STREAM.to_be_bytes().to_vec()));
        // Each field counts 32 bytes more than it has.
        for (filler, status) in [(500, STATUS_200), (1100, STATUS_IN_WORDS)] {
            let mut peer = Peer::connect(address).await;
            peer.call(1, END_STREAM, filler).await;
            let (stream, block) = peer.next(HEADERS).await;
            assert_eq!((stream, block[0]), (1, status), "{filler}: {block:?}");
        }
        stop.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_or_not_enough_is_dropped() {
        let stop = CancellationToken::new();
        let limits = ServerLimits {
            first_bytes_timeout: Duration::from_millis(50),
            ..ServerLimits::default()
        };
        let (address, server) = serve(limits, &stop).await;
        for said in [
            &b""[..],
            b"P",
            b"PRI * HTTP/2.0\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            &[0x16, 3, 1],
        ] {
            let mut peer = tokio::net::TcpStream::connect(address).await.unwrap();
            peer.write_all(said).await.unwrap();
            let mut told = Vec::new();
            let read =
                tokio::time::timeout(Duration::from_secs(10), peer.read_to_end(&mut told)).await;
            assert!(read.is_ok(), "{said:?}: the connection stays open");
            // The reply shows a TLS client that this is not a TLS server.
            let declined = said.starts_with(b"GET") || said.starts_with(&[0x16]);
            assert_eq!(told.is_empty(), !declined, "{said:?}: {told:?}");
        }
        let mut honest = tokio::net::TcpStream::connect(address).await.unwrap();
        honest
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        let read = tokio::time::timeout(Duration::from_secs(10), honest.read(&mut [0; 16])).await;
        assert!(
            matches!(read, Ok(Ok(9..))),
            "whoever says what it must is answered: {read:?}"
        );
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
