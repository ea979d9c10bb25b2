//! Sessions: one writer per task, each push once.

use std::collections::BTreeMap;

use trainyard_cluster_spec::Task;

use crate::batch_set::{AHEAD_MAX, BatchSet};
use crate::window::{WINDOW, Window};
use crate::{
    BatchId, Error, Identity, RejectedPush, Rejection, Rejections, SessionStanding, ShardPosition,
    Standing,
};

#[derive(Debug, Clone, Copy)]
struct Session {
    number: u64,
    open: bool,
    pushes: Window,
}

/// The sessions of a ps and the batches it has applied. Not synchronised: the store holds it behind a lock, in the
/// same critical section as the update it admits.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_task: BTreeMap<Task, Session>,
    /// Batches applied, by data shard; and the pass of the latest.
    batches: BTreeMap<u64, (BatchSet, u64)>,
    /// Of each task's session, the pushes within its window whose values were refused.
    rejected: BTreeMap<Task, Vec<RejectedPush>>,
}

/// Batches that are told of a session whose pushes were refused.
const BATCHES_TOLD: usize = 8;

/// What a push is, before it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    New,
    Duplicate,
}

impl Sessions {
    /// Starts a session behind the `seq` given, and fences the earlier ones of its task. Opening the current one again
    /// changes nothing.
    /// Returns whether anything changed.
    pub(crate) fn open(&mut self, identity: &Identity) -> Result<bool, Error> {
        let current = self.by_task.get(&identity.task).copied();
        match current {
            Some(session) if session.number > identity.session => Err(self.fenced(identity)),
            Some(session) if session.number == identity.session && !session.open => {
                Err(self.fenced(identity))
            }
            Some(session) if session.number == identity.session => Ok(false),
            _ => {
                let pushes = Window::behind(identity.seq);
                let session = Session {
                    number: identity.session,
                    open: true,
                    pushes,
                };
                self.by_task.insert(identity.task, session);
                self.rejected.remove(&identity.task);
                Ok(true)
            }
        }
    }

    /// Ends a session: nothing more is accepted from it. Returns whether the task has no later one.
    pub(crate) fn close(&mut self, task: Task, number: u64) -> bool {
        let session = self.by_task.entry(task).or_insert(Session {
            number,
            open: false,
            pushes: Window::default(),
        });
        let latest = session.number <= number;
        if latest {
            *session = Session {
                number,
                open: false,
                ..*session
            };
        }
        latest
    }

    /// Checks that a request comes from the task's open session.
    pub(crate) fn check(&self, identity: &Identity) -> Result<(), Error> {
        match self.by_task.get(&identity.task) {
            Some(session) if session.open && session.number == identity.session => Ok(()),
            _ => Err(self.fenced(identity)),
        }
    }

    /// Decides whether a push is new, was applied before, or may not be applied.
    pub(crate) fn admit(&self, identity: &Identity, batch: &BatchId) -> Result<Admission, Error> {
        self.check(identity)?;
        let session = &self.by_task[&identity.task];
        if identity.seq == 0 {
            return Err(Error::BadRequest(
                "seq of a push must be at least 1, given 0".into(),
            ));
        }
        if session.pushes.contains(identity.seq) || self.applied(batch) {
            return Ok(Admission::Duplicate);
        }
        if identity.seq > session.pushes.most() {
            return Err(Error::SequenceGap {
                most: session.pushes.most(),
                given: identity.seq,
            });
        }
        let first = self.next_batch(batch.shard);
        if batch.batch >= first.saturating_add(AHEAD_MAX) {
            return Err(Error::BadRequest(format!(
                "batch must be less than {AHEAD_MAX} ahead of {first}, the first that is not applied, given {}",
                batch.batch
            )));
        }
        Ok(Admission::New)
    }

    /// Uses up a push's sequence number. Returns whether it had not been used.
    pub(crate) fn consume(&mut self, identity: &Identity) -> bool {
        let Some(session) = self.by_task.get_mut(&identity.task) else {
            return false;
        };
        let fresh = !session.pushes.contains(identity.seq);
        session.pushes.insert(identity.seq);
        fresh
    }

    /// Remembers that a push's values were refused, whose sequence number has been used up, for as long as it may be
    /// repeated.
    pub(crate) fn reject(&mut self, identity: &Identity, batch: BatchId, rejection: Rejection) {
        let Some(session) = self.by_task.get(&identity.task) else {
            return;
        };
        let (highest, _) = session.pushes.bits();
        let rejected = self.rejected.entry(identity.task).or_default();
        rejected.retain(|push| highest.saturating_sub(push.seq) < WINDOW);
        rejected.push(RejectedPush {
            seq: identity.seq,
            batch,
            rejection,
        });
    }

    /// Returns why the values of a push were refused, if they were and it is remembered.
    pub(crate) fn rejection(&self, identity: &Identity) -> Option<Rejection> {
        let found = self
            .rejected
            .get(&identity.task)?
            .iter()
            .find(|push| push.seq == identity.seq);
        found.map(|push| push.rejection)
    }

    /// Tells the open sessions some of whose latest pushes were refused.
    pub(crate) fn rejections(&self) -> Vec<Rejections> {
        let told = |(task, rejected): (&Task, &Vec<RejectedPush>)| {
            let session = self.by_task.get(task).filter(|session| session.open)?;
            let (highest, _) = session.pushes.bits();
            let recent = rejected
                .iter()
                .filter(|push| highest.saturating_sub(push.seq) < WINDOW);
            let batches: Vec<BatchId> = recent.map(|push| push.batch).collect();
            let latest = batches[batches.len().saturating_sub(BATCHES_TOLD)..].to_vec();
            let task = *task;
            let session = session.number;
            let recent = batches.len() as u32;
            (recent > 0).then_some(Rejections {
                task,
                session,
                recent,
                latest,
            })
        };
        self.rejected.iter().filter_map(told).collect()
    }

    /// Takes up what others had come to.
    pub(crate) fn resume(&mut self, standing: &Standing) {
        let session = |known: &SessionStanding| {
            let pushes = Window::of(known.highest, known.seen);
            (
                known.task,
                Session {
                    number: known.number,
                    open: known.open,
                    pushes,
                },
            )
        };
        self.by_task = standing.sessions.iter().map(session).collect();
        let rejected = standing
            .sessions
            .iter()
            .filter(|known| !known.rejected.is_empty());
        self.rejected = rejected
            .map(|known| (known.task, known.rejected.clone()))
            .collect();
        self.batches.clear();
        standing
            .positions
            .iter()
            .for_each(|position| self.restore_position(position));
    }

    /// Tells what [`Sessions::resume`] takes up.
    pub(crate) fn stand(&self, standing: &mut Standing) {
        let session = |(&task, session): (&Task, &Session)| {
            let (highest, seen) = session.pushes.bits();
            let rejected = self.rejected.get(&task).cloned().unwrap_or_default();
            SessionStanding {
                task,
                number: session.number,
                open: session.open,
                highest,
                seen,
                rejected,
            }
        };
        standing.sessions = self.by_task.iter().map(session).collect();
        standing.positions = self.positions();
    }

    /// Remembers that `count` batches from this one on have been applied.
    pub(crate) fn record(&mut self, batch: &BatchId, count: u32) {
        let (applied, pass) = self.batches.entry(batch.shard).or_default();
        (batch.batch..batch.batch.saturating_add(count.into()))
            .for_each(|batch| applied.insert(batch));
        *pass = (*pass).max(batch.pass);
    }

    /// Returns the first batch of a data shard that has not been applied.
    pub(crate) fn next_batch(&self, shard: u64) -> u64 {
        self.batches
            .get(&shard)
            .map_or(0, |(applied, _)| applied.floor())
    }

    /// Returns whether a push of this sequence number has been applied, or used it up.
    pub(crate) fn used(&self, identity: &Identity) -> bool {
        self.by_task
            .get(&identity.task)
            .is_some_and(|session| session.pushes.contains(identity.seq))
    }

    /// Returns how far every data shard has been applied.
    pub(crate) fn positions(&self) -> Vec<ShardPosition> {
        let position = |(&shard, (applied, pass)): (&u64, &(BatchSet, u64))| {
            let batch = applied.floor();
            let ahead = applied.ahead();
            ShardPosition {
                shard,
                pass: *pass,
                batch,
                ahead,
            }
        };
        self.batches.iter().map(position).collect()
    }

    /// Starts a data shard at a batch: all before it have been applied, and some behind it.
    pub(crate) fn restore_position(&mut self, position: &ShardPosition) {
        let mut applied = BatchSet::starting_at(position.batch);
        position
            .ahead
            .iter()
            .for_each(|batches| applied.insert_all(batches));
        self.batches
            .insert(position.shard, (applied, position.pass));
    }

    /// Returns whether a batch has been applied.
    pub(crate) fn applied(&self, batch: &BatchId) -> bool {
        self.batches
            .get(&batch.shard)
            .is_some_and(|(applied, _)| applied.contains(batch.batch))
    }

    fn fenced(&self, identity: &Identity) -> Error {
        let current = self
            .by_task
            .get(&identity.task)
            .map_or(0, |session| session.number);
        Error::Fenced {
            task: identity.task,
            current,
            given: identity.session,
        }
    }
}
