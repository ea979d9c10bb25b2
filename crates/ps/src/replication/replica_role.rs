//! What a replica of a shard is, and when it becomes something else: decisions without sockets, files or clocks.

/// Order of what chiefs say: a later chief, then a later version of its map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    /// Incarnation of the chief.
    pub(crate) epoch: u64,
    /// Version of its map of shards.
    pub(crate) version: u64,
}

/// What a replica is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It waits for the chief's word: its process has just been started, or it was deposed.
    #[default]
    Idle,
    /// It serves workers.
    Primary {
        /// Whether it acknowledges nothing that the backup does not have.
        waits_for_backup: bool,
    },
    /// It makes the changes of the primary again.
    Backup {
        /// Whether it has all that the primary has sent, and that is all there is.
        in_sync: bool,
    },
}

/// What the chief wants a replica to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// To serve.
    Primary {
        /// See [`Role::Primary`].
        waits_for_backup: bool,
    },
    /// To follow.
    Backup,
}

/// What has to be done to become that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, or only the link to the backup and the waiting for it.
    Keep,
    /// To bring back what the log of its own holds.
    Recover,
    /// To serve what it has made again.
    Promote,
    /// To give up what it holds.
    Clear,
}

/// Why an order, or a greeting, is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Somebody has said something later.
    #[error("the word of epoch {}, map {} is older than that of epoch {}, map {}", given.epoch, given.version, latest.epoch, latest.version)]
    Stale {
        /// What was said.
        given: Term,
        /// The latest.
        latest: Term,
    },
    /// A backup that does not hold everything cannot serve.
    #[error("this replica does not hold all changes of the primary")]
    NotLevel,
    /// The sender is the primary no longer.
    #[error("this replica has been made the primary in epoch {}, map {}", by.epoch, by.version)]
    Deposed {
        /// In this term.
        by: Term,
    },
    /// It has not been told yet that it is a backup.
    #[error("this replica has not been told to be a backup")]
    NotBackup,
    /// The backup has not confirmed in time what had been acknowledged before.
    #[error("the backup has not confirmed everything in time")]
    Unconfirmed,
    /// There is a later stream from the primary.
    #[error("the primary has begun to send anew")]
    Superseded,
}

/// The post of a replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RoleState {
    term: Term,
    role: Role,
    /// Number of the latest stream of changes, which alone is taken in.
    stream: u64,
}

impl RoleState {
    pub(crate) fn term(&self) -> Term {
        self.term
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary { .. })
    }

    /// Takes an order of the chief.
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
                return Err(Refused::NotLevel);
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
            // No stream that was begun before goes on.
            self.stream += 1;
        }
        Ok(step)
    }

    /// A primary of this term begins to send its log: what was followed before is given up. Returns the number of the
    /// stream.
    pub(crate) fn greet(&mut self, term: Term) -> Result<u64, Refused> {
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

    /// Decides whether something of a stream is taken in.
    pub(crate) fn takes(&self, stream: u64) -> Result<(), Refused> {
        match self.role {
            Role::Backup { .. } if stream == self.stream => Ok(()),
            Role::Backup { .. } => Err(Refused::Superseded),
            Role::Primary { .. } => Err(Refused::Deposed { by: self.term }),
            Role::Idle => Err(Refused::NotBackup),
        }
    }

    /// The stream has come to where its log ended when it began.
    pub(crate) fn mark_in_sync(&mut self, stream: u64) {
        if self.takes(stream).is_ok() {
            self.role = Role::Backup { in_sync: true };
        }
    }

    /// A change of the stream could not be made again: what is held is not to be trusted.
    pub(crate) fn mark_out_of_sync(&mut self, stream: u64) {
        if self.takes(stream).is_ok() {
            self.role = Role::Backup { in_sync: false };
            self.stream += 1;
        }
    }

    /// The other replica has said that it is the primary, later than this one. Returns whether this one was.
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
        assert_eq!(role.set_role(term(1, 2), SERVE), Err(Refused::NotLevel));
        let stream = role.greet(term(1, 1)).expect("it is a backup");
        role.mark_in_sync(stream);
        let again = role.greet(term(1, 1)).expect("it still is");
        assert_eq!(
            role.set_role(term(1, 2), SERVE),
            Err(Refused::NotLevel),
            "the second stream is not level"
        );
        role.mark_in_sync(stream);
        assert_eq!(
            role.set_role(term(1, 2), SERVE),
            Err(Refused::NotLevel),
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
        let stream = backup.greet(term(1, 1)).expect("it is a backup");
        backup.mark_in_sync(stream);
        assert_eq!(backup.takes(stream), Ok(()));
        backup.set_role(term(1, 2), SERVE).expect("it is level");
        assert_eq!(
            backup.takes(stream),
            Err(Refused::Deposed { by: term(1, 2) }),
            "nothing is confirmed"
        );
        assert_eq!(
            backup.greet(term(1, 1)),
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
        let stream = role.greet(term(1, 1)).expect("it is a backup");
        role.mark_in_sync(stream);
        role.mark_out_of_sync(stream);
        assert_eq!(role.takes(stream), Err(Refused::Superseded));
        assert_eq!(role.role(), Role::Backup { in_sync: false });
    }
}
