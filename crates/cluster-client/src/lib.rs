//! The cluster as its clients see it: parameters over all shards, the chief's sessions, and local stand-ins for both.
//!
//! A [`Shard`] is one parameter server, remote or in this process; [`Parameters`] makes one store of all of them:
//! it cuts a step's reads and gradients by the layout, speaks to every server at once, and retries without ever
//! applying twice.

mod answer;
mod background;
mod backoff;
mod call;
mod channel;
mod error;
mod gradients;
mod held;
mod local;
mod outages;
mod parameters;
mod preparation;
mod rejection;
mod remote;
mod replicas;
mod rounding;
mod shard;
mod split;
pub mod wire;

pub use answer::Answer;
pub use backoff::Backoff;
pub use call::{ShardAnswer, ShardCall, ShardPull, ShardPush};
pub use channel::{channel, channel_in_turn, channel_over};
pub use error::{Error, refusal};
pub use gradients::ShardGradients;
pub use held::Held;
pub use local::{LocalShard, Stepped};
pub use outages::{OnOutage, Outages};
pub use parameters::{Parameters, PulledStep, Push, PushedStep, Returned, Step, Traffic, retry};
pub use preparation::{Preparation, prepare};
pub use rejection::{guard_from_wire, guard_to_wire, rejection_from_wire, rejection_to_wire};
pub use remote::{RemoteShard, timed};
pub use shard::{Plan, Saved, Shard, ShardStatus};
