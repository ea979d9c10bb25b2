//! A gRPC server with every limit set.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::port_owner::port_owner;
use crate::{Listener, Readiness, limited};

/// Bounds of a server. tonic passes "no limit" for some of hyper's defaults, so that each is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at a time.
    pub connections_max: usize,
    /// Time in which a new connection must send its first byte.
    pub first_bytes_timeout: Duration,
    /// Streams of one connection at a time.
    pub streams_max: u32,
    /// Streams that a peer may reset before the server closes its connection.
    pub pending_resets_max: usize,
    /// Streams that the server may reset before it closes the connection.
    pub local_resets_max: usize,
    /// Bytes of a request's headers.
    pub header_bytes_max: u32,
    /// HTTP/2 window of a stream and of a connection, in bytes.
    pub window_bytes: u32,
    /// Largest HTTP/2 frame, in bytes.
    pub frame_bytes: u32,
    /// Idle time after which a connection is pinged.
    pub keepalive_interval: Duration,
    /// Time after which a ping without answer ends the connection.
    pub keepalive_timeout: Duration,
    /// Longest time in which open calls may end after the server is told to stop.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            first_bytes_timeout: Duration::from_secs(5),
            streams_max: 128,
            pending_resets_max: 20,
            local_resets_max: 1024,
            header_bytes_max: 16 << 10,
            window_bytes: 8 << 20,
            frame_bytes: 1 << 20,
            // As those of the clients: whoever of the two is silent, the other knows after 4.5 s.
            keepalive_interval: Duration::from_secs(1),
            keepalive_timeout: Duration::from_millis(3500),
            drain: Duration::from_secs(2),
        }
    }
}

/// Listens at a port (`host:port`).
///
/// # Errors
/// The address is not this host's, or taken; the message names who has it, where this user may know.
pub(crate) async fn bind(address: &str) -> Result<TcpListener, Diagnostic> {
    TcpListener::bind(address).await.map_err(|error| {
        let what = match error.kind() {
            std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
            std::io::ErrorKind::AddrNotAvailable => "it is no address of this host".to_owned(),
            _ => error.to_string(),
        };
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let owner = port.and_then(port_owner).filter(|_| error.kind() == std::io::ErrorKind::AddrInUse);
        let message = format!("cannot listen on {address}: {what}");
        match owner {
            // The same program at the address of this task: it is this task.
            Some(owner) if owner.is_ours => Diagnostic::error(Code::E2008, message)
                .note(format!("this task is already served by: {}", owner.name))
                .help("let it work, or stop it first; another task needs an index and an address of its own"),
            Some(owner) => Diagnostic::error(Code::E2001, message)
                .note(format!("held by: {}", owner.name))
                .help("stop the other program, or choose another port in the cluster file"),
            None => Diagnostic::error(Code::E2001, message)
                .help("stop the other program, or choose another port in the cluster file"),
        }
    })
}

/// Serves `routes`, the health service and reflection, until told to stop.
///
/// # Errors
/// The transport failed.
pub async fn serve(
    listener: Listener,
    routes: Routes,
    descriptors: &'static [u8],
    readiness: &Readiness,
    limits: ServerLimits,
    stop: CancellationToken,
) -> Result<(), Diagnostic> {
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
        .map_err(|error| Diagnostic::error(Code::E9001, format!("descriptors of the services: {error}")))?;
    let incoming =
        limited::accept(listener, limits.connections_max, limits.first_bytes_timeout, stop.clone());
    let server = Server::builder()
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
        // Open connections end by themselves; one that does not is cut.
        () = async { stop.cancelled().await; tokio::time::sleep(limits.drain).await } => Ok(()),
    };
    watcher.abort();
    served.map_err(|error| Diagnostic::error(Code::E9002, format!("the server has failed: {error}")))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_port_that_this_program_has_taken_is_told_with_its_owner() {
        let first = bind("127.0.0.1:0").await.unwrap();
        let address = first.local_addr().unwrap().to_string();
        let refused = bind(&address).await.unwrap_err();
        assert_eq!(refused.code, Code::E2008);
        let text = refused.render();
        assert!(text.contains(&format!("cannot listen on {address}: address already in use")), "{text}");
        assert!(text.contains(&format!("already served by: pid {}", std::process::id())), "{text}");
    }

    #[tokio::test]
    async fn a_peer_that_says_nothing_is_dropped() {
        let listener = bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let limits =
            ServerLimits { first_bytes_timeout: Duration::from_millis(50), ..ServerLimits::default() };
        let (readiness, end) = (Readiness::default(), stop.clone());
        let server = tokio::spawn(async move {
            serve(Listener::Tcp(listener), Routes::default(), &[], &readiness, limits, end).await
        });
        let mut silent = tokio::net::TcpStream::connect(address).await.unwrap();
        let read = tokio::time::timeout(Duration::from_secs(10), silent.read(&mut [0; 16])).await;
        assert!(matches!(read, Ok(Ok(0) | Err(_))), "the connection stays open: {read:?}");
        stop.cancel();
        server.await.unwrap().unwrap();
    }
}
