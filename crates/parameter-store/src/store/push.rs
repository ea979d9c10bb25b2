//! Pushes: each an update of its own, or part of a synchronous step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Ledger, Store, check_worker};
use crate::aggregation::{Part, Put, mean};
use crate::selection::Resolved;
use crate::sessions::Admission;
use crate::slice::Scratch;
use crate::{Change, Contribution, Error, Gradients, Identity, Push, PushRecord, Pushed, Take, Update};

impl Store {
    /// Applies one step's gradients: all of them, once, or none. Under synchronous updates they wait for the other parts
    /// of their step.
    ///
    /// # Errors
    /// Refused by epoch, session, sequence or ticket; slices, rows or lengths that do not fit; values that are not
    /// finite. The sequence number of a push with non-finite values is used up, so that it is not tried again.
    pub fn push<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
    ) -> Result<Pushed, Error> {
        let (counts_steps, update) = {
            let control = self.control.read();
            check_worker(&control, identity)?;
            (control.counts_steps, control.update)
        };
        let contribution = match (update, push.contribution) {
            (Update::Sync, None) => {
                return Err(Error::BadRequest(
                    "a synchronous push must name its slot, given none".to_owned(),
                ));
            }
            (Update::Sync, contribution) => contribution,
            _ => None,
        };
        let _shared = self.cut.read();
        let turn = self.turn(identity.task);
        let mut turn = turn.lock();
        if self.ledger.lock().sessions.admit(identity, &push.batch)? == Admission::Duplicate {
            return Ok(self.duplicate(identity, push.pulled_version, contribution.is_some()));
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::NotReady("it is about to end"));
        }
        let resolved = match &push.selection {
            Some(selection) => Arc::new(self.resolve(selection)?),
            None => turn.recall(identity).ok_or(Error::Forgotten { seq: identity.seq })?,
        };
        self.check_gradients(identity, &resolved, push.gradients)?;
        let pushed = match contribution {
            Some(place) => self.contribute(identity, push, place, resolved)?,
            None => self.update(identity, push, &resolved, counts_steps)?,
        };
        turn.forget(identity);
        Ok(pushed)
    }

    /// Applies a push that is an update of its own.
    fn update<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        resolved: &Resolved,
        counts_steps: bool,
    ) -> Result<Pushed, Error> {
        let record = self.draw_up(identity, push, None, resolved);
        let pushed = {
            let mut ledger = self.ledger.lock();
            // The session may have been closed, and the batch applied by another task, since it was looked at.
            if ledger.sessions.admit(identity, &push.batch)? == Admission::Duplicate {
                drop(ledger);
                return Ok(self.duplicate(identity, push.pulled_version, false));
            }
            if counts_steps && !ledger.steps.holds(identity) {
                return Err(Error::NoTicket { task: identity.task, seq: identity.seq });
            }
            ledger.sessions.consume(identity);
            ledger.sessions.record(&push.batch, push.batches);
            ledger.version += 1;
            if counts_steps {
                ledger.steps.advance(identity);
            }
            if let Some(take) = record {
                take(ledger.version);
            }
            let staleness = (ledger.version - 1).saturating_sub(push.pulled_version);
            let global_step = ledger.steps.global_step();
            Pushed { duplicate: false, stale: false, version: ledger.version, global_step, staleness }
        };
        self.apply(pushed.version, resolved, push.gradients);
        Ok(pushed)
    }

    /// Takes in a part of a synchronous step, and applies the step if it was the last.
    fn contribute<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        place: Contribution,
        resolved: Arc<Resolved>,
    ) -> Result<Pushed, Error> {
        let record = self.draw_up(identity, push, Some(place), &resolved);
        // A step of one part is applied from where it lies.
        let values = if place.of > 1 { push.gradients.copy() } else { Vec::new() };
        let mut aggregation = self.aggregation.lock();
        let pushed = {
            let mut ledger = self.ledger.lock();
            let taken = ledger.version > push.pulled_version || aggregation.holds(place.slot);
            if ledger.sessions.admit(identity, &push.batch)? == Admission::Duplicate || taken {
                drop(ledger);
                return Ok(self.duplicate(identity, push.pulled_version, true));
            }
            if ledger.version < push.pulled_version {
                let (most, given) = (ledger.version, push.pulled_version);
                let message = format!("the step of a synchronous push must be at most {most}, given {given}");
                return Err(Error::BadRequest(message));
            }
            let part = Part { batch: push.batch, batches: push.batches, resolved, values };
            let complete = aggregation.put(place, part)? == Put::Complete;
            ledger.sessions.consume(identity);
            ledger.steps.give_back(identity);
            if let Some(take) = record {
                take(ledger.version);
            }
            let (version, global_step) = (ledger.version, ledger.steps.global_step());
            let pushed = Pushed { duplicate: false, stale: false, version, global_step, staleness: 0 };
            if !complete {
                return Ok(pushed);
            }
            pushed
        };
        let parts = aggregation.take();
        let (resolved, values) = match &parts[..] {
            // One part is its own mean.
            [part] => (Arc::clone(&part.resolved), None),
            parts => {
                let (resolved, values) = mean(parts);
                (Arc::new(resolved), Some(values))
            }
        };
        let alone = self.step.write();
        if self.has_company.load(Ordering::Relaxed) {
            self.previous.lock().keep(pushed.version, &resolved, &self.restless.read());
        }
        let pushed = {
            let mut ledger = self.ledger.lock();
            parts.iter().for_each(|part| ledger.sessions.record(&part.batch, part.batches));
            ledger.version += 1;
            ledger.steps.advance_all();
            Pushed { version: ledger.version, global_step: ledger.steps.global_step(), ..pushed }
        };
        match &values {
            Some(values) => self.apply(pushed.version, &resolved, values.as_slice()),
            None => self.apply(pushed.version, &resolved, push.gradients),
        }
        self.cut_if_awaited(pushed.version, &aggregation);
        drop(alone);
        Ok(pushed)
    }

    fn apply<G: Gradients + ?Sized>(&self, version: u64, resolved: &Resolved, gradients: &G) {
        let (mut begin, mut scratch) = (0, Scratch::default());
        for slice in &resolved.whole {
            slice.apply_whole(version, gradients, begin);
            begin += slice.len();
        }
        for (_, slice, rows) in resolved.rows() {
            slice.apply_rows(version, rows, gradients, begin, &mut scratch);
            begin += rows.len() * slice.width;
        }
        // Of tables whose rule moves all rows at each step, the parts that this batch names no row of.
        for (number, slice) in self.restless.read().iter() {
            if !resolved.selection.rows.iter().any(|(named, _)| named == number) {
                slice.apply_rows(version, &[], gradients, begin, &mut scratch);
            }
        }
        self.tables.apply(self.moment(version), resolved, gradients, begin, &mut scratch);
    }

    /// The answer to a push that changes nothing: it had been applied before, or somebody else was faster.
    fn duplicate(&self, identity: &Identity, pulled_version: u64, synchronous: bool) -> Pushed {
        let mut ledger = self.ledger.lock();
        let stale = synchronous && !ledger.sessions.used(identity) && ledger.version > pulled_version;
        // A batch that another session applied needs no step of this one.
        self.use_up(&mut ledger, identity);
        let (version, global_step) = (ledger.version, ledger.steps.global_step());
        Pushed {
            duplicate: true,
            stale,
            version,
            global_step,
            staleness: version.saturating_sub(pulled_version),
        }
    }

    /// Uses up a sequence number, and takes its ticket back.
    pub(super) fn use_up(&self, ledger: &mut Ledger, identity: &Identity) {
        let (held, fresh) = (ledger.steps.give_back(identity), ledger.sessions.consume(identity));
        if held || fresh {
            let Identity { task, session, seq, .. } = *identity;
            self.note(ledger.version, &Change::Use { task, session, seq });
        }
    }

    /// Draws up the record of a push, before anybody waits for it.
    fn draw_up<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        contribution: Option<Contribution>,
        resolved: &Resolved,
    ) -> Option<Take> {
        let Identity { task, session, seq, .. } = *identity;
        let journal = self.journal.read();
        Some(journal.as_ref()?.draw_up(&Change::Push(PushRecord {
            task,
            session,
            seq,
            batch: push.batch,
            batches: push.batches,
            pulled_version: push.pulled_version,
            contribution,
            secs: self.clock(),
            selection: &resolved.selection,
            gradients: push.gradients.written(),
        })))
    }

    fn check_gradients<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        resolved: &Resolved,
        gradients: &G,
    ) -> Result<(), Error> {
        let expected: usize = resolved.lengths().map(|(_, length)| length).sum();
        if gradients.values() != expected {
            let given = gradients.values();
            let message = format!("a push of these slices holds {expected} values, given {given}");
            return Err(Error::BadRequest(message));
        }
        let Some(mut position) = gradients.not_finite() else { return Ok(()) };
        self.use_up(&mut self.ledger.lock(), identity);
        let value = gradients.get(position..position + 1, &mut Vec::new())[0].to_string();
        for (slice, length) in resolved.lengths() {
            if position < length {
                return Err(Error::NotFinite { slice, position, value });
            }
            position -= length;
        }
        Ok(())
    }
}
