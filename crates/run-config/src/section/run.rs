//! `[run]`: operation of the run.

use trainyard_diagnostic::{Code, Section};

use crate::RunConfig;

/// TensorFlow's default if neither steps nor seconds are given.
const SAVE_CHECKPOINTS_SECS: u64 = 600;
/// Most threads of a step, more than any processor has.
const THREADS_MAX: u64 = 1024;

pub(crate) fn read(section: Option<Section<'_>>) -> Option<RunConfig> {
    let Some(section) = section else {
        return Some(RunConfig {
            seed: 0,
            save_summary_steps: 100,
            summary_histograms: false,
            save_checkpoints_steps: None,
            save_checkpoints_secs: Some(SAVE_CHECKPOINTS_SECS),
            keep_checkpoint_max: 5,
            keep_checkpoint_every_n_hours: 10_000.0,
            log_step_count_steps: 100,
            session_creation_timeout_secs: 7200,
            intra_op_parallelism_threads: 0,
        });
    };
    let steps = section.integer("save_checkpoints_steps", 1..=u64::MAX);
    let secs = section.integer("save_checkpoints_secs", 1..=u64::MAX);
    if section.node("save_checkpoints_steps").is_some()
        && section.node("save_checkpoints_secs").is_some()
    {
        let message = "save_checkpoints_steps and save_checkpoints_secs cannot be both set";
        section.fail(Code::E1006, "save_checkpoints_secs", message);
    }
    let hours = section
        .number("keep_checkpoint_every_n_hours")
        .unwrap_or(10_000.0);
    if hours <= 0.0 {
        let message = format!("keep_checkpoint_every_n_hours must be > 0, given {hours}");
        section.fail(Code::E1002, "keep_checkpoint_every_n_hours", message);
    }
    let run = RunConfig {
        seed: section.integer("seed", 0..=u64::MAX).unwrap_or(0),
        save_summary_steps: section
            .integer("save_summary_steps", 0..=u64::MAX)
            .unwrap_or(100),
        summary_histograms: section.flag("summary_histograms").unwrap_or(false),
        save_checkpoints_steps: steps,
        save_checkpoints_secs: secs.or(steps.is_none().then_some(SAVE_CHECKPOINTS_SECS)),
        keep_checkpoint_max: section
            .integer("keep_checkpoint_max", 0..=1_000_000)
            .unwrap_or(5) as usize,
        keep_checkpoint_every_n_hours: hours,
        log_step_count_steps: section
            .integer("log_step_count_steps", 0..=u64::MAX)
            .unwrap_or(100),
        session_creation_timeout_secs: section
            .integer("session_creation_timeout_secs", 1..=u64::MAX)
            .unwrap_or(7200),
        intra_op_parallelism_threads: section
            .integer("intra_op_parallelism_threads", 0..=THREADS_MAX)
            .unwrap_or(0) as usize,
    };
    section.finish();
    Some(run)
}
