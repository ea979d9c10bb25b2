//! What every daemon shares: launch, arguments, server, signals, telemetry and exit codes.
//!
//! Only this crate and the operator's command read arguments, the environment and signals. A role is a function
//! from a [`Context`] and a token that says when to stop, to an outcome.

mod admin;
mod arguments;
mod context;
mod disk;
mod gate;
mod hosts;
mod launch;
mod limited;
mod listener;
mod logging;
mod newcomers;
mod page;
mod port_owner;
mod pulse;
mod readiness;
mod seldom;
mod server;
mod service_manager;
mod telemetry;
mod version;

pub use arguments::{Arguments, LogFormat};
pub use context::Context;
pub use disk::free_bytes;
pub use gate::Caller;
pub use launch::{finish, launch, report, supervise};
pub use listener::{Listener, SocketFile, listen};
pub use logging::start_logging;
pub use page::{Content, Page};
pub use pulse::{Heart, Pulse};
pub use readiness::{Readiness, Standing};
pub use server::{ServerLimits, serve};
pub use telemetry::Telemetry;
/// Cancelled when the program is to stop.
pub use tokio_util::sync::CancellationToken;
pub use version::{COMMIT, VERSION};

/// The daemons' allocator: it keeps large blocks, where the system's returns them and faults them in again.
pub type Allocator = mimalloc::MiMalloc;
/// The value of [`Allocator`] for a `#[global_allocator]`.
pub const ALLOCATOR: Allocator = mimalloc::MiMalloc;
