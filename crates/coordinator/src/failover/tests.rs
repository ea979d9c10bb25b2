//! Tests of the failover decisions without clock or network.

use super::*;

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(1);
const IDLE: ReplicaState = ReplicaState::Idle;
const LEVEL: ReplicaState = ReplicaState::Backup { in_sync: true };
const BEHIND: ReplicaState = ReplicaState::Backup { in_sync: false };

fn serves(waits_for_backup: bool, in_sync: bool, broken: bool) -> ReplicaState {
    ReplicaState::Primary {
        waits_for_backup,
        in_sync,
        broken,
    }
}

fn map(paired: bool) -> ShardMap {
    ShardMap::new(2, 2).with(0, ShardEntry { primary: 0, paired })
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

fn publish(primary: usize, paired: bool) -> Decision {
    Decision::Publish(ShardEntry { primary, paired })
}

#[test]
fn a_pair_is_made_step_by_step() {
    let alone = map(false);
    assert_eq!(
        decided(&alone, Some(IDLE), Some(IDLE)),
        Decision::Serve {
            waits_for_backup: false
        }
    );
    let served = Some(serves(false, false, true));
    assert_eq!(decided(&alone, served, Some(IDLE)), Decision::Follow);
    assert_eq!(decided(&alone, served, Some(BEHIND)), Decision::Rest);
    assert_eq!(
        decided(&alone, Some(serves(false, true, false)), Some(LEVEL)),
        Decision::Pair
    );
    // The primary waits already: the chief was replaced in between, or the reply was lost.
    assert_eq!(
        decided(&alone, Some(serves(true, true, false)), Some(LEVEL)),
        Decision::Pair
    );
    assert_eq!(
        decided(&map(true), Some(serves(true, true, false)), Some(LEVEL)),
        Decision::Rest
    );
}

#[test]
fn only_the_backup_of_a_pair_takes_over() {
    assert_eq!(decided(&map(true), None, Some(LEVEL)), publish(1, false));
    assert_eq!(
        decided(&map(true), Some(IDLE), Some(LEVEL)),
        publish(1, false),
        "it was started again"
    );
    for other in [Some(BEHIND), Some(IDLE), None] {
        assert_eq!(
            decided(&map(true), None, other),
            Decision::Rest,
            "{other:?}: its log is waited for"
        );
        assert_eq!(
            decided(&map(true), Some(IDLE), other),
            publish(0, false),
            "{other:?}: it has its log"
        );
    }
    assert_eq!(
        decided(&map(false), None, Some(LEVEL)),
        Decision::Rest,
        "it may lack what was acknowledged alone"
    );
}

#[test]
fn a_primary_goes_on_alone_only_after_the_map_says_so() {
    let waiting = Some(serves(true, true, true));
    assert_eq!(decided(&map(true), waiting, None), publish(0, false));
    assert_eq!(
        decided(&map(true), waiting, Some(IDLE)),
        publish(0, false),
        "the backup was started again"
    );
    assert_eq!(
        after(&map(true), waiting, Some(LEVEL), NOW),
        Decision::Rest,
        "the link may come back"
    );
    assert_eq!(
        after(&map(true), waiting, Some(LEVEL), LONG),
        publish(0, false)
    );
    // Then its role is set, in the new term.
    let published = map(true).with(
        0,
        ShardEntry {
            primary: 0,
            paired: false,
        },
    );
    let term = (2, published.version - 1);
    let primary = Some(ReplicaReport {
        state: serves(true, false, true),
        term,
    });
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
        decided(&map(false), Some(serves(true, false, true)), None),
        Decision::Serve {
            waits_for_backup: false
        }
    );
}

#[test]
fn a_primary_that_was_replaced_follows() {
    let replaced = map(true).with(
        0,
        ShardEntry {
            primary: 1,
            paired: false,
        },
    );
    assert_eq!(
        decided(&replaced, Some(LEVEL), Some(serves(true, true, false))),
        Decision::Serve {
            waits_for_backup: false
        }
    );
    let own = Some(serves(false, false, true));
    assert_eq!(
        decided(&replaced, own, Some(serves(true, false, true))),
        Decision::Follow
    );
    assert_eq!(decided(&replaced, own, Some(IDLE)), Decision::Follow);
}

#[test]
fn a_replica_that_was_to_take_over_and_is_not_level_gives_way_to_the_one_that_serves() {
    let replaced = map(true).with(
        0,
        ShardEntry {
            primary: 1,
            paired: false,
        },
    );
    assert_eq!(
        decided(&replaced, Some(BEHIND), Some(serves(true, false, true))),
        publish(0, false)
    );
    assert_eq!(decided(&replaced, Some(BEHIND), None), Decision::Rest);
}

#[test]
fn a_later_chief_tells_everybody_again() {
    let map = ShardMap {
        cluster_epoch: 3,
        ..map(true)
    };
    let told = |state| {
        Some(ReplicaReport {
            state,
            term: (2, 9),
        })
    };
    let primary = told(serves(true, true, false));
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
        state: serves(true, true, false),
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
