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
mod local;
mod outages;
mod parameters;
mod preparation;
mod rejection;
mod remote;
mod replicas;
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
pub use local::{LocalServer, Stepped};
pub use outages::{OnOutage, Outages};
pub use parameters::{Parameters, PulledStep, Push, PushedStep, Returned, Step, Traffic, retry};
pub use preparation::{Preparation, prepare};
pub use rejection::{guard_from_wire, guard_to_wire, rejection_from_wire, rejection_to_wire};
pub use remote::{RemoteServer, timed};
pub use server_client::{Plan, Saved, ServerClient, ServerStatus};
