//! Sessions: each task has one writer, and each push is applied once.

use std::collections::BTreeMap;

use trainyard_cluster_spec::Task;

use crate::batch_set::{AHEAD_MAX, BatchSet};
use crate::deduplication_window::{DeduplicationWindow, WINDOW};
use crate::{
    BatchId, Error, RejectedPush, Rejection, Rejections, SessionMetadata, ShardPosition, StepId,
    StoreMetadata,
};

#[derive(Debug, Clone, Copy)]
struct Session {
    number: u64,
    open: bool,
    pushes: DeduplicationWindow,
}

/// The sessions of a parameter server and the batches that it has applied. It is not synchronised: the store locks it
/// in the same critical section as the update that it admits.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_task: BTreeMap<Task, Session>,
    /// Applied batches and the latest pass, by data shard.
    batches: BTreeMap<u64, (BatchSet, u64)>,
    /// Rejected pushes of each task's session that lie within its window.
    rejected: BTreeMap<Task, Vec<RejectedPush>>,
}

/// Most batches that are reported of a session with rejected pushes.
const BATCHES_TOLD: usize = 8;

/// Outcome of the deduplication of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    New,
    Duplicate,
}

impl Sessions {
    /// Opens a session whose sequence numbers follow `step.seq`, and fences earlier sessions of its task. Opening
    /// the current session again changes nothing.
    /// Returns whether anything changed.
    pub(crate) fn open(&mut self, step: StepId) -> Result<bool, Error> {
        let current = self.by_task.get(&step.task).copied();
        match current {
            Some(session) if session.number > step.session => {
                Err(self.fenced(step.task, step.session))
            }
            Some(session) if session.number == step.session && !session.open => {
                Err(self.fenced(step.task, step.session))
            }
            Some(session) if session.number == step.session => Ok(false),
            _ => {
                let pushes = DeduplicationWindow::behind(step.seq);
                let session = Session {
                    number: step.session,
                    open: true,
                    pushes,
                };
                self.by_task.insert(step.task, session);
                self.rejected.remove(&step.task);
                Ok(true)
            }
        }
    }

    /// Closes a session: its later requests are refused. Returns whether the task has no later session.
    pub(crate) fn close(&mut self, task: Task, number: u64) -> bool {
        let session = self.by_task.entry(task).or_insert(Session {
            number,
            open: false,
            pushes: DeduplicationWindow::default(),
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
    pub(crate) fn check(&self, task: Task, session: u64) -> Result<(), Error> {
        match self.by_task.get(&task) {
            Some(known) if known.open && known.number == session => Ok(()),
            _ => Err(self.fenced(task, session)),
        }
    }

    /// Decides whether a push is new or a duplicate, or refuses it.
    pub(crate) fn admit(&self, step: StepId, batch: &BatchId) -> Result<Admission, Error> {
        self.check(step.task, step.session)?;
        let session = &self.by_task[&step.task];
        if step.seq == 0 {
            return Err(Error::BadRequest(
                "seq of a push must be at least 1, given 0".into(),
            ));
        }
        if session.pushes.contains(step.seq) || self.applied(batch) {
            return Ok(Admission::Duplicate);
        }
        if step.seq > session.pushes.most() {
            return Err(Error::SequenceGap {
                most: session.pushes.most(),
                given: step.seq,
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

    /// Uses up the sequence number of a push. Returns whether the number was unused.
    pub(crate) fn consume(&mut self, step: StepId) -> bool {
        let Some(session) = self.by_task.get_mut(&step.task) else {
            return false;
        };
        let fresh = !session.pushes.contains(step.seq);
        session.pushes.insert(step.seq);
        fresh
    }

    /// Remembers that the values of a push were rejected, for as long as the push may be repeated. Its sequence number
    /// must have been used up.
    pub(crate) fn reject(&mut self, step: StepId, batch: BatchId, rejection: Rejection) {
        let Some(session) = self.by_task.get(&step.task) else {
            return;
        };
        let (highest, _) = session.pushes.bits();
        let rejected = self.rejected.entry(step.task).or_default();
        rejected.retain(|push| highest.saturating_sub(push.seq) < WINDOW);
        rejected.push(RejectedPush {
            seq: step.seq,
            batch,
            rejection,
        });
    }

    /// Returns why the values of a push were rejected, if they were and the rejection is still remembered.
    pub(crate) fn rejection(&self, step: StepId) -> Option<Rejection> {
        let found = self
            .rejected
            .get(&step.task)?
            .iter()
            .find(|push| push.seq == step.seq);
        found.map(|push| push.rejection)
    }

    /// Returns the open sessions that have rejected pushes within their window.
    pub(crate) fn rejections(&self) -> Vec<Rejections> {
        let told = |(task, rejected): (&Task, &Vec<RejectedPush>)| {
            let session = self.by_task.get(task).filter(|session| session.open)?;
            let (highest, _) = session.pushes.bits();
            let recent = rejected
                .iter()
                .filter(|push| highest.saturating_sub(push.seq) < WINDOW);
            let reason = recent.clone().next_back().map(|push| push.rejection);
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
                reason,
            })
        };
        self.rejected.iter().filter_map(told).collect()
    }

    /// Restores sessions and batches from `metadata`.
    pub(crate) fn resume(&mut self, metadata: &StoreMetadata) {
        let session = |known: &SessionMetadata| {
            let pushes = DeduplicationWindow::of(known.highest, known.seen);
            (
                known.task,
                Session {
                    number: known.number,
                    open: known.open,
                    pushes,
                },
            )
        };
        self.by_task = metadata.sessions.iter().map(session).collect();
        let rejected = metadata
            .sessions
            .iter()
            .filter(|known| !known.rejected.is_empty());
        self.rejected = rejected
            .map(|known| (known.task, known.rejected.clone()))
            .collect();
        self.batches.clear();
        metadata
            .positions
            .iter()
            .for_each(|position| self.restore_position(position));
    }

    /// Writes the state that [`Sessions::resume`] restores into `metadata`.
    pub(crate) fn stand(&self, metadata: &mut StoreMetadata) {
        let session = |(&task, session): (&Task, &Session)| {
            let (highest, seen) = session.pushes.bits();
            let rejected = self.rejected.get(&task).cloned().unwrap_or_default();
            SessionMetadata {
                task,
                number: session.number,
                open: session.open,
                highest,
                seen,
                rejected,
            }
        };
        metadata.sessions = self.by_task.iter().map(session).collect();
        metadata.positions = self.positions();
    }

    /// Records that `count` batches from `batch` on have been applied.
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

    /// Returns whether the sequence number has been used up, by an applied push or otherwise.
    pub(crate) fn used(&self, step: StepId) -> bool {
        self.by_task
            .get(&step.task)
            .is_some_and(|session| session.pushes.contains(step.seq))
    }

    /// Returns the position of each data shard.
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

    /// Restores the position of a data shard: all batches before it have been applied, and some after it.
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

    fn fenced(&self, task: Task, session: u64) -> Error {
        let current = self.by_task.get(&task).map_or(0, |known| known.number);
        Error::Fenced {
            task,
            current,
            given: session,
        }
    }
}
