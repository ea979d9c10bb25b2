//! Pushes: each is an update of its own, or a micro-batch of a synchronous step.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Ledger, StepCount, Store, check_worker};
use crate::aggregation::{MicroBatchGradients, Put, mean};
use crate::gradients::GradientTail;
use crate::guard::find;
use crate::lru::UpdatePoint;
use crate::selection::Resolved;
use crate::sessions::Admission;
use crate::slice::Scratch;
use crate::{
    AppendRecord, Change, Error, Fault, Found, Gradients, Guard, Identity, MicroBatch, Nonfinite,
    Push, PushHeader, PushRecord, Pushed, Rejection, Selection, StepId, Update, zero_nonfinite,
};
use trainyard_variable::{MOVING_AVERAGE, StepNumber};

impl Store {
    /// Applies the gradients of one step: all of them once, or none. Under synchronous updates they wait for the other
    /// micro-batches of their step.
    ///
    /// # Errors
    /// Refused because of the term, session, sequence number or ticket; slices, rows or lengths do not fit; values are
    /// not finite, and the job halts on them. In the last case the sequence number is used up, so that the push is not
    /// repeated.
    pub fn push<G: Gradients>(&self, identity: &Identity, push: &Push<G>) -> Result<Pushed, Error> {
        let (step_count, update, guard) = {
            let control = self.control.read();
            check_worker(&control, identity)?;
            (control.step_count, control.update, control.guard)
        };
        let micro_batch = match (update, push.header.micro_batch) {
            (Update::Sync, None) => {
                return Err(Error::BadRequest(
                    "a synchronous push must name its lane, given none".to_owned(),
                ));
            }
            (Update::Sync, micro_batch) => micro_batch,
            _ => None,
        };
        let push = Push {
            header: PushHeader {
                micro_batch,
                ..push.header
            },
            selection: push.selection.clone(),
            gradients: &push.gradients,
        };
        let step = identity.step(push.header.seq);
        let _shared = self.cut.read();
        let pending_pulls = self.pending_pulls(step.task);
        let mut pending_pulls = pending_pulls.lock();
        if self
            .ledger
            .lock()
            .sessions
            .admit(step, &push.header.batch)?
            == Admission::Duplicate
        {
            return Ok(self.duplicate(step, &push.header));
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::NotReady("it is about to end"));
        }
        let pushed = match push.header.rejected {
            Some(rejection) => self.reject(step, &push.header, rejection)?,
            None => {
                let resolved = match &push.selection {
                    Some(selection) => Arc::new(self.resolve(selection)?),
                    None => pending_pulls
                        .recall(step)
                        .ok_or(Error::Forgotten { seq: step.seq })?,
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
                let averages = self.averages(&guard, &resolved);
                match find(&guard, push.gradients, &averages) {
                    None => self.take_in(step, &push, resolved, step_count)?,
                    Some(Found {
                        fault: Fault::Nonfinite,
                        ..
                    }) if guard.nonfinite == Nonfinite::Zero => {
                        let mut values = push.gradients.copy();
                        zero_nonfinite(&mut values);
                        let push = Push {
                            header: push.header,
                            selection: push.selection,
                            gradients: values.as_slice(),
                        };
                        match find(&guard, push.gradients, &averages) {
                            None => self.take_in(step, &push, resolved, step_count)?,
                            Some(found) => {
                                self.refuse(step, &push.header, guard, place(&resolved, found))?
                            }
                        }
                    }
                    Some(found) => {
                        self.refuse(step, &push.header, guard, place(&resolved, found))?
                    }
                }
            }
        };
        pending_pulls.forget(step);
        Ok(pushed)
    }

    /// Returns the places of the values of moving averages, if the guard has bounds.
    fn averages(&self, guard: &Guard, resolved: &Resolved) -> Vec<Range<usize>> {
        if !guard.has_bounds() {
            return Vec::new();
        }
        let variables = Arc::clone(&self.variables.read());
        let mut begin = 0;
        let named = resolved.variables().zip(resolved.lengths());
        let places = named.filter_map(|(variable, (_, length))| {
            let place = begin..begin + length;
            begin = place.end;
            (variables[variable].optimizer_group == MOVING_AVERAGE).then_some(place)
        });
        places.collect()
    }

    /// Applies a push whose values have passed the guard, or adds it to its synchronous step.
    fn take_in<G: Gradients>(
        &self,
        step: StepId,
        push: &Push<G>,
        resolved: Arc<Resolved>,
        step_count: StepCount,
    ) -> Result<Pushed, Error> {
        match push.header.micro_batch {
            Some(place) => self.contribute(step, push, place, resolved),
            None => self.update(step, push, &resolved, step_count),
        }
    }

    /// Handles a push that violates the guard, as the job requires.
    fn refuse(
        &self,
        step: StepId,
        header: &PushHeader,
        guard: Guard,
        rejection: Rejection,
    ) -> Result<Pushed, Error> {
        if rejection.fault == Fault::Nonfinite && guard.nonfinite == Nonfinite::Halt {
            self.use_up(&mut self.ledger.lock(), step);
            let variables = Arc::clone(&self.variables.read());
            let name = |variable: usize| variables.get(variable).map(|spec| spec.name.as_str());
            return Err(Error::NotFinite {
                task: step.task,
                batch: header.batch,
                what: rejection.describe(name),
            });
        }
        self.reject(step, header, rejection)
    }

    /// Finishes a batch whose values were rejected, here or by its worker: it counts as done and changes nothing. A
    /// micro-batch of a synchronous step counts as zeros, so that no worker waits for it.
    fn reject(
        &self,
        step: StepId,
        header: &PushHeader,
        rejection: Rejection,
    ) -> Result<Pushed, Error> {
        let empty = Push {
            header: PushHeader {
                rejected: Some(rejection),
                ..*header
            },
            selection: Some(Arc::<Selection>::default()),
            gradients: &[][..],
        };
        let header = &empty.header;
        if let Some(place) = header.micro_batch {
            return self.contribute(step, &empty, place, Arc::default());
        }
        let record = self.prepare_record(step, &empty, &Resolved::default());
        let mut ledger = self.ledger.lock();
        if ledger.sessions.admit(step, &header.batch)? == Admission::Duplicate {
            drop(ledger);
            return Ok(self.duplicate(step, header));
        }
        ledger.sessions.consume(step);
        ledger.sessions.reject(step, header.batch, rejection);
        ledger.sessions.record(&header.batch, header.batches);
        // A rejected push has a version of its own, so that a checkpoint without it is known to lack it.
        ledger.version += 1;
        ledger.steps.give_back(step);
        if let Some(take) = record {
            take(ledger.version);
        }
        Ok(Pushed {
            duplicate: false,
            stale: false,
            version: ledger.version,
            global_step: ledger.steps.global_step(),
            staleness: (ledger.version - 1).saturating_sub(header.pulled_version),
            rejected: header.rejected,
        })
    }

    /// Applies a push that is an update of its own.
    fn update<G: Gradients>(
        &self,
        step: StepId,
        push: &Push<G>,
        resolved: &Resolved,
        step_count: StepCount,
    ) -> Result<Pushed, Error> {
        let record = self.prepare_record(step, push, resolved);
        let pushed = {
            let mut ledger = self.ledger.lock();
            // Since the first check, the session may have been closed, and the batch applied by another task.
            if ledger.sessions.admit(step, &push.header.batch)? == Admission::Duplicate {
                drop(ledger);
                return Ok(self.duplicate(step, &push.header));
            }
            if step_count == StepCount::Here && !ledger.steps.holds(step) {
                return Err(Error::NoTicket {
                    task: step.task,
                    seq: step.seq,
                });
            }
            ledger.sessions.consume(step);
            ledger
                .sessions
                .record(&push.header.batch, push.header.batches);
            ledger.version += 1;
            if step_count == StepCount::Here {
                ledger.steps.advance(step);
            }
            if let Some(take) = record {
                take(ledger.version);
            }
            let staleness = (ledger.version - 1).saturating_sub(push.header.pulled_version);
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
        self.apply(
            pushed.version,
            push.header.optimizer_step,
            resolved,
            &push.gradients,
        );
        if step_count == StepCount::Here {
            // The clock advances only now, so that tasks which it allows to continue read the changes of this step.
            self.ledger.lock().steps.tick(step.task);
        }
        Ok(pushed)
    }

    /// Adds a micro-batch to a synchronous step, and applies the step if it was the last one.
    fn contribute<G: Gradients>(
        &self,
        step: StepId,
        push: &Push<G>,
        place: MicroBatch,
        resolved: Arc<Resolved>,
    ) -> Result<Pushed, Error> {
        let record = self.prepare_record(step, push, &resolved);
        // The gradients of a step with one lane are applied without a copy.
        let values = if place.lanes > 1 {
            push.gradients.copy()
        } else {
            Vec::new()
        };
        let mut aggregation = self.aggregation.lock();
        let pushed = {
            let mut ledger = self.ledger.lock();
            let taken =
                ledger.version > push.header.pulled_version || aggregation.holds(place.lane);
            if ledger.sessions.admit(step, &push.header.batch)? == Admission::Duplicate || taken {
                drop(ledger);
                return Ok(self.duplicate(step, &push.header));
            }
            if ledger.version < push.header.pulled_version {
                let most = ledger.version;
                let given = push.header.pulled_version;
                let message =
                    format!("the step of a synchronous push must be at most {most}, given {given}");
                return Err(Error::BadRequest(message));
            }
            let bytes = values.len() as u64 * 4;
            let part = MicroBatchGradients {
                batch: push.header.batch,
                batches: push.header.batches,
                resolved,
                values,
            };
            let complete = aggregation.put(place, part)? == Put::Complete;
            self.memory_budget.parts.fetch_add(bytes, Ordering::Relaxed);
            ledger.sessions.consume(step);
            if let Some(rejection) = push.header.rejected {
                ledger.sessions.reject(step, push.header.batch, rejection);
            }
            ledger.steps.give_back(step);
            if let Some(take) = record {
                take(ledger.version);
            }
            let version = ledger.version;
            let global_step = ledger.steps.global_step();
            let rejected = push.header.rejected;
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
            Some(values) => self.apply(pushed.version, None, &resolved, &values.as_slice()),
            None => self.apply(pushed.version, None, &resolved, &push.gradients),
        }
        self.cut_if_awaited(StepNumber::new(pushed.version), &aggregation);
        drop(alone);
        Ok(pushed)
    }

    /// Applies the update after which the store has this version. `optimizer_step` is the step that the update rules see,
    /// if it is not the version.
    fn apply<G: Gradients>(
        &self,
        version: u64,
        optimizer_step: Option<u64>,
        resolved: &Resolved,
        gradients: &G,
    ) {
        let step = optimizer_step.unwrap_or(version);
        let point = UpdatePoint {
            now: self.timestamp(version),
            optimizer_step,
        };
        let mut begin = 0;
        let mut scratch = Scratch::default();
        for slice in &resolved.whole {
            slice.apply_whole(step, gradients, begin);
            begin += slice.len();
        }
        for (_, slice, rows) in resolved.rows() {
            slice.apply_rows(step, rows, GradientTail { gradients, begin }, &mut scratch);
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
                slice.apply_rows(step, &[], GradientTail { gradients, begin }, &mut scratch);
            }
        }
        self.tables.apply(
            point,
            resolved,
            GradientTail { gradients, begin },
            &mut scratch,
        );
    }

    /// Returns the reply to a push that changes nothing: it was applied before, or another task was faster.
    fn duplicate(&self, step: StepId, header: &PushHeader) -> Pushed {
        let pulled_version = header.pulled_version;
        let mut ledger = self.ledger.lock();
        let stale = header.micro_batch.is_some()
            && !ledger.sessions.used(step)
            && ledger.version > pulled_version;
        // A batch that another session has applied needs no step of this session.
        self.use_up(&mut ledger, step);
        let version = ledger.version;
        let global_step = ledger.steps.global_step();
        let rejected = ledger.sessions.rejection(step);
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
    pub(super) fn use_up(&self, ledger: &mut Ledger, step: StepId) {
        let held = ledger.steps.give_back(step);
        let fresh = ledger.sessions.consume(step);
        if held || fresh {
            self.note(ledger.version, &Change::Use(step));
        }
    }

    /// Prepares the record of a push before a lock is taken for which others wait.
    fn prepare_record<G: Gradients>(
        &self,
        step: StepId,
        push: &Push<G>,
        resolved: &Resolved,
    ) -> Option<AppendRecord> {
        let journal = self.journal.read();
        let journal = journal.as_ref()?;
        let record = PushRecord {
            task: step.task,
            session: step.session,
            secs: self.clock(),
            push: Push {
                header: push.header,
                selection: Some(Arc::clone(&resolved.selection)),
                gradients: push.gradients.written(),
            },
        };
        Some(journal.prepare_record(&Change::Push(record)))
    }
}

fn check_length<G: Gradients>(resolved: &Resolved, gradients: &G) -> Result<(), Error> {
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
