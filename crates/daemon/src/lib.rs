//! What every daemon shares: launch, arguments, server, signals, telemetry and exit codes.
//!
//! Only this crate and the operator's command read arguments, the environment and signals. A role is a function
//! from a [`Context`] and a token that says when to stop, to an outcome.

mod admin;
mod arguments;
mod context;
mod launch;
mod limited;
mod listener;
mod logging;
mod port_owner;
mod readiness;
mod server;
mod telemetry;

pub use arguments::{Arguments, LogFormat};
pub use context::Context;
pub use launch::{finish, launch, report, supervise};
pub use listener::{Listener, SocketFile, listen};
pub use logging::start_logging;
pub use readiness::{Readiness, Standing};
pub use server::{ServerLimits, serve};
pub use telemetry::Telemetry;
/// Cancelled when the program is to stop.
pub use tokio_util::sync::CancellationToken;

/// The daemons' allocator: it keeps large blocks, where the system's returns them and faults them in again.
pub type Allocator = mimalloc::MiMalloc;
/// The value of [`Allocator`] for a `#[global_allocator]`.
pub const ALLOCATOR: Allocator = mimalloc::MiMalloc;
