//! Replicas of shards. Under `parameter_servers.durability = "replica"` each shard has a primary, which serves workers, and a
//! backup on the next server, which repeats the primary's changes. Otherwise each shard has a single replica.

mod log_sender;
mod receiving_mark;
mod replica;
mod replica_role;
mod replica_service;
pub(crate) mod replica_telemetry;
mod shard_service;
mod shipping;

pub(crate) use replica::Replica;
pub(crate) use replica_service::Replicas;
pub(crate) use shard_service::ShardService;
