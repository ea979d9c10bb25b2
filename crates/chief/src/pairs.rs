//! Who serves each shard, where each has two replicas: decisions on what the servers say of themselves.
//!
//! Three rules keep every acknowledged change. A replica takes over only where the map says that the two were a pair, so
//! that it has everything. A primary goes on alone only after the map says so. And the map says that they are a pair only
//! after the primary has begun to wait.

use std::time::Duration;

use crate::{ShardEntry, ShardMap};

/// Time for which a primary must be without its backup, while both are there, before it goes on alone.
const BROKEN_FOR: Duration = Duration::from_millis(300);

/// What a replica says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaState {
    /// It waits for a word.
    Idle,
    /// It serves.
    Primary {
        /// Whether it acknowledges nothing that its backup does not have.
        waits: bool,
        /// Whether its backup has had everything that there was.
        level: bool,
        /// Whether its backup cannot be reached.
        broken: bool,
    },
    /// It follows.
    Backup {
        /// Whether it has everything.
        level: bool,
    },
}

/// What a server says of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaReport {
    /// What it is.
    pub state: ReplicaState,
    /// Epoch and version of the map in which it was told.
    pub term: (u64, u64),
}

/// The two replicas of a shard, as last heard of; absent where the server is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PairReport {
    /// That of the server which the map names.
    pub primary: Option<ReplicaReport>,
    /// The other one.
    pub other: Option<ReplicaReport>,
}

/// What is to be done about a shard next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Rest,
    /// To write down how the shard is served from now on.
    Publish(ShardEntry),
    /// To tell the primary.
    Serve {
        /// Whether it waits for its backup.
        waits: bool,
    },
    /// To tell the other replica to follow.
    Follow,
    /// To tell the primary to wait for its backup, and to write down that they are a pair once it does.
    Pair,
}

/// Decides what is to be done about a shard. `broken_for`: how long the primary has been without its backup.
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
        .is_some_and(|other| other.state == ReplicaState::Backup { level: true });
    let Some(own) = report.primary else {
        return if paired && is_level {
            take_over
        } else {
            Decision::Rest
        };
    };
    let (waits, level, broken) = match own.state {
        // It was started again: the other one has everything, and is there already.
        ReplicaState::Idle if paired && is_level => return take_over,
        ReplicaState::Idle if paired => return alone,
        ReplicaState::Idle => return Decision::Serve { waits: false },
        // It was to take over, and the one before it has begun to send anew: it never served.
        ReplicaState::Backup { level: false } => {
            let serves = |other: ReplicaReport| matches!(other.state, ReplicaState::Primary { .. });
            return if report.other.is_some_and(serves) {
                take_over
            } else {
                Decision::Rest
            };
        }
        ReplicaState::Backup { level: true } => return Decision::Serve { waits: false },
        ReplicaState::Primary {
            waits,
            level,
            broken,
        } => (waits, level, broken),
    };
    if own.term < term || waits && !paired && !level {
        return Decision::Serve { waits: paired };
    }
    let Some(backup) = report.other else {
        return if paired { alone } else { Decision::Rest };
    };
    match backup.state {
        ReplicaState::Backup { level: has_all } => {
            if backup.term < term {
                Decision::Follow
            } else if paired && broken && broken_for >= BROKEN_FOR {
                alone
            } else if !paired && level && has_all {
                Decision::Pair
            } else {
                Decision::Rest
            }
        }
        ReplicaState::Idle | ReplicaState::Primary { .. } if paired => alone,
        ReplicaState::Idle | ReplicaState::Primary { .. } => Decision::Follow,
    }
}

#[cfg(test)]
mod tests;
