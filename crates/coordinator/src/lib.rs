//! The coordinator of a job: decides which tasks may train, what data they read, who serves each shard of the parameters, and
//! which chief leads.
//!
//! [`Membership`], [`decide`] and [`LeaderElection`] are state machines without clock or network. [`LocalCoordinator`] shares
//! the membership and the [`Dispatcher`] between the chief's service and its own training loop.

mod backup_workers;
mod data_shards;
mod dispatcher;
mod ended_sessions;
mod failover;
mod leader_election;
mod local_coordinator;
mod membership;
mod rendezvous;
mod shard_map;
mod table_positions;

pub use dispatcher::{Dispatcher, SHARD_BATCHES};
pub use ended_sessions::EndedSessions;
pub use failover::{Decision, PairReport, ReplicaReport, ReplicaState, decide};
pub use leader_election::{Candidate, ElectionStep, LeaderElection};
pub use local_coordinator::LocalCoordinator;
pub use membership::{Admission, Liveness, Membership, MembershipConfig, View};
pub use shard_map::{ShardEntry, ShardMap};
pub use table_positions::TablePositions;
