//! Callbacks of a run: code of the user that receives steps, checkpoints and evaluations (`tf.estimator.SessionRunHook`,
//! `tf.estimator.CheckpointSaverListener`).

use std::path::Path;

use crate::{Error, Scores};

/// A training step of this task, applied by the parameter servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AppliedStep {
    /// Global step: the steps of all tasks.
    pub global_step: u64,
    /// Steps of this task since its process started.
    pub task_steps: u64,
    /// Examples in the batch.
    pub examples: u64,
    /// Training loss, before the update.
    pub loss: f64,
}

/// Receives the events of a run. Each process calls its own callbacks: a training task after its steps, the chief after
/// checkpoints, the evaluator after evaluations. A step that a server had applied before, or has refused, is no event.
///
/// The run waits for a callback. An error ends the task.
pub trait Callbacks: Send + Sync + 'static {
    /// Receives a step of this task.
    ///
    /// # Errors
    /// The user's code fails.
    fn after_step(&self, _step: &AppliedStep) -> Result<(), Error> {
        Ok(())
    }

    /// Receives a checkpoint that is committed.
    ///
    /// # Errors
    /// The user's code fails.
    fn after_save(&self, _global_step: u64, _checkpoint: &Path) -> Result<(), Error> {
        Ok(())
    }

    /// Receives the metrics of a checkpoint. `name` is the folder of the results: `eval`, `eval_train`, or `eval_` with
    /// the name of an `[[evaluation]]`.
    ///
    /// # Errors
    /// The user's code fails.
    fn after_evaluation(
        &self,
        _global_step: u64,
        _name: &str,
        _scores: &Scores,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the reason why the callbacks end the job, from then on. The chief asks those of its own process, and an
    /// evaluator asks its own after each checkpoint that it has evaluated, and hands the reason to the chief. The chief ends
    /// the job as early stopping does. It does not ask other tasks. The training tasks of its process ask before each step, and begin none then, so
    /// that a step that no other task shares is the last one. Other tasks of asynchronous training go on until their
    /// next heartbeat.
    fn end(&self) -> Option<String> {
        None
    }
}
