//! gRPC channels to the tasks of a cluster, with all limits set.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::Endpoint;
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_protocol::{Channel, limits};
use trainyard_runtime::{Connection, Network};

/// Returns a channel to `task` at `address`: `host:port`, or `unix:` and the path of a socket file. The channel
/// connects on first use, and reconnects after the connection is lost.
///
/// # Errors
/// The address is invalid.
pub fn channel(task: Task, address: &str) -> Result<Channel, Diagnostic> {
    channel_over(&Network::System, task, address)
}

/// As [`channel`], over another network than the system's. A `unix:` address always uses the system.
///
/// # Errors
/// As for [`channel`].
pub fn channel_over(network: &Network, task: Task, address: &str) -> Result<Channel, Diagnostic> {
    let path = address.strip_prefix("unix:").map(PathBuf::from);
    // HTTP/2 requires a host name; nothing reads it behind a socket file.
    let endpoint = endpoint(
        task,
        address,
        if path.is_some() { "localhost" } else { address },
    )?;
    let channel = match (path, network) {
        (None, Network::System) => endpoint.connect_lazy(),
        (None, Network::Other(_)) => {
            let network = network.clone();
            let address = address.to_owned();
            let cross = move |_| {
                let network = network.clone();
                let address = address.clone();
                async move { connect(&network, &address).await.map(TokioIo::new) }
            };
            endpoint.connect_with_connector_lazy(tower::service_fn(cross))
        }
        (Some(path), _) => {
            endpoint.connect_with_connector_lazy(tower::service_fn(move |_| open(path.clone())))
        }
    };
    Ok(Channel::new(channel, network.authorization().as_deref()))
}

/// Returns a channel to a task that listens at exactly one of several addresses, `host:port` each. Each connection
/// attempt tries the addresses in order, starting after the address of the last connection.
///
/// # Errors
/// An address is invalid.
pub fn channel_in_turn(
    network: &Network,
    task: Task,
    addresses: &[String],
) -> Result<Channel, Diagnostic> {
    let [first, more @ ..] = addresses else {
        return Err(Diagnostic::error(
            Code::E1007,
            format!("the cluster has no address for {task}"),
        ));
    };
    if more.is_empty() {
        return channel_over(network, task, first);
    }
    for address in more {
        endpoint(task, address, address)?;
    }
    let turns = Arc::new(Turns {
        network: network.clone(),
        addresses: addresses.to_vec(),
        next: 0.into(),
    });
    let connect = move |_| {
        let turns = Arc::clone(&turns);
        async move { turns.connect().await.map(TokioIo::new) }
    };
    let channel =
        endpoint(task, first, first)?.connect_with_connector_lazy(tower::service_fn(connect));
    Ok(Channel::new(channel, network.authorization().as_deref()))
}

/// Addresses to try one after the other.
#[derive(Debug)]
struct Turns {
    network: Network,
    addresses: Vec<String>,
    next: AtomicUsize,
}

impl Turns {
    async fn connect(&self) -> std::io::Result<Connection> {
        let first = self.next.load(Ordering::Relaxed);
        let count = self.addresses.len();
        let mut told = Vec::new();
        for place in (first..first + count).map(|place| place % count) {
            let address = &self.addresses[place];
            // All addresses share the timeout of one connection.
            let share = limits::CONNECT_TIMEOUT / count as u32;
            match tokio::time::timeout(share, connect(&self.network, address)).await {
                Ok(Ok(connection)) => {
                    self.next.store(place + 1, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Err(error)) => told.push(format!("{address}: {error}")),
                Err(_) => told.push(format!(
                    "{address}: no answer within {} ms",
                    share.as_millis()
                )),
            }
        }
        Err(std::io::Error::other(told.join("; ")))
    }
}

async fn connect(network: &Network, address: &str) -> std::io::Result<Connection> {
    match network {
        Network::System => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        Network::Other(transport) => transport.connect(address.to_owned()).await,
    }
}

/// Returns the endpoint of a peer, with all limits set. `host` is the host name in the requests.
fn endpoint(task: Task, address: &str, host: &str) -> Result<Endpoint, Diagnostic> {
    let endpoint = Endpoint::from_shared(format!("http://{host}")).map_err(|error| {
        Diagnostic::error(
            Code::E1007,
            format!("address `{address}` of {task} cannot be used: {error}"),
        )
    })?;
    Ok(endpoint
        .connect_timeout(limits::CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .initial_stream_window_size(limits::WINDOW_BYTES)
        .initial_connection_window_size(limits::WINDOW_BYTES)
        .max_frame_size(limits::FRAME_BYTES)
        .http2_max_header_list_size(16 << 10)
        .http2_keep_alive_interval(limits::KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// Connects to a socket file.
async fn open(path: PathBuf) -> std::io::Result<TokioIo<UnixStream>> {
    let stream = UnixStream::connect(path).await?;
    // The system's default buffer holds a fraction of a message. A smaller buffer than requested also works.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, limits::SOCKET_BUFFER_BYTES);
    Ok(TokioIo::new(stream))
}
