//! Wire protocol: generated code, conversions, payload codec, refusals and limits.
//!
//! `v1` is generated from `proto/trainyard/v1` and committed; `tests/generated.rs` regenerates it. Only this crate, the
//! client and the `service.rs` files use `v1`. All other code uses the domain's own types.

mod channel;
pub mod convert;
pub mod framing;
pub mod limits;
pub mod message_stream;
pub mod payload;
mod pool;
mod status;
mod text;
pub mod unary_call;

pub use channel::Channel;
pub use pool::{Pool, Pooled};
pub use status::{Reason, Refusal, root_cause};
pub use text::{cut, shown};

/// Generated messages, clients and servers of package `trainyard.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    include!("generated/trainyard.v1.rs");
}

/// Descriptors of all services and messages, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// The release that daemons report to each other.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");
