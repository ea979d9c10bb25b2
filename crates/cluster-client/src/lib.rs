//! Clients of the parameter servers: channels, retries, and the parameters of all servers as one store.
//!
//! A [`ServerClient`] is one parameter server: a [`RemoteServer`], or a server in this process. [`Parameters`] combines
//! all of them into one store: it splits the reads and gradients of a step by the layout, calls all servers in
//! parallel, and retries without ever applying a push twice.

mod answer;
mod cached_parameters;
mod channel;
mod error;
mod error_feedback;
mod gradients;
mod in_process;
mod outages;
mod parameters;
mod preparation;
mod remote_server;
mod replica_routing;
mod retry;
mod server_client;
mod shared_rows;
mod split;

pub use answer::Answer;
pub use cached_parameters::CachedParameters;
pub use channel::{channel, channel_in_turn, channel_over};
pub use error::Error;
pub use gradients::ShardGradients;
pub use outages::{OnOutage, Outages};
pub use parameters::{
    OpenParameters, Parameters, PulledStep, Push, Returned, SequenceNumbers, Step, Traffic,
};
pub use preparation::prepare;
pub use remote_server::{RemoteServer, timed};
pub use retry::{backoff, retry, retry_over_faults_of_files};
pub use server_client::{JobEnd, Preparation, ServerClient};
pub use split::CountedIds;
