//! Metrics of replicas.

use metrics::{describe_gauge, gauge};
use trainyard_protocol::v1;

use crate::replication::replica::Replica;

/// Registers the descriptions of the metrics.
pub(crate) fn describe() {
    describe_gauge!(
        "trainyard_replica_role",
        "What the replica of a shard here is: 0 idle, 1 backup, 2 backup in sync, 3 primary, 4 primary that waits for its backup."
    );
    describe_gauge!(
        "trainyard_replica_lag_records",
        "Changes that the backup has not confirmed, also while it is away, by shard."
    );
    describe_gauge!(
        "trainyard_replica_lag_bytes",
        "Bytes of changes that wait to be sent to the backup, by shard."
    );
    describe_gauge!(
        "trainyard_replica_link",
        "The backup, by shard: 0 none, 1 not reached, 2 behind, 3 in sync."
    );
}

/// Records the status of a replica.
pub(crate) fn record(replica: &Replica) {
    let status = replica.status();
    let labels = [("shard", status.shard.to_string())];
    let role = match (status.role(), status.in_sync, status.waits_for_backup) {
        (v1::ReplicaRole::Backup, false, _) => 1.0,
        (v1::ReplicaRole::Backup, true, _) => 2.0,
        (v1::ReplicaRole::Primary, _, false) => 3.0,
        (v1::ReplicaRole::Primary, _, true) => 4.0,
        (v1::ReplicaRole::Idle | v1::ReplicaRole::Unspecified, ..) => 0.0,
    };
    gauge!("trainyard_replica_role", &labels).set(role);
    gauge!("trainyard_replica_lag_records", &labels).set(status.lag_records as f64);
    gauge!("trainyard_replica_lag_bytes", &labels).set(status.lag_bytes as f64);
    gauge!("trainyard_replica_link", &labels).set(f64::from(status.link));
}
