//! Bringing a store back to where another was.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trainyard_cluster_spec::Task;

use super::{Control, Ledger, Store, previous::Previous};
use crate::aggregation::{Part, Put};
use crate::recency::Moment;
use crate::{Change, Error, Identity, Journal, PartStanding, Standing, State};

/// Updates of a slice between one start of a process and the next, at most: what a reader holds of a slice from before a
/// restart never has the count that its values have behind it.
const UPDATES_A_RESTART: u64 = 1 << 40;

impl Store {
    /// Tells `journal` of all changes from now on.
    pub fn keep_journal(&self, journal: Arc<dyn Journal>) {
        *self.journal.write() = Some(journal);
    }

    /// Takes up everything but values and slots, which the store was prepared with; changes may be made again from here
    /// on. `memory` is that of the store which is brought back.
    ///
    /// # Errors
    /// The standing names slices or rows that are not here.
    pub fn resume(&self, memory: u64, state: State, standing: &Standing) -> Result<(), Error> {
        let mut control = self.control.write();
        let _alone = self.cut.write();
        self.set_clock(standing.secs);
        for part in &standing.parts {
            let PartStanding {
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
            self.memory
                .parts
                .fetch_add(values.len() as u64 * 4, Ordering::Relaxed);
            let part = Part {
                batch: *batch,
                batches: *batches,
                resolved,
                values: values.clone(),
            };
            if self.aggregation.lock().put(*place, part)? != Put::Waits {
                return Err(Error::BadRequest(
                    "the parts of a step under way cannot be all of it".into(),
                ));
            }
        }
        if let Some(replaced) = &standing.replaced {
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
        ledger.version = standing.version;
        ledger.saved_version = Some(standing.version);
        ledger.sessions.resume(standing);
        ledger.steps.resume(standing);
        (control.memory, control.state) = (memory, state);
        Ok(())
    }

    /// Tells how often the store has been brought back, once all changes have been made again: what readers hold of
    /// its slices is then known not to be theirs.
    pub fn set_restarts(&self, restarts: u64) {
        let updates = restarts.saturating_mul(UPDATES_A_RESTART).saturating_add(1);
        self.slices
            .iter()
            .for_each(|slice| slice.count_from(updates));
    }

    /// Gives up everything, as if nothing had been asked of the store.
    pub fn empty(&self) {
        let mut control = self.control.write();
        let _alone = self.cut.write();
        *control = Control::default();
        drop(self.clear());
        *self.ledger.lock() = Ledger::default();
    }

    /// Uses up a sequence number as it was before.
    ///
    /// # Errors
    /// Its session is not open.
    pub fn use_again(&self, identity: &Identity) -> Result<(), Error> {
        let mut ledger = self.ledger.lock();
        ledger.sessions.check(identity)?;
        ledger.steps.give_back(identity);
        ledger.sessions.consume(identity);
        Ok(())
    }

    /// Answers the wish for a step as it was answered before.
    ///
    /// # Errors
    /// Its session is not open.
    pub fn reserve_again(&self, identity: &Identity) -> Result<(), Error> {
        let mut ledger = self.ledger.lock();
        ledger.sessions.check(identity)?;
        // What is logged was granted: behind the last step, of a batch that other servers have applied.
        if ledger.steps.has_ended() {
            ledger.steps.reserve_beyond(identity);
        } else {
            ledger.steps.reserve(identity);
        }
        Ok(())
    }

    /// Lets a task rest as it did before.
    pub fn rest_again(&self, task: Task) {
        self.ledger.lock().steps.rest(task);
    }

    /// Returns the seconds of training, as told.
    pub fn clock(&self) -> u64 {
        self.clock_secs.load(Ordering::Relaxed)
    }

    /// Returns everything but values and slots. Nothing may be under way: for comparisons.
    pub fn standing(&self) -> Standing {
        let parts = self.aggregation.lock().standing();
        self.standing_of(&self.ledger.lock(), parts)
    }

    pub(super) fn standing_of(&self, ledger: &Ledger, parts: Vec<PartStanding>) -> Standing {
        let Moment { secs, .. } = self.moment(0);
        let replaced = self.previous.lock().standing();
        let mut standing = Standing {
            version: ledger.version,
            secs: u64::try_from(secs).unwrap_or(0),
            parts,
            replaced,
            ..Standing::default()
        };
        ledger.sessions.stand(&mut standing);
        ledger.steps.stand(&mut standing);
        standing
    }

    /// Tells the journal of a change, if there is one. The caller holds the lock that orders it.
    pub(super) fn note(&self, version: u64, change: &Change<'_>) {
        if let Some(journal) = &*self.journal.read() {
            journal.draw_up(change)(version);
        }
    }
}
