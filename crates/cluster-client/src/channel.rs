//! A gRPC channel with every limit set.

use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_protocol::limits;
use trainyard_runtime::{Connection, Network, Transport};

/// Returns a channel to `task` at `address`: `host:port`, or `unix:` and the path of a socket file. It connects when
/// first used, and again whenever it was lost.
///
/// # Errors
/// The address is not one.
pub fn channel(task: Task, address: &str) -> Result<Channel, Diagnostic> {
    channel_over(&Network::System, task, address)
}

/// The same over a network other than the system's; there, `unix:` is the system's all the same.
///
/// # Errors
/// As there.
pub fn channel_over(network: &Network, task: Task, address: &str) -> Result<Channel, Diagnostic> {
    let path = address.strip_prefix("unix:").map(PathBuf::from);
    // The name in the requests of a socket file's channel is for nobody to read.
    let host = if path.is_some() { "localhost" } else { address };
    let endpoint = Endpoint::from_shared(format!("http://{host}")).map_err(|error| {
        Diagnostic::error(Code::E1007, format!("address `{address}` of {task} cannot be used: {error}"))
    })?;
    let endpoint = endpoint
        .connect_timeout(limits::CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .initial_stream_window_size(limits::WINDOW_BYTES)
        .initial_connection_window_size(limits::WINDOW_BYTES)
        .max_frame_size(limits::FRAME_BYTES)
        .http2_max_header_list_size(16 << 10)
        .http2_keep_alive_interval(limits::KEEPALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    Ok(match (path, network) {
        (None, Network::System) => endpoint.connect_lazy(),
        (None, Network::Other(transport)) => {
            let (transport, address) = (Arc::clone(transport), address.to_owned());
            let connect = move |_| cross(Arc::clone(&transport), address.clone());
            endpoint.connect_with_connector_lazy(tower::service_fn(connect))
        }
        (Some(path), _) => {
            endpoint.connect_with_connector_lazy(tower::service_fn(move |_| open(path.clone())))
        }
    })
}

async fn cross(transport: Arc<dyn Transport>, address: String) -> std::io::Result<TokioIo<Connection>> {
    transport.connect(address).await.map(TokioIo::new)
}

/// Connects to a socket file.
async fn open(path: PathBuf) -> std::io::Result<TokioIo<UnixStream>> {
    let stream = UnixStream::connect(path).await?;
    // What the system gives a socket is room for a fraction of a message; the least it may give is enough to go on.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, limits::SOCKET_BUFFER_BYTES);
    Ok(TokioIo::new(stream))
}
