//! The parameter server: serves pull and push over its shard.
//!
//! It stores numbers and applies rules; it knows nothing of models, features or data. All decisions are the store's
//! (`trainyard-parameter-store`); here they meet the network and the end of the job.

mod answer;
mod durable;
mod gradients;
mod journal;
mod record;
mod recovery;
mod run;
mod service;
mod telemetry;
mod tensor_service;

pub use run::run;
