//! Replication of servers in pairs (`parameter_servers.durability = "replica"`): each part of the parameters has a
//! primary, which serves workers, and a backup on the next server, which repeats the primary's changes.

mod log_sender;
mod pair;
mod pair_telemetry;
mod replica;
mod replica_role;
mod replica_service;
mod shard_service;
mod shipping;

pub(crate) use pair::run_pair;
