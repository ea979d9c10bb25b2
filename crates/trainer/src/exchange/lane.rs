//! A lane that a task computes: its input, and its next batch.

use trainyard_parameter_store::MicroBatch;
use trainyard_variable::StepNumber;

use crate::batch_source::{BatchSource, Prepared};
use crate::failure::Failure;
use crate::session::Session;
use crate::training_task::TrainingTask;

/// A lane that this task computes.
pub(super) struct Lane {
    pub(super) number: u32,
    pub(super) source: BatchSource,
    /// The next batch to compute.
    pub(super) next: Option<LaneBatch>,
    pub(super) is_ended: bool,
    /// Least step of a batch that is of use.
    useful: StepNumber,
    /// Step at which the session was opened.
    opened: StepNumber,
}

/// A batch, and its synchronous step.
pub(super) struct LaneBatch {
    pub(super) step: StepNumber,
    pub(super) micro_batch: MicroBatch,
    pub(super) batch: Prepared,
}

impl Lane {
    /// Opens the input of a lane.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(super) fn open(
        task: TrainingTask<'_>,
        session: &Session,
        number: u32,
    ) -> Result<Self, Failure> {
        let opened = session.opened_step();
        Ok(Self {
            number,
            source: BatchSource::granted(
                task.config,
                task.model,
                session,
                task.coordinator,
                Some(number),
            )?,
            next: None,
            is_ended: false,
            useful: opened,
            opened,
        })
    }

    /// Drops the batches of the steps before this one.
    pub(super) fn skip_to(&mut self, step: StepNumber) {
        self.useful = self.useful.max(step);
        let useful = self.useful;
        if self.next.as_ref().is_some_and(|next| next.step < useful) {
            self.next = None;
        }
    }

    /// Tells the input which batches are no longer needed.
    pub(super) fn skip_input(&self) {
        self.source.skip_to(self.useful, self.opened);
    }

    /// Takes what the input has given: a batch, or its end. A batch without a place in a synchronous step is dropped.
    pub(super) fn receive(&mut self, read: Option<Prepared>) {
        let Some(batch) = read else {
            self.is_ended = true;
            return;
        };
        if let Some((step, micro_batch)) = batch.place {
            self.next = Some(LaneBatch {
                step: self.source.step_number(step, self.opened),
                micro_batch,
                batch,
            });
        }
    }
}
