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

/// A replica that died while it received the log of its primary.
const PARTIAL: ReplicaState = ReplicaState::Incomplete;

/// A pair of replicas that does as it is told, with its links.
#[derive(Debug, Clone)]
struct Pair {
    map: ShardMap,
    /// State and term of each server.
    replicas: [(ReplicaState, (u64, u64)); 2],
}

impl Pair {
    fn new(map: ShardMap, named: ReplicaState, other: ReplicaState) -> Self {
        let term = (map.cluster_epoch, map.version);
        Self {
            map,
            replicas: [(named, term), (other, term)],
        }
    }

    fn primary(&self) -> usize {
        self.map.shards[0].primary
    }

    /// Returns whether the replica that the map names serves, and no change waits for a backup that lacks it.
    fn is_served(&self) -> bool {
        matches!(
            self.replicas[self.primary()].0,
            ReplicaState::Primary { waits_for_backup, in_sync, .. } if in_sync || !waits_for_backup
        )
    }

    /// Sets a server to serve, with or without a backup, or to follow. Returns whether it can.
    fn set_role(&mut self, server: usize, serves: Option<bool>) -> bool {
        let term = (self.map.cluster_epoch, self.map.version);
        let (state, known) = &mut self.replicas[server];
        let next = match (*state, serves) {
            (BEHIND | PARTIAL, Some(_)) => return false,
            (
                ReplicaState::Primary {
                    in_sync, broken, ..
                },
                Some(waits_for_backup),
            ) => ReplicaState::Primary {
                waits_for_backup,
                in_sync,
                broken,
            },
            (_, Some(waits_for_backup)) => ReplicaState::Primary {
                waits_for_backup,
                in_sync: false,
                broken: true,
            },
            (ReplicaState::Backup { in_sync }, None) => ReplicaState::Backup { in_sync },
            (_, None) => BEHIND,
        };
        (*state, *known) = (next, term);
        true
    }

    /// Lets a primary send its log to a backup.
    fn send(&mut self) {
        let primary = self.primary();
        let backup = self.replicas[1 - primary].0;
        let ReplicaState::Primary {
            waits_for_backup,
            in_sync,
            ..
        } = self.replicas[primary].0
        else {
            return;
        };
        let follows = matches!(backup, ReplicaState::Backup { .. });
        self.replicas[primary].0 = ReplicaState::Primary {
            waits_for_backup,
            in_sync: follows && (in_sync || backup == LEVEL),
            broken: !follows,
        };
        if follows {
            self.replicas[1 - primary].0 = LEVEL;
        }
    }

    /// Makes one decision, and carries it out. Returns it.
    fn decide(&mut self) -> Decision {
        let report = |server: usize| {
            let (state, term) = self.replicas[server];
            Some(ReplicaReport { state, term })
        };
        let primary = self.primary();
        let reports = PairReport {
            primary: report(primary),
            other: report(1 - primary),
        };
        let decision = decide(&self.map, 0, reports, LONG);
        match decision {
            Decision::Rest => {}
            Decision::Publish(entry) => {
                self.map = self.map.with(0, entry);
                self.set_role(entry.primary, Some(false));
            }
            Decision::Serve { waits_for_backup } => {
                self.set_role(primary, Some(waits_for_backup));
            }
            Decision::Follow => {
                self.set_role(1 - primary, None);
            }
            Decision::Pair => {
                if self.set_role(primary, Some(true)) {
                    let entry = ShardEntry {
                        primary,
                        paired: true,
                    };
                    self.map = self.map.with(0, entry);
                }
            }
        }
        decision
    }
}

const ALL_STATES: [ReplicaState; 9] = [
    IDLE, PARTIAL, LEVEL, BEHIND, ALONE, FOLLOWED, PAIRED, CUT_OFF, STUCK,
];

#[test]
fn from_every_state_in_which_a_replica_has_every_change_the_decisions_lead_to_service() {
    for map in [single(), paired()] {
        for named in ALL_STATES {
            for other in ALL_STATES {
                let begun = Pair::new(map.clone(), named, other);
                let lacks = |state| matches!(state, BEHIND | PARTIAL);
                // An unpaired replica that is level may lack what the other one has acknowledged alone.
                let other_has_all = !lacks(other) && (other != LEVEL || map.shards[0].paired);
                let has_all = !lacks(named) || other_has_all;
                let mut pair = begun.clone();
                let mut decisions = Vec::new();
                for _ in 0..40 {
                    decisions.push(pair.decide());
                    pair.send();
                }
                assert_eq!(pair.is_served(), has_all, "{begun:?}: {decisions:?}");
                if has_all {
                    let is_paired = pair.map.shards[0].paired;
                    assert!(is_paired, "{begun:?} ends paired: {decisions:?}");
                    assert_eq!(decisions.last(), Some(&Decision::Rest), "{begun:?}");
                }
            }
        }
    }
}
