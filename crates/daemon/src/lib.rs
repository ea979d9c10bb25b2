//! Common parts of all daemons: launch, arguments, server, signals, telemetry and exit codes.
//!
//! Only this crate and the operator's command read arguments, the environment and signals. A role is a function
//! from a [`Context`] and a cancellation token to an outcome. A daemon that is no task of a cluster has a [`Supervision`]
//! instead.
#![expect(
    clippy::disallowed_methods,
    reason = "a home of environment, command line and signals: others are given what they say"
)]

mod admin;
mod arguments;
mod authorization;
mod connection_limit;
mod console;
mod context;
mod disk;
mod disk_watch;
mod hosts;
mod launch;
mod listener;
mod log_rate_limit;
mod logging;
mod loopback_user;
mod memory_guard;
mod page;
mod pending_handshakes;
mod port;
mod port_owner;
mod process;
mod readiness;
mod report;
mod server;
mod service_manager;
mod stop_signals;
mod stop_source;
mod supervision;
mod telemetry;
mod version;
mod watchdog;

pub use arguments::{
    Arguments, INSECURE_NO_AUTH, LogFormat, SHARED_MEMORY, SHARED_MEMORY_DIR, ServiceArguments,
    TLS_DIR, TOKEN_FILE, path_by,
};
pub use authorization::Caller;
pub use console::{Console, ConsoleStep, LogLevel, TakenConsole, taken_console};
pub use context::Context;
pub use disk::{are_on_one_disk, free_bytes, is_in_memory};
pub use disk_watch::DiskWatch;
pub use hosts::Hosts;
pub use launch::{begin, finish, launch, launch_service, supervise, supervise_service};
pub use listener::{Listener, SocketFile, bind_private, check_user, listen};
pub use log_rate_limit::LogRateLimit;
use logging::start_logging;
pub use memory_guard::give_back_freed_memory;
pub use page::{Content, Page};
pub use process::{ENDS_WITH, connections_within_limit};
pub use readiness::{Readiness, ReadinessState};
pub use report::report;
pub use server::{Door, ServerLimits, Services, serve, serve_service};
pub use stop_signals::{StopSignals, at_stop_signal};
pub use stop_source::{StopRequests, StopSource};
pub use supervision::Supervision;
pub use telemetry::Telemetry;
/// Token that is cancelled when the program must stop.
pub use tokio_util::sync::CancellationToken;
pub use version::{COMMIT, VERSION};
pub use watchdog::{Watchdog, WatchedLoop};

/// Allocator of the daemons. It keeps large blocks, while the system's allocator returns them and faults them in again.
pub type Allocator = mimalloc::MiMalloc;
/// The value of [`Allocator`] for a `#[global_allocator]`.
pub const ALLOCATOR: Allocator = mimalloc::MiMalloc;
