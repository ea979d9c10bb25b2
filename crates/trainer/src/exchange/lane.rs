//! A lane that a task computes: its input, and its next batch.

use trainyard_parameter_store::MicroBatch;

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
    /// Least version of a batch that is of use.
    useful: u64,
    /// Version at which the session was opened.
    opened: u64,
}

/// A batch, and its synchronous step.
pub(super) struct LaneBatch {
    pub(super) version: u64,
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
        let opened = session.opened.version;
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

    /// Drops the batches of steps below `version`.
    pub(super) fn skip_to(&mut self, version: u64) {
        self.useful = self.useful.max(version);
        let useful = self.useful;
        if self.next.as_ref().is_some_and(|next| next.version < useful) {
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
                version: self.source.version_of(step, self.opened),
                micro_batch,
                batch,
            });
        }
    }
}
