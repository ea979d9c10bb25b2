//! Failover: decides which replica serves each shard, from the reports of the servers. Pure: time is an argument.
//!
//! Three rules keep every acknowledged change. A replica takes over only if the shard map says that the two were
//! paired, so that it has every change. A primary continues alone only after the map says so. The map says that they
//! are paired only after the primary has begun to wait for its backup.

use std::time::Duration;

use crate::{ShardEntry, ShardMap};

/// Time for which the link of a primary to its backup must be broken, while both are present, before the primary
/// continues alone.
const BACKUP_LOST_TIMEOUT: Duration = Duration::from_millis(300);

/// The role of a replica, as its server reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// The replica waits for a role.
    Idle,
    /// The replica waits for a role, and cannot serve: its log is what it had received of its primary's when it died.
    Incomplete,
    /// The replica serves workers.
    Primary {
        /// The primary acknowledges only changes that its backup has.
        waits_for_backup: bool,
        /// Its backup is in sync.
        in_sync: bool,
        /// The link to its backup is broken.
        broken: bool,
    },
    /// The replica repeats the changes of the primary.
    Backup {
        /// The backup has every change of the primary.
        in_sync: bool,
    },
}

/// A server's report on a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Role of the replica.
    pub state: ReplicaState,
    /// `cluster_epoch` and version of the shard map that set the role.
    pub term: (u64, u64),
}

/// The latest reports on the two replicas of a shard; absent if the server is not present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairReport {
    /// Report of the server that the map names as the primary.
    pub primary: Option<ReplicaReport>,
    /// Report of the other server.
    pub other: Option<ReplicaReport>,
}

/// The next action for a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// No action.
    Rest,
    /// Write a new entry for the shard into the map.
    Publish(ShardEntry),
    /// Set the role of the primary.
    Serve {
        /// The primary waits for its backup.
        waits_for_backup: bool,
    },
    /// Set the role of the other replica to backup.
    Follow,
    /// Set the primary to wait for its backup, and write into the map that they are paired once it does.
    Pair,
}

/// Decides the next action for a shard. `broken_for` is the time for which the primary has been without its backup.
pub fn decide(map: &ShardMap, shard: usize, report: PairReport, broken_for: Duration) -> Decision {
    let ShardEntry { primary, paired } = map.shards[shard];
    let term = (map.cluster_epoch, map.version);
    let other = map.other(shard);
    let alone = Decision::Publish(ShardEntry {
        primary,
        paired: false,
    });
    let take_over = Decision::Publish(ShardEntry {
        primary: other,
        paired: false,
    });
    let is_level = report
        .other
        .is_some_and(|other| other.state == ReplicaState::Backup { in_sync: true });
    let Some(own) = report.primary else {
        return if paired && is_level {
            take_over
        } else {
            Decision::Rest
        };
    };
    let (waits_for_backup, in_sync, broken) = match own.state {
        // The primary was restarted. The other replica is in sync, and present already.
        ReplicaState::Idle if paired && is_level => return take_over,
        ReplicaState::Idle if paired => return alone,
        ReplicaState::Idle => {
            return Decision::Serve {
                waits_for_backup: false,
            };
        }
        // This replica was to take over and never served: the earlier primary has begun to send to it again. So the earlier
        // primary has every change, in its log if it has died since.
        ReplicaState::Backup { in_sync: false } | ReplicaState::Incomplete => {
            let has_all = |other: ReplicaReport| match other.state {
                ReplicaState::Primary { .. } | ReplicaState::Idle => true,
                ReplicaState::Backup { in_sync } => paired && in_sync,
                ReplicaState::Incomplete => false,
            };
            return if report.other.is_some_and(has_all) {
                take_over
            } else {
                Decision::Rest
            };
        }
        ReplicaState::Backup { in_sync: true } => {
            return Decision::Serve {
                waits_for_backup: false,
            };
        }
        ReplicaState::Primary {
            waits_for_backup,
            in_sync,
            broken,
        } => (waits_for_backup, in_sync, broken),
    };
    if own.term < term || waits_for_backup && !paired && !in_sync {
        return Decision::Serve {
            waits_for_backup: paired,
        };
    }
    let Some(backup) = report.other else {
        return if paired { alone } else { Decision::Rest };
    };
    match backup.state {
        ReplicaState::Backup { in_sync: has_all } => {
            if backup.term < term {
                Decision::Follow
            } else if paired && broken && broken_for >= BACKUP_LOST_TIMEOUT {
                alone
            } else if paired && !broken && !in_sync {
                // The link is another one, over which the backup receives everything anew. No change may wait for that.
                alone
            } else if !paired && in_sync && has_all {
                Decision::Pair
            } else {
                Decision::Rest
            }
        }
        ReplicaState::Idle | ReplicaState::Incomplete | ReplicaState::Primary { .. } if paired => {
            alone
        }
        ReplicaState::Idle | ReplicaState::Incomplete | ReplicaState::Primary { .. } => {
            Decision::Follow
        }
    }
}

#[cfg(test)]
mod tests;
