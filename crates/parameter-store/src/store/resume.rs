//! Restoring a store from metadata and replayed changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trainyard_cluster_spec::Task;

use super::{Control, Ledger, Store, previous::Previous};
use crate::aggregation::{MicroBatchGradients, Put};
use crate::lru::Timestamp;
use crate::{Change, Error, Journal, MicroBatchRecord, State, StepId, StoreMetadata};

/// Most updates of a slice between two starts of a process. After a restart, the counts of updates are therefore higher
/// than any count that a reader has.
const UPDATES_A_RESTART: u64 = 1 << 40;

impl Store {
    /// Reports all changes from now on to `journal`.
    pub fn keep_journal(&self, journal: Arc<dyn Journal>) {
        *self.journal.write() = Some(journal);
    }

    /// Restores everything except values and slots, with which the store was prepared. Changes may be replayed from
    /// here on. `prepared_epoch` is that of the store that is being restored.
    ///
    /// # Errors
    /// The metadata names slices or rows that do not exist here.
    pub fn resume(
        &self,
        prepared_epoch: u64,
        state: State,
        metadata: &StoreMetadata,
    ) -> Result<(), Error> {
        let mut control = self.control.write();
        let _alone = self.cut.write();
        self.set_clock(metadata.secs);
        for part in &metadata.parts {
            let MicroBatchRecord {
                place,
                batch,
                batches,
                selection,
                values,
            } = part;
            let resolved = Arc::new(self.resolve(selection)?);
            if resolved.lengths().map(|(_, length)| length).sum::<usize>() != values.len() {
                return Err(Error::BadRequest(
                    "a part of a step is not as long as what it names".into(),
                ));
            }
            self.memory_budget
                .parts
                .fetch_add(values.len() as u64 * 4, Ordering::Relaxed);
            let part = MicroBatchGradients {
                batch: *batch,
                batches: *batches,
                resolved,
                values: values.clone(),
            };
            if self.aggregation.lock().put(*place, part)? != Put::Waits {
                return Err(Error::BadRequest(
                    "the parts of a step in progress cannot be the whole step".into(),
                ));
            }
        }
        if let Some(replaced) = &metadata.replaced {
            let resolved = self.resolve(&replaced.selection)?;
            if resolved.lengths().map(|(_, length)| length).sum::<usize>() != replaced.values.len()
            {
                return Err(Error::BadRequest(
                    "replaced values are not as many as what they are of".into(),
                ));
            }
            *self.previous.lock() = Previous::at(replaced.clone(), resolved);
        }
        let mut ledger = self.ledger.lock();
        ledger.version = metadata.version;
        ledger.sessions.resume(metadata);
        ledger.steps.resume(metadata);
        (control.prepared_epoch, control.state) = (prepared_epoch, state);
        Ok(())
    }

    /// Sets how often the store has been restored, after all changes have been replayed. The store then recognises that
    /// values which readers hold are from before.
    pub fn set_restarts(&self, restarts: u64) {
        let updates = restarts.saturating_mul(UPDATES_A_RESTART).saturating_add(1);
        self.slices
            .iter()
            .for_each(|slice| slice.count_from(updates));
    }

    /// Discards everything, as if the store had received no request.
    pub fn empty(&self) {
        let mut control = self.control.write();
        let _alone = self.cut.write();
        *control = Control::default();
        drop(self.clear());
        *self.ledger.lock() = Ledger::default();
    }

    /// Replays the use of a sequence number.
    ///
    /// # Errors
    /// Its session is not open.
    pub fn use_again(&self, step: StepId) -> Result<(), Error> {
        let mut ledger = self.ledger.lock();
        ledger.sessions.check(step.task, step.session)?;
        ledger.steps.give_back(step);
        ledger.sessions.consume(step);
        Ok(())
    }

    /// Replays a request for a ticket.
    ///
    /// # Errors
    /// Its session is not open.
    pub fn reserve_again(&self, step: StepId) -> Result<(), Error> {
        let mut ledger = self.ledger.lock();
        ledger.sessions.check(step.task, step.session)?;
        ledger.steps.reserve(step);
        Ok(())
    }

    /// Replays the grant of a ticket for a batch that other servers have applied.
    ///
    /// # Errors
    /// Its session is not open.
    pub fn reserve_beyond_again(&self, step: StepId) -> Result<(), Error> {
        let mut ledger = self.ledger.lock();
        ledger.sessions.check(step.task, step.session)?;
        ledger.steps.reserve_beyond(step);
        Ok(())
    }

    /// Replays that a task became idle.
    pub fn rest_again(&self, task: Task) {
        self.ledger.lock().steps.rest(task);
    }

    /// Returns the seconds of training, as set by [`Store::set_clock`].
    pub fn clock(&self) -> u64 {
        self.clock_secs.load(Ordering::Relaxed)
    }

    /// Returns everything except values and slots, for comparisons. No request may be in progress.
    pub fn metadata(&self) -> StoreMetadata {
        let parts = self.aggregation.lock().metadata();
        self.standing_of(&self.ledger.lock(), parts)
    }

    pub(super) fn standing_of(
        &self,
        ledger: &Ledger,
        parts: Vec<MicroBatchRecord>,
    ) -> StoreMetadata {
        let Timestamp { secs, .. } = self.timestamp(0);
        let replaced = self.previous.lock().metadata();
        let mut metadata = StoreMetadata {
            version: ledger.version,
            secs: u64::try_from(secs).unwrap_or(0),
            parts,
            replaced,
            ..StoreMetadata::default()
        };
        ledger.sessions.stand(&mut metadata);
        ledger.steps.stand(&mut metadata);
        metadata
    }

    /// Reports a change to the journal, if there is one. The caller holds the lock that orders the change.
    pub(super) fn note(&self, version: u64, change: &Change) {
        if let Some(journal) = &*self.journal.read() {
            journal.prepare_record(change)(version);
        }
    }
}
