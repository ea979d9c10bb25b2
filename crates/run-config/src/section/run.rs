//! `[run]`: operation of a run.

use serde::Serialize;
use trainyard_diagnostic::{Bound, Code, Section, section};

/// Seconds between checkpoints if neither steps nor seconds are given.
const SAVE_CHECKPOINTS_SECS: u64 = 600;
/// Most threads of a step, more than any processor has.
const THREADS_MAX: u64 = 1024;
/// Most checkpoints that are kept.
const CHECKPOINTS_MAX: u64 = 1_000_000;

section! {
    /// Operation of a run (`tf.estimator.RunConfig`).
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct RunConfig {
        /// seed of parameter initialization and shuffling
        seed: u64 = integer(0..=u64::MAX).or(0);
        /// seconds between checkpoints; excludes the next key
        save_checkpoints_secs: Option<u64> = integer(1..=u64::MAX).optional("600 if neither is given");
        /// steps between checkpoints. A task that trains alone waits for each checkpoint, so the checkpoints lie at exact
        /// multiples. Several tasks continue to train while the chief requests a checkpoint, so it lies some steps later:
        /// 1003 instead of 1000
        save_checkpoints_steps: Option<u64> = integer(1..=u64::MAX).optional("none");
        /// number of checkpoints to keep; 0 = all. One more stays if the newest checkpoints share a base
        /// ([operations.md](operations.md#incremental-checkpoints))
        keep_checkpoint_max: usize = integer(0..=CHECKPOINTS_MAX).or(5);
        /// keeps one checkpoint in this many hours for good; 10000 or more keeps none
        keep_checkpoint_every_n_hours: f64 = number(Bound::Positive).or(10_000.0);
        /// steps between summaries for [TensorBoard](operations.md#tensorboard); 0 = none
        save_summary_steps: u64 = integer(0..=u64::MAX).or(100);
        /// writes histograms of all variables except dynamic tables at each checkpoint, for TensorBoard
        summary_histograms: bool = flag().or(false);
        /// steps of a task between its log lines; 0 = none
        log_step_count_steps: u64 = integer(0..=u64::MAX).or(100);
        /// maximum wait for the other tasks at start, in seconds
        session_creation_timeout_secs: u64 = integer(1..=u64::MAX).or(7200);
        /// threads of a task that share the work of a step; 0 = the cores that the process may use. The result has the
        /// same bits for any number of threads. `trainyard up` divides the cores among the tasks that it starts. If you
        /// start tasks in another way and they share a host, set a number
        intra_op_parallelism_threads: usize = integer(0..=THREADS_MAX).or(0);
    }
}

pub(crate) fn read(section: Section<'_>) -> Option<RunConfig> {
    let run = RunConfig::read_keys(&section);
    let steps = section.node("save_checkpoints_steps").is_some();
    if steps && section.node("save_checkpoints_secs").is_some() {
        let message = "save_checkpoints_steps and save_checkpoints_secs cannot be both set";
        section.fail(Code::E1006, "save_checkpoints_secs", message);
    }
    section.finish();
    let mut run = run?;
    if run.save_checkpoints_steps.is_none() {
        run.save_checkpoints_secs
            .get_or_insert(SAVE_CHECKPOINTS_SECS);
    }
    Some(run)
}
