//! What a journal hands on besides its log: to the backup of its server, which has it before anything is acknowledged.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use trainyard_write_ahead_log::{Entry, Log, Origin};

/// Most bytes that wait to be sent to a backup that nobody waits for yet. Then changes wait.
const QUEUED_BYTES_MAX: u64 = 64 << 20;
/// Longest wait for a backup, before the caller is told to come again.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Something that a log takes in.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// A record behind the others.
    Record(Entry),
    /// A segment and its first records. `alone`: what was before is over.
    Segment {
        prepared_epoch: u64,
        alone: bool,
        head: Vec<Entry>,
    },
}

impl Item {
    fn bytes(&self) -> u64 {
        match self {
            Self::Record(entry) => entry.bytes(),
            Self::Segment { head, .. } => head.iter().map(Entry::bytes).sum(),
        }
    }
}

/// Why something is not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum NotCommitted {
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] trainyard_write_ahead_log::Error),
    /// The replica serves the shard no longer: whether the change counts, the other one knows.
    #[error("this replica serves the shard no longer")]
    Deposed,
    /// The backup has not confirmed it.
    #[error("no confirmation of the backup within {} s: {changes} changes wait for it", BACKUP_TIMEOUT.as_secs())]
    Unconfirmed {
        /// Changes that wait.
        changes: u64,
    },
}

/// How far a backup has come, for those who wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    /// Items that the backup has.
    confirmed: u64,
    /// Whether anything is acknowledged before the backup has it.
    waits_for_backup: bool,
    /// Whether there is too much to be sent.
    crowded: bool,
    /// Whether nothing is taken in any more.
    closed: bool,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// Whether the log has been begun. What comes before is dropped there, and here.
    begun: bool,
    /// Changes since the log was begun.
    changes: u64,
    /// Items since the process began.
    items: u64,
    subscriber: Option<Subscriber>,
    /// Numbers of the subscriptions.
    subscriptions: u64,
}

/// What waits to be sent.
#[derive(Debug)]
struct Subscriber {
    number: u64,
    queue: VecDeque<Item>,
    bytes: u64,
}

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    number: u64,
    /// Items before it.
    pub(crate) items: u64,
    /// Changes before it, since the log was begun.
    pub(crate) changes: u64,
}

/// The order of everything that a log takes in, and who is told of it.
#[derive(Debug)]
pub(crate) struct ReplicationLog {
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
    /// Tells who sends that there is something.
    filled: Notify,
}

impl ReplicationLog {
    /// Returns the feed of a log that holds so many changes; absent = it has not been begun.
    pub(crate) fn new(changes: Option<u64>) -> Self {
        let begun = changes.is_some();
        let changes = changes.unwrap_or(0);
        let state = Mutex::new(State {
            begun,
            changes,
            ..State::default()
        });
        Self {
            state,
            progress: watch::Sender::default(),
            filled: Notify::new(),
        }
    }

    /// Nothing that holds the lock panics half-way through a change.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record in.
    pub(crate) fn add(&self, log: &Log, entry: Entry) {
        let mut state = self.locked();
        if state.closed || !state.begun {
            return;
        }
        state.changes += 1;
        if state.subscriber.is_some() {
            self.hand_on(&mut state, Item::Record(entry.clone()));
        }
        state.items += 1;
        log.add(entry);
    }

    /// Begins a segment, whose head is told how many changes came before it. Returns its number; 0 = nothing is taken
    /// in any more.
    pub(crate) fn begin(
        &self,
        log: &Log,
        origin: Origin,
        alone: bool,
        head: impl FnOnce(u64) -> Vec<Entry>,
    ) -> u64 {
        let mut state = self.locked();
        if state.closed {
            return 0;
        }
        state.begun = true;
        if alone {
            state.changes = 0;
        }
        let head = head(state.changes);
        if state.subscriber.is_some() {
            self.hand_on(
                &mut state,
                Item::Segment {
                    prepared_epoch: origin.prepared_epoch,
                    alone,
                    head: head.clone(),
                },
            );
        }
        state.items += 1;
        log.begin(origin, head, alone)
    }

    /// As [`ReplicationLog::begin`], for a log that another one is followed with: `changes` came before.
    pub(crate) fn follow(
        &self,
        log: &Log,
        origin: Origin,
        alone: bool,
        changes: u64,
        head: Vec<Entry>,
    ) -> u64 {
        let number = self.begin(log, origin, alone, |_| head);
        self.locked().changes = changes;
        number
    }

    fn hand_on(&self, state: &mut State, item: Item) {
        let Some(subscriber) = &mut state.subscriber else {
            return;
        };
        subscriber.bytes += item.bytes();
        subscriber.queue.push_back(item);
        if subscriber.bytes > QUEUED_BYTES_MAX {
            self.progress
                .send_if_modified(|progress| !std::mem::replace(&mut progress.crowded, true));
        }
    }

    /// Begins to hand everything on that comes from now on; whoever was told before is not any more.
    pub(crate) fn subscribe(&self) -> Subscription {
        let mut state = self.locked();
        state.subscriptions += 1;
        let number = state.subscriptions;
        let items = state.items;
        let changes = state.changes;
        state.subscriber = Some(Subscriber {
            number,
            queue: VecDeque::new(),
            bytes: 0,
        });
        self.progress
            .send_modify(|progress| (progress.confirmed, progress.crowded) = (0, false));
        Subscription {
            number,
            items,
            changes,
        }
    }

    /// Ends a subscription, unless there is a later one.
    pub(crate) fn unsubscribe(&self, subscription: Subscription) {
        let mut state = self.locked();
        if state
            .subscriber
            .as_ref()
            .is_some_and(|subscriber| subscriber.number == subscription.number)
        {
            state.subscriber = None;
            self.progress
                .send_modify(|progress| progress.crowded = false);
        }
    }

    /// Takes what waits to be sent, of at most about so many bytes. Nothing where there is a later subscription.
    pub(crate) fn take(&self, subscription: Subscription, bytes_max: u64) -> Option<Vec<Item>> {
        let mut state = self.locked();
        let subscriber = state
            .subscriber
            .as_mut()
            .filter(|subscriber| subscriber.number == subscription.number)?;
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(item) = subscriber
            .queue
            .front()
            .filter(|_| taken.is_empty() || bytes < bytes_max)
        {
            bytes += item.bytes();
            taken.extend(subscriber.queue.pop_front());
        }
        subscriber.bytes -= bytes;
        if subscriber.bytes <= QUEUED_BYTES_MAX {
            self.progress
                .send_if_modified(|progress| std::mem::take(&mut progress.crowded));
        }
        Some(taken)
    }

    /// Waits until there may be something to send.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Takes note that the backup has so many items, counted as [`Subscription::items`] is.
    pub(crate) fn confirm(&self, items: u64) {
        self.progress
            .send_modify(|progress| progress.confirmed = progress.confirmed.max(items));
    }

    /// Says whether anything is acknowledged before the backup has it.
    pub(crate) fn set_waits_for_backup(&self, waits_for_backup: bool) {
        self.progress
            .send_modify(|progress| progress.waits_for_backup = waits_for_backup);
    }

    /// The log is over: nothing counts until it is begun again.
    pub(crate) fn forget(&self) {
        let mut state = self.locked();
        (state.begun, state.changes) = (false, 0);
    }

    /// Takes nothing in any more, and has nothing acknowledged.
    pub(crate) fn close(&self) {
        let mut state = self.locked();
        (state.closed, state.subscriber) = (true, None);
        self.progress.send_modify(|progress| progress.closed = true);
    }

    /// Returns whether nothing is acknowledged any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.progress.borrow().closed
    }

    /// Returns the changes that the backup has not confirmed, and the bytes that have not been sent.
    pub(crate) fn lag(&self) -> (u64, u64) {
        let state = self.locked();
        let items = state.items.saturating_sub(self.progress.borrow().confirmed);
        state
            .subscriber
            .as_ref()
            .map_or((0, 0), |subscriber| (items, subscriber.bytes))
    }

    /// Returns the items that there are, and wakes who sends them.
    pub(crate) fn end(&self) -> u64 {
        let (items, hands_on) = {
            let state = self.locked();
            (state.items, state.subscriber.is_some())
        };
        if hands_on {
            self.filled.notify_one();
        }
        items
    }

    /// Waits until the first `items` may be acknowledged, as far as the backup is concerned.
    ///
    /// # Errors
    /// They may not, and perhaps never will be.
    pub(crate) async fn commit(&self, items: u64) -> Result<(), NotCommitted> {
        let may = |progress: &Progress| {
            progress.closed
                || if progress.waits_for_backup {
                    progress.confirmed >= items
                } else {
                    !progress.crowded
                }
        };
        let now = *self.progress.borrow();
        if !may(&now) {
            let mut progress = self.progress.subscribe();
            let waited = tokio::time::timeout(BACKUP_TIMEOUT, progress.wait_for(may)).await;
            if waited.is_err() {
                let changes = items.saturating_sub(self.progress.borrow().confirmed);
                return Err(NotCommitted::Unconfirmed { changes });
            }
        }
        if self.is_closed() {
            Err(NotCommitted::Deposed)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
