//! Tests of the failover decisions without clock or network.

use super::*;

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(1);
const IDLE: ReplicaState = ReplicaState::Idle;
const LEVEL: ReplicaState = ReplicaState::Backup { in_sync: true };
const BEHIND: ReplicaState = ReplicaState::Backup { in_sync: false };

/// A primary without a link to a backup.
const ALONE: ReplicaState = ReplicaState::Primary {
    waits_for_backup: false,
    in_sync: false,
    broken: true,
};
/// A primary that does not wait for its backup, which is in sync.
const FOLLOWED: ReplicaState = ReplicaState::Primary {
    waits_for_backup: false,
    in_sync: true,
    broken: false,
};
/// A primary that waits for its backup, which is in sync.
const PAIRED: ReplicaState = ReplicaState::Primary {
    waits_for_backup: true,
    in_sync: true,
    broken: false,
};
/// A primary that waits for a backup that was in sync when its link broke.
const CUT_OFF: ReplicaState = ReplicaState::Primary {
    waits_for_backup: true,
    in_sync: true,
    broken: true,
};
/// A primary that waits for a backup, and has none.
const STUCK: ReplicaState = ReplicaState::Primary {
    waits_for_backup: true,
    in_sync: false,
    broken: true,
};

/// Returns a map by which the primary may serve alone.
fn single() -> ShardMap {
    let entry = ShardEntry {
        primary: 0,
        paired: false,
    };
    ShardMap::new(2, 2).with(0, entry)
}

/// Returns a map by which the primary waits for its backup.
fn paired() -> ShardMap {
    let entry = ShardEntry {
        primary: 0,
        paired: true,
    };
    ShardMap::new(2, 2).with(0, entry)
}

/// Returns the decision if the roles of both replicas were set in the map's own term.
fn decided(map: &ShardMap, primary: Option<ReplicaState>, other: Option<ReplicaState>) -> Decision {
    after(map, primary, other, NOW)
}

fn after(
    map: &ShardMap,
    primary: Option<ReplicaState>,
    other: Option<ReplicaState>,
    broken_for: Duration,
) -> Decision {
    let term = (map.cluster_epoch, map.version);
    let told = |state: Option<ReplicaState>| state.map(|state| ReplicaReport { state, term });
    decide(
        map,
        0,
        PairReport {
            primary: told(primary),
            other: told(other),
        },
        broken_for,
    )
}

/// Returns the decision to make `primary` serve alone.
fn publish(primary: usize) -> Decision {
    Decision::Publish(ShardEntry {
        primary,
        paired: false,
    })
}

#[test]
fn a_pair_is_made_step_by_step() {
    let alone = single();
    assert_eq!(
        decided(&alone, Some(IDLE), Some(IDLE)),
        Decision::Serve {
            waits_for_backup: false
        }
    );
    let served = Some(ALONE);
    assert_eq!(decided(&alone, served, Some(IDLE)), Decision::Follow);
    assert_eq!(decided(&alone, served, Some(BEHIND)), Decision::Rest);
    assert_eq!(decided(&alone, Some(FOLLOWED), Some(LEVEL)), Decision::Pair);
    // The primary waits already: the chief was replaced in between, or the reply was lost.
    assert_eq!(decided(&alone, Some(PAIRED), Some(LEVEL)), Decision::Pair);
    assert_eq!(
        decided(&paired(), Some(PAIRED), Some(LEVEL)),
        Decision::Rest
    );
}

#[test]
fn only_the_backup_of_a_pair_takes_over() {
    assert_eq!(decided(&paired(), None, Some(LEVEL)), publish(1));
    assert_eq!(
        decided(&paired(), Some(IDLE), Some(LEVEL)),
        publish(1),
        "it was started again"
    );
    for other in [Some(BEHIND), Some(IDLE), None] {
        assert_eq!(
            decided(&paired(), None, other),
            Decision::Rest,
            "{other:?}: its log is waited for"
        );
        assert_eq!(
            decided(&paired(), Some(IDLE), other),
            publish(0),
            "{other:?}: it has its log"
        );
    }
    assert_eq!(
        decided(&single(), None, Some(LEVEL)),
        Decision::Rest,
        "it may lack what was acknowledged alone"
    );
}

#[test]
fn a_primary_goes_on_alone_only_after_the_map_says_so() {
    let waiting = Some(CUT_OFF);
    assert_eq!(decided(&paired(), waiting, None), publish(0));
    assert_eq!(
        decided(&paired(), waiting, Some(IDLE)),
        publish(0),
        "the backup was started again"
    );
    assert_eq!(
        after(&paired(), waiting, Some(LEVEL), NOW),
        Decision::Rest,
        "the link may come back"
    );
    assert_eq!(after(&paired(), waiting, Some(LEVEL), LONG), publish(0));
    // Then its role is set, in the new term.
    let published = paired().with(
        0,
        ShardEntry {
            primary: 0,
            paired: false,
        },
    );
    let term = (2, published.version - 1);
    let primary = Some(ReplicaReport { state: STUCK, term });
    let report = PairReport {
        primary,
        other: None,
    };
    assert_eq!(
        decide(&published, 0, report, NOW),
        Decision::Serve {
            waits_for_backup: false
        }
    );
}

#[test]
fn a_primary_that_waits_for_nobody_is_told_so_again() {
    // The primary was set to wait, and the backup was lost before the map was written.
    assert_eq!(
        decided(&single(), Some(STUCK), None),
        Decision::Serve {
            waits_for_backup: false
        }
    );
}

#[test]
fn a_primary_that_was_replaced_follows() {
    let replaced = paired().with(
        0,
        ShardEntry {
            primary: 1,
            paired: false,
        },
    );
    assert_eq!(
        decided(&replaced, Some(LEVEL), Some(PAIRED)),
        Decision::Serve {
            waits_for_backup: false
        }
    );
    let own = Some(ALONE);
    assert_eq!(decided(&replaced, own, Some(STUCK)), Decision::Follow);
    assert_eq!(decided(&replaced, own, Some(IDLE)), Decision::Follow);
}

#[test]
fn a_replica_that_was_to_take_over_and_is_not_level_gives_way_to_the_one_that_serves() {
    let replaced = paired().with(
        0,
        ShardEntry {
            primary: 1,
            paired: false,
        },
    );
    assert_eq!(decided(&replaced, Some(BEHIND), Some(STUCK)), publish(0));
    assert_eq!(decided(&replaced, Some(BEHIND), None), Decision::Rest);
}

#[test]
fn a_later_chief_tells_everybody_again() {
    let map = ShardMap {
        cluster_epoch: 3,
        ..paired()
    };
    let told = |state| {
        Some(ReplicaReport {
            state,
            term: (2, 9),
        })
    };
    let primary = told(PAIRED);
    let report = PairReport {
        primary,
        other: told(LEVEL),
    };
    assert_eq!(
        decide(&map, 0, report, NOW),
        Decision::Serve {
            waits_for_backup: true
        }
    );
    let primary = Some(ReplicaReport {
        state: PAIRED,
        term: (3, map.version),
    });
    assert_eq!(
        decide(
            &map,
            0,
            PairReport {
                primary,
                other: told(LEVEL)
            },
            NOW
        ),
        Decision::Follow
    );
}
