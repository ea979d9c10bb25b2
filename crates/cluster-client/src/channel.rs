//! A gRPC channel with every limit set.

use tonic::transport::{Channel, Endpoint};
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_protocol::limits;

/// Returns a channel to `task` at `address`: `host:port`, or `unix:` and the path of a socket file. It connects when
/// first used, and again whenever it was lost.
///
/// # Errors
/// The address is not one.
pub fn channel(task: Task, address: &str) -> Result<Channel, Diagnostic> {
    let uri = if address.starts_with("unix:") { address.to_owned() } else { format!("http://{address}") };
    let endpoint = Endpoint::from_shared(uri).map_err(|error| {
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
    Ok(endpoint.connect_lazy())
}
