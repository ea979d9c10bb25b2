//! The role of a replica, and its changes: a pure state machine without sockets, files or clocks.

/// Order of the chiefs' commands: by the chief's term, then by the version of its shard map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    /// Term of the chief.
    pub(crate) epoch: u64,
    /// Version of the chief's shard map.
    pub(crate) version: u64,
}

/// The role of a replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// The replica waits for an order of the chief: its process has just started, or it was deposed.
    #[default]
    Idle,
    /// The replica serves workers.
    Primary {
        /// A change is acknowledged only after the backup has it.
        waits_for_backup: bool,
    },
    /// The replica replays the changes of the primary.
    Backup {
        /// The backup is in sync: it has every change of the primary.
        in_sync: bool,
    },
}

/// An order of the chief to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Serve workers.
    Primary {
        /// See [`Role::Primary`].
        waits_for_backup: bool,
    },
    /// Follow the primary.
    Backup,
}

/// The action that a change of role requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, or only a change of the connection to the backup and of `waits`.
    Keep,
    /// Recover the store from the replica's own log.
    Recover,
    /// Serve the replayed store.
    Promote,
    /// Drop the store.
    Clear,
}

/// Reason to refuse an order or a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// A later order has arrived before.
    #[error("the word of epoch {}, map {} is older than that of epoch {}, map {}", given.epoch, given.version, latest.epoch, latest.version)]
    Stale {
        /// Term of the refused order.
        given: Term,
        /// Latest term.
        latest: Term,
    },
    /// The backup is not in sync, so it cannot serve.
    #[error("this replica does not hold all changes of the primary")]
    NotInSync,
    /// The sender is no longer the primary.
    #[error("this replica has been made the primary in epoch {}, map {}", by.epoch, by.version)]
    Deposed {
        /// Term in which this replica became the primary.
        by: Term,
    },
    /// The replica has no order to be a backup.
    #[error("the chief has not made this replica a backup")]
    NotBackup,
    /// The backup has not confirmed the acknowledged changes in time.
    #[error("the backup has not confirmed everything in time")]
    Unconfirmed,
    /// The primary has begun a later stream.
    #[error("the primary has begun a later stream")]
    Superseded,
}

/// The role of a replica, with its term and stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RoleState {
    term: Term,
    role: Role,
    /// Number of the latest stream of changes. Other streams are refused.
    stream: u64,
}

impl RoleState {
    /// Returns the state of the only replica of a shard. It is the primary without an order of the chief.
    pub(crate) fn single() -> Self {
        Self {
            role: Role::Primary {
                waits_for_backup: false,
            },
            ..Self::default()
        }
    }

    pub(crate) fn term(&self) -> Term {
        self.term
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary { .. })
    }

    /// Applies an order of the chief. Returns the action that it requires.
    pub(crate) fn set_role(&mut self, term: Term, order: Order) -> Result<Step, Refused> {
        if term < self.term {
            return Err(Refused::Stale {
                given: term,
                latest: self.term,
            });
        }
        let (role, step) = match (self.role, order) {
            (Role::Idle, Order::Primary { waits_for_backup }) => {
                (Role::Primary { waits_for_backup }, Step::Recover)
            }
            (Role::Primary { .. }, Order::Primary { waits_for_backup }) => {
                (Role::Primary { waits_for_backup }, Step::Keep)
            }
            (Role::Backup { in_sync: false }, Order::Primary { .. }) => {
                return Err(Refused::NotInSync);
            }
            (Role::Backup { in_sync: true }, Order::Primary { waits_for_backup }) => {
                (Role::Primary { waits_for_backup }, Step::Promote)
            }
            (Role::Backup { .. }, Order::Backup) => (self.role, Step::Keep),
            (Role::Idle | Role::Primary { .. }, Order::Backup) => {
                (Role::Backup { in_sync: false }, Step::Clear)
            }
        };
        (self.term, self.role) = (term, role);
        if step != Step::Keep {
            // Earlier streams are invalid now.
            self.stream += 1;
        }
        Ok(step)
    }

    /// Begins a stream of the primary. The backup drops its state and is out of sync. Returns the number of the
    /// stream.
    pub(crate) fn handshake(&mut self, term: Term) -> Result<u64, Refused> {
        match self.role {
            Role::Backup { .. } => {
                self.role = Role::Backup { in_sync: false };
                self.stream += 1;
                Ok(self.stream)
            }
            Role::Primary { .. } if term < self.term => Err(Refused::Deposed { by: self.term }),
            Role::Primary { .. } | Role::Idle => Err(Refused::NotBackup),
        }
    }

    /// Checks whether items of a stream may be applied.
    pub(crate) fn takes(&self, stream: u64) -> Result<(), Refused> {
        match self.role {
            Role::Backup { .. } if stream == self.stream => Ok(()),
            Role::Backup { .. } => Err(Refused::Superseded),
            Role::Primary { .. } => Err(Refused::Deposed { by: self.term }),
            Role::Idle => Err(Refused::NotBackup),
        }
    }

    /// Marks the backup as in sync: the stream has sent the log up to its end at the start of the stream.
    pub(crate) fn mark_in_sync(&mut self, stream: u64) {
        if self.takes(stream).is_ok() {
            self.role = Role::Backup { in_sync: true };
        }
    }

    /// Marks the backup as out of sync, because a change could not be replayed. The stream becomes invalid.
    pub(crate) fn mark_out_of_sync(&mut self, stream: u64) {
        if self.takes(stream).is_ok() {
            self.role = Role::Backup { in_sync: false };
            self.stream += 1;
        }
    }

    /// Makes a primary idle, because the other replica is the primary in a later term. Returns whether this replica
    /// was the primary.
    pub(crate) fn depose(&mut self) -> bool {
        let was = self.is_primary();
        if was {
            self.role = Role::Idle;
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVE: Order = Order::Primary {
        waits_for_backup: true,
    };

    fn term(epoch: u64, version: u64) -> Term {
        Term { epoch, version }
    }

    #[test]
    fn a_backup_serves_only_what_is_level() {
        let mut role = RoleState::default();
        assert_eq!(role.set_role(term(1, 1), Order::Backup), Ok(Step::Clear));
        assert_eq!(role.set_role(term(1, 2), SERVE), Err(Refused::NotInSync));
        let stream = role.handshake(term(1, 1)).expect("it is a backup");
        role.mark_in_sync(stream);
        let again = role.handshake(term(1, 1)).expect("it still is");
        assert_eq!(
            role.set_role(term(1, 2), SERVE),
            Err(Refused::NotInSync),
            "the second stream is not level"
        );
        role.mark_in_sync(stream);
        assert_eq!(
            role.set_role(term(1, 2), SERVE),
            Err(Refused::NotInSync),
            "the first one is over"
        );
        role.mark_in_sync(again);
        assert_eq!(role.set_role(term(1, 2), SERVE), Ok(Step::Promote));
        assert!(role.is_primary());
    }

    #[test]
    fn a_primary_that_was_replaced_is_fenced_for_ever() {
        let mut backup = RoleState::default();
        backup
            .set_role(term(1, 1), Order::Backup)
            .expect("it is idle");
        let stream = backup.handshake(term(1, 1)).expect("it is a backup");
        backup.mark_in_sync(stream);
        assert_eq!(backup.takes(stream), Ok(()));
        backup.set_role(term(1, 2), SERVE).expect("it is level");
        assert_eq!(
            backup.takes(stream),
            Err(Refused::Deposed { by: term(1, 2) }),
            "nothing is confirmed"
        );
        assert_eq!(
            backup.handshake(term(1, 1)),
            Err(Refused::Deposed { by: term(1, 2) }),
            "nor begun anew"
        );
        let mut zombie = RoleState::default();
        zombie.set_role(term(1, 1), SERVE).expect("it is idle");
        assert!(zombie.depose() && !zombie.is_primary());
        assert_eq!(
            zombie.set_role(term(1, 0), SERVE),
            Err(Refused::Stale {
                given: term(1, 0),
                latest: term(1, 1)
            })
        );
        assert_eq!(zombie.set_role(term(1, 2), Order::Backup), Ok(Step::Clear));
    }

    #[test]
    fn an_earlier_chief_is_not_heard() {
        let mut role = RoleState::default();
        role.set_role(term(2, 5), SERVE).expect("it is idle");
        let stale = Err(Refused::Stale {
            given: term(1, 9),
            latest: term(2, 5),
        });
        assert_eq!(role.set_role(term(1, 9), Order::Backup), stale);
        assert_eq!(
            role.set_role(
                term(3, 5),
                Order::Primary {
                    waits_for_backup: false
                }
            ),
            Ok(Step::Keep)
        );
    }

    #[test]
    fn what_cannot_be_made_again_is_given_up() {
        let mut role = RoleState::default();
        role.set_role(term(1, 1), Order::Backup)
            .expect("it is idle");
        let stream = role.handshake(term(1, 1)).expect("it is a backup");
        role.mark_in_sync(stream);
        role.mark_out_of_sync(stream);
        assert_eq!(role.takes(stream), Err(Refused::Superseded));
        assert_eq!(role.role(), Role::Backup { in_sync: false });
    }
}
