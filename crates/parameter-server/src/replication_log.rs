//! The replication log: changes on their way to the backup, which must have them before they are acknowledged.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use trainyard_write_ahead_log::{EarlierSegments, Entry, Log, Origin};

/// Most bytes in the queue to a backup that is not yet in sync. Beyond that, commits wait.
const QUEUED_BYTES_MAX: u64 = 64 << 20;
/// Timeout for the backup's confirmation. The caller then gets a refusal and may retry.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// An item of the log.
#[derive(Debug, Clone)]
pub enum Item {
    /// A record.
    Record(Entry),
    /// A segment and its first records.
    Segment {
        /// Prepared epoch of the store.
        prepared_epoch: u64,
        /// Fate of the segments before it.
        earlier: EarlierSegments,
        /// The first records.
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

/// Reason why a change is not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotCommitted {
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] trainyard_write_ahead_log::Error),
    /// This replica no longer serves the shard. Only its successor knows whether the change counts.
    #[error("this replica serves the shard no longer")]
    Deposed,
    /// The backup has not confirmed the change.
    #[error("no confirmation of the backup within {} s: {changes} changes wait for it", BACKUP_TIMEOUT.as_secs())]
    Unconfirmed {
        /// Items without confirmation: changes and segments.
        changes: u64,
    },
}

/// Progress of the backup, for waiting commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    /// Items that the backup has.
    confirmed: u64,
    /// Changes are acknowledged only after the backup has them.
    waits_for_backup: bool,
    /// The queue is over its limit.
    crowded: bool,
    /// The log is closed.
    closed: bool,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// The log has a segment. Earlier changes are dropped, as in the file.
    begun: bool,
    /// Changes since the log was begun.
    changes: u64,
    /// Items since the process began.
    items: u64,
    subscriber: Option<Subscriber>,
    /// Number of the latest subscription.
    subscriptions: u64,
}

/// The queue to the backup.
#[derive(Debug)]
struct Subscriber {
    number: u64,
    queue: VecDeque<Item>,
    bytes: u64,
}

/// A subscription and its position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    number: u64,
    /// Items before the subscription.
    pub items: u64,
    /// Changes before the subscription, since the log was begun.
    pub changes: u64,
}

/// The beginning of a segment of a log.
#[derive(Debug, Clone, Copy)]
pub struct SegmentStart {
    /// Origin of the log.
    pub origin: Origin,
    /// Fate of the segments before it.
    pub earlier: EarlierSegments,
}

/// Orders the items of a log, and passes them to a subscriber.
#[derive(Debug)]
pub struct ReplicationLog {
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
    /// Notifies the sender that the queue may have items.
    filled: Notify,
}

impl ReplicationLog {
    /// Returns the replication log for a log with so many changes; absent = the log has not been begun.
    pub fn new(changes: Option<u64>) -> Self {
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

    /// No holder of the lock panics in the middle of a change, so a poisoned lock is safe to use.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a record.
    pub fn add(&self, log: &Log, entry: Entry) {
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

    /// Begins a segment. `head` gets the number of changes before it. Returns the number of the segment; 0 = the log
    /// is closed.
    pub fn begin(
        &self,
        log: &Log,
        start: SegmentStart,
        head: impl FnOnce(u64) -> Vec<Entry>,
    ) -> u64 {
        let SegmentStart { origin, earlier } = start;
        let mut state = self.locked();
        if state.closed {
            return 0;
        }
        state.begun = true;
        if earlier == EarlierSegments::Obsolete {
            state.changes = 0;
        }
        let head = head(state.changes);
        if state.subscriber.is_some() {
            self.hand_on(
                &mut state,
                Item::Segment {
                    prepared_epoch: origin.prepared_epoch,
                    earlier,
                    head: head.clone(),
                },
            );
        }
        state.items += 1;
        log.begin(origin, head, earlier)
    }

    /// As [`ReplicationLog::begin`], for the log of a backup. `changes` is the number of changes before the segment.
    pub fn follow(&self, log: &Log, start: SegmentStart, changes: u64, head: Vec<Entry>) -> u64 {
        let number = self.begin(log, start, |_| head);
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

    /// Subscribes to all items from now on. Ends an earlier subscription.
    pub fn subscribe(&self) -> Subscription {
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

    /// Ends a subscription, unless a later one has replaced it.
    pub fn unsubscribe(&self, subscription: Subscription) {
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

    /// Removes items from the queue, of about `bytes_max` bytes at most; `None` if a later subscription has replaced
    /// this one.
    pub fn take(&self, subscription: Subscription, bytes_max: u64) -> Option<Vec<Item>> {
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

    /// Waits until the queue may have items.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Records that the backup has so many items, counted like [`Subscription::items`].
    pub fn confirm(&self, items: u64) {
        self.progress
            .send_modify(|progress| progress.confirmed = progress.confirmed.max(items));
    }

    /// From now on, changes are acknowledged only after the backup has them.
    pub fn require_backup(&self) {
        self.progress
            .send_modify(|progress| progress.waits_for_backup = true);
    }

    /// From now on, changes are acknowledged without the backup.
    pub fn release_backup(&self) {
        self.progress
            .send_modify(|progress| progress.waits_for_backup = false);
    }

    /// Ends the log. Changes are dropped until it is begun again.
    pub fn forget(&self) {
        let mut state = self.locked();
        (state.begun, state.changes) = (false, 0);
    }

    /// Closes the log: it accepts no further items, and no change is acknowledged.
    pub fn close(&self) {
        let mut state = self.locked();
        (state.closed, state.subscriber) = (true, None);
        self.progress.send_modify(|progress| progress.closed = true);
    }

    /// Returns whether the log is closed.
    pub fn is_closed(&self) -> bool {
        self.progress.borrow().closed
    }

    /// Returns the number of items that no backup has confirmed, and the bytes in the queue. Without a subscriber, those are
    /// missing that came since the last one confirmed, and nothing is queued.
    pub fn lag(&self) -> (u64, u64) {
        let state = self.locked();
        let items = state.items.saturating_sub(self.progress.borrow().confirmed);
        let queued = state.subscriber.as_ref().map(|subscriber| subscriber.bytes);
        (items, queued.unwrap_or_default())
    }

    /// Returns the number of items, and wakes the sender.
    pub fn end(&self) -> u64 {
        let (items, hands_on) = {
            let state = self.locked();
            (state.items, state.subscriber.is_some())
        };
        if hands_on {
            self.filled.notify_one();
        }
        items
    }

    /// Waits until the backup allows the first `items` to be acknowledged.
    ///
    /// # Errors
    /// The log is closed, or the wait timed out.
    pub async fn commit(&self, items: u64) -> Result<(), NotCommitted> {
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
