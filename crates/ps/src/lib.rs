//! The parameter server: serves pull and push over its shard.
//!
//! It stores numbers and applies rules; it knows nothing of models, features or data. All decisions are the store's
//! (`trainyard-parameter-store`); here they meet the network and the end of the job.

mod answer;
mod durable;
mod feed;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gradients;
mod journal;
mod link;
mod machine;
mod pair;
mod pair_telemetry;
mod post;
mod preparation;
mod record;
mod recovery;
mod replay;
mod replica;
mod replica_service;
mod run;
mod service;
mod shard_service;
mod shipping;
mod telemetry;
mod tensor_service;

pub use run::run;
