//! Pushes: each is an update of its own, or a micro-batch of a synchronous step.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Ledger, Store, check_worker};
use crate::aggregation::{MicroBatchGradients, Put, mean};
use crate::guard::find;
use crate::selection::Resolved;
use crate::sessions::Admission;
use crate::slice::Scratch;
use crate::{
    AppendRecord, Change, Error, Fault, Found, Gradients, Guard, Identity, MicroBatch, Nonfinite,
    Push, PushRecord, Pushed, Rejection, Selection, Update, zero_nonfinite,
};

impl Store {
    /// Applies the gradients of one step: all of them once, or none. Under synchronous updates they wait for the other
    /// micro-batches of their step.
    ///
    /// # Errors
    /// Refused because of the term, session, sequence number or ticket; slices, rows or lengths do not fit; values are
    /// not finite, and the job halts on them. In the last case the sequence number is used up, so that the push is not
    /// repeated.
    pub fn push<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
    ) -> Result<Pushed, Error> {
        let (counts_steps, update, guard) = {
            let control = self.control.read();
            check_worker(&control, identity)?;
            (control.counts_steps, control.update, control.guard)
        };
        let micro_batch = match (update, push.micro_batch) {
            (Update::Sync, None) => {
                return Err(Error::BadRequest(
                    "a synchronous push must name its lane, given none".to_owned(),
                ));
            }
            (Update::Sync, micro_batch) => micro_batch,
            _ => None,
        };
        let _shared = self.cut.read();
        let pending_pulls = self.pending_pulls(identity.task);
        let mut pending_pulls = pending_pulls.lock();
        if self.ledger.lock().sessions.admit(identity, &push.batch)? == Admission::Duplicate {
            return Ok(self.duplicate(identity, push.pulled_version, micro_batch.is_some()));
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::NotReady("it is about to end"));
        }
        let pushed = match push.rejected {
            Some(rejection) => self.reject(identity, push, micro_batch, rejection)?,
            None => {
                let resolved = match &push.selection {
                    Some(selection) => Arc::new(self.resolve(selection)?),
                    None => pending_pulls
                        .recall(identity)
                        .ok_or(Error::Forgotten { seq: identity.seq })?,
                };
                check_length(&resolved, push.gradients)?;
                let kept = micro_batch.is_some_and(|place| place.lanes > 1);
                self.check_push(
                    &resolved,
                    if kept {
                        push.gradients.values() as u64 * 4
                    } else {
                        0
                    },
                )?;
                match find(&guard, push.gradients) {
                    None => self.take_in(identity, push, micro_batch, resolved, counts_steps)?,
                    Some(Found {
                        fault: Fault::Nonfinite,
                        ..
                    }) if guard.nonfinite == Nonfinite::Zero => {
                        let mut values = push.gradients.copy();
                        zero_nonfinite(&mut values);
                        let gradients = values.as_slice();
                        let Push {
                            batch,
                            batches,
                            pulled_version,
                            ..
                        } = *push;
                        let selection = push.selection.clone();
                        let rejected = None;
                        let push = Push {
                            batch,
                            batches,
                            pulled_version,
                            micro_batch,
                            selection,
                            gradients,
                            rejected,
                        };
                        match find(&guard, gradients) {
                            None => {
                                self.take_in(identity, &push, micro_batch, resolved, counts_steps)?
                            }
                            Some(found) => {
                                self.refuse(identity, &push, micro_batch, &resolved, guard, found)?
                            }
                        }
                    }
                    Some(found) => {
                        self.refuse(identity, push, micro_batch, &resolved, guard, found)?
                    }
                }
            }
        };
        pending_pulls.forget(identity);
        Ok(pushed)
    }

    /// Applies a push whose values have passed the guard, or adds it to its synchronous step.
    fn take_in<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        micro_batch: Option<MicroBatch>,
        resolved: Arc<Resolved>,
        counts_steps: bool,
    ) -> Result<Pushed, Error> {
        match micro_batch {
            Some(place) => self.contribute(identity, push, place, resolved),
            None => self.update(identity, push, &resolved, counts_steps),
        }
    }

    /// Handles a push that violates the guard, as the job requires.
    fn refuse<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        micro_batch: Option<MicroBatch>,
        resolved: &Resolved,
        guard: Guard,
        found: Found,
    ) -> Result<Pushed, Error> {
        let rejection = place(resolved, found);
        if found.fault == Fault::Nonfinite && guard.nonfinite == Nonfinite::Halt {
            self.use_up(&mut self.ledger.lock(), identity);
            let variables = Arc::clone(&self.variables.read());
            let name = |variable: usize| variables.get(variable).map(|spec| spec.name.as_str());
            let task = identity.task;
            let batch = push.batch;
            let what = rejection.describe(name);
            return Err(Error::NotFinite { task, batch, what });
        }
        self.reject(identity, push, micro_batch, rejection)
    }

    /// Finishes a batch whose values were rejected, here or by its worker: it counts as done and changes nothing. A
    /// micro-batch of a synchronous step counts as zeros, so that no worker waits for it.
    fn reject<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        micro_batch: Option<MicroBatch>,
        rejection: Rejection,
    ) -> Result<Pushed, Error> {
        let Push {
            batch,
            batches,
            pulled_version,
            ..
        } = *push;
        let (gradients, rejected): (&[f32], _) = (&[], Some(rejection));
        let selection = Some(Arc::<Selection>::default());
        let empty = Push {
            batch,
            batches,
            pulled_version,
            micro_batch,
            selection,
            gradients,
            rejected,
        };
        if let Some(place) = micro_batch {
            return self.contribute(identity, &empty, place, Arc::default());
        }
        let record = self.prepare_record(identity, &empty, None, &Resolved::default());
        let mut ledger = self.ledger.lock();
        if ledger.sessions.admit(identity, &batch)? == Admission::Duplicate {
            drop(ledger);
            return Ok(self.duplicate(identity, pulled_version, false));
        }
        ledger.sessions.consume(identity);
        ledger.sessions.reject(identity, batch, rejection);
        ledger.sessions.record(&batch, batches);
        // A rejected push has a version of its own, so that a checkpoint without it is known to lack it.
        ledger.version += 1;
        ledger.steps.give_back(identity);
        if let Some(take) = record {
            take(ledger.version);
        }
        let version = ledger.version;
        let global_step = ledger.steps.global_step();
        let staleness = (version - 1).saturating_sub(pulled_version);
        Ok(Pushed {
            duplicate: false,
            stale: false,
            version,
            global_step,
            staleness,
            rejected,
        })
    }

    /// Applies a push that is an update of its own.
    fn update<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        resolved: &Resolved,
        counts_steps: bool,
    ) -> Result<Pushed, Error> {
        let record = self.prepare_record(identity, push, None, resolved);
        let pushed = {
            let mut ledger = self.ledger.lock();
            // Since the first check, the session may have been closed, and the batch applied by another task.
            if ledger.sessions.admit(identity, &push.batch)? == Admission::Duplicate {
                drop(ledger);
                return Ok(self.duplicate(identity, push.pulled_version, false));
            }
            if counts_steps && !ledger.steps.holds(identity) {
                return Err(Error::NoTicket {
                    task: identity.task,
                    seq: identity.seq,
                });
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
            let version = ledger.version;
            Pushed {
                duplicate: false,
                stale: false,
                version,
                global_step,
                staleness,
                rejected: None,
            }
        };
        self.apply(pushed.version, resolved, push.gradients);
        if counts_steps {
            // The clock advances only now, so that tasks which it allows to continue read the changes of this step.
            self.ledger.lock().steps.tick(identity.task);
        }
        Ok(pushed)
    }

    /// Adds a micro-batch to a synchronous step, and applies the step if it was the last one.
    fn contribute<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        place: MicroBatch,
        resolved: Arc<Resolved>,
    ) -> Result<Pushed, Error> {
        let record = self.prepare_record(identity, push, Some(place), &resolved);
        // The gradients of a step with one lane are applied without a copy.
        let values = if place.lanes > 1 {
            push.gradients.copy()
        } else {
            Vec::new()
        };
        let mut aggregation = self.aggregation.lock();
        let pushed = {
            let mut ledger = self.ledger.lock();
            let taken = ledger.version > push.pulled_version || aggregation.holds(place.lane);
            if ledger.sessions.admit(identity, &push.batch)? == Admission::Duplicate || taken {
                drop(ledger);
                return Ok(self.duplicate(identity, push.pulled_version, true));
            }
            if ledger.version < push.pulled_version {
                let most = ledger.version;
                let given = push.pulled_version;
                let message =
                    format!("the step of a synchronous push must be at most {most}, given {given}");
                return Err(Error::BadRequest(message));
            }
            let bytes = values.len() as u64 * 4;
            let part = MicroBatchGradients {
                batch: push.batch,
                batches: push.batches,
                resolved,
                values,
            };
            let complete = aggregation.put(place, part)? == Put::Complete;
            self.memory_budget.parts.fetch_add(bytes, Ordering::Relaxed);
            ledger.sessions.consume(identity);
            if let Some(rejection) = push.rejected {
                ledger.sessions.reject(identity, push.batch, rejection);
            }
            ledger.steps.give_back(identity);
            if let Some(take) = record {
                take(ledger.version);
            }
            let version = ledger.version;
            let global_step = ledger.steps.global_step();
            let rejected = push.rejected;
            let pushed = Pushed {
                duplicate: false,
                stale: false,
                version,
                global_step,
                staleness: 0,
                rejected,
            };
            if !complete {
                return Ok(pushed);
            }
            pushed
        };
        let parts = aggregation.take();
        self.memory_budget.parts.store(0, Ordering::Relaxed);
        let (resolved, values) = match &parts[..] {
            // A single micro-batch is its own mean.
            [part] => (Arc::clone(&part.resolved), None),
            parts => {
                let (resolved, values) = mean(parts);
                (Arc::new(resolved), Some(values))
            }
        };
        let alone = self.step.write();
        if self.has_company.load(Ordering::Relaxed) {
            self.previous
                .lock()
                .keep(pushed.version, &resolved, &self.dense_update_tables.read());
        }
        let pushed = {
            let mut ledger = self.ledger.lock();
            parts
                .iter()
                .for_each(|part| ledger.sessions.record(&part.batch, part.batches));
            ledger.version += 1;
            ledger.steps.advance_all();
            Pushed {
                version: ledger.version,
                global_step: ledger.steps.global_step(),
                ..pushed
            }
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
        let mut begin = 0;
        let mut scratch = Scratch::default();
        for slice in &resolved.whole {
            slice.apply_whole(version, gradients, begin);
            begin += slice.len();
        }
        for (_, slice, rows) in resolved.rows() {
            slice.apply_rows(version, rows, gradients, begin, &mut scratch);
            begin += rows.len() * slice.width;
        }
        // A rule may change all rows of a table at each step, so slices that this batch does not name are updated, too.
        for (number, slice) in self.dense_update_tables.read().iter() {
            if !resolved
                .selection
                .rows
                .iter()
                .any(|(named, _)| named == number)
            {
                slice.apply_rows(version, &[], gradients, begin, &mut scratch);
            }
        }
        self.tables.apply(
            self.timestamp(version),
            resolved,
            gradients,
            begin,
            &mut scratch,
        );
    }

    /// Returns the reply to a push that changes nothing: it was applied before, or another task was faster.
    fn duplicate(&self, identity: &Identity, pulled_version: u64, synchronous: bool) -> Pushed {
        let mut ledger = self.ledger.lock();
        let stale =
            synchronous && !ledger.sessions.used(identity) && ledger.version > pulled_version;
        // A batch that another session has applied needs no step of this session.
        self.use_up(&mut ledger, identity);
        let version = ledger.version;
        let global_step = ledger.steps.global_step();
        let rejected = ledger.sessions.rejection(identity);
        let staleness = version.saturating_sub(pulled_version);
        Pushed {
            duplicate: true,
            stale,
            version,
            global_step,
            staleness,
            rejected,
        }
    }

    /// Uses up a sequence number, and takes its ticket back.
    pub(super) fn use_up(&self, ledger: &mut Ledger, identity: &Identity) {
        let held = ledger.steps.give_back(identity);
        let fresh = ledger.sessions.consume(identity);
        if held || fresh {
            let Identity {
                task, session, seq, ..
            } = *identity;
            self.note(ledger.version, &Change::Use { task, session, seq });
        }
    }

    /// Prepares the record of a push before a lock is taken for which others wait.
    fn prepare_record<G: Gradients + ?Sized>(
        &self,
        identity: &Identity,
        push: &Push<'_, G>,
        micro_batch: Option<MicroBatch>,
        resolved: &Resolved,
    ) -> Option<AppendRecord> {
        let Identity {
            task, session, seq, ..
        } = *identity;
        let journal = self.journal.read();
        Some(journal.as_ref()?.prepare_record(&Change::Push(PushRecord {
            task,
            session,
            seq,
            batch: push.batch,
            batches: push.batches,
            pulled_version: push.pulled_version,
            micro_batch,
            secs: self.clock(),
            rejected: push.rejected,
            selection: &resolved.selection,
            gradients: push.gradients.written(),
        })))
    }
}

fn check_length<G: Gradients + ?Sized>(resolved: &Resolved, gradients: &G) -> Result<(), Error> {
    let expected: usize = resolved.lengths().map(|(_, length)| length).sum();
    match gradients.values() {
        given if given == expected => Ok(()),
        given => {
            let message = format!("a push of these slices holds {expected} values, given {given}");
            Err(Error::BadRequest(message))
        }
    }
}

/// Finds the variable that a value belongs to.
fn place(resolved: &Resolved, found: Found) -> Rejection {
    let Found {
        fault,
        mut position,
        value,
    } = found;
    let mut named = resolved
        .variables()
        .zip(resolved.lengths())
        .filter(|_| fault != Fault::Norm);
    let variable = named.find_map(|(variable, (_, length))| {
        if position < length {
            Some(variable as u32)
        } else {
            position -= length;
            None
        }
    });
    Rejection {
        fault,
        variable,
        position: position as u64,
        bits: value.to_bits(),
    }
}
