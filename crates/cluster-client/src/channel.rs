//! A gRPC channel with every limit set.

use tonic::transport::{Channel, Endpoint};
use trainyard_protocol::limits;

/// Returns a channel to `address` (`host:port`). It connects when first used, and again whenever it was lost.
///
/// # Errors
/// The address is not one.
pub fn channel(address: &str) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
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
