//! Clients of the parameter servers: channels, retries, and the parameters of all servers as one store.
//!
//! A [`ServerClient`] is one parameter server, remote or in this process. [`Parameters`] combines all of them into
//! one store: it splits the reads and gradients of a step by the layout, calls all servers in parallel, and retries
//! without ever applying a push twice.

mod answer;
mod background;
mod backoff;
mod cached_parameters;
mod call;
mod channel;
mod error;
mod error_feedback;
mod gradients;
mod local_server;
mod outages;
mod parameters;
mod plan;
mod preparation;
mod rejection;
mod remote_server;
mod replica_routing;
mod retry;
mod server_client;
mod split;
pub mod wire;

pub use answer::Answer;
pub use backoff::Backoff;
pub use cached_parameters::CachedParameters;
pub use call::{ShardAnswer, ShardCall, ShardPull, ShardPush};
pub use channel::{channel, channel_in_turn, channel_over};
pub use error::{Error, refusal};
pub use gradients::ShardGradients;
pub use local_server::{LocalServer, Stepped};
pub use outages::{OnOutage, Outages};
pub use parameters::{Parameters, PulledStep, Push, PushedStep, Returned, Step, Traffic};
pub use plan::{Plan, Preparation, Saved, ServerStatus};
pub use preparation::prepare;
pub use rejection::{guard_from_wire, guard_to_wire, rejection_from_wire, rejection_to_wire};
pub use remote_server::{RemoteServer, timed};
pub use retry::retry;
pub use server_client::ServerClient;
