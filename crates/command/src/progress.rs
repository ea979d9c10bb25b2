//! The progress line of a terminal.
#![expect(
    clippy::disallowed_types,
    reason = "the rate on the terminal is that of the wall clock"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use trainyard_trainer::OnStep;

/// Time between two redraws of the line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Display of the progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// A line on the terminal.
    Line,
    /// Nothing: log lines say what happens.
    Nothing,
}

/// Returns a function that redraws the line after a step, and the line itself, which the caller clears at the end.
pub(crate) fn progress_line(max_steps: Option<u64>) -> (OnStep, ProgressBar) {
    let (bar, template) = match max_steps {
        Some(steps) => (
            ProgressBar::new(steps),
            "step {pos} of {len}  {wide_bar}  {msg}  {eta} left",
        ),
        None => (ProgressBar::no_length(), "{spinner} step {pos}  {msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let line = bar.clone();
    let state = std::sync::Mutex::new((Instant::now(), 0_u64));
    let draw = move |step: &trainyard_trainer::Progress| {
        let Ok(mut state) = state.lock() else { return };
        let (since, steps) = *state;
        if since.elapsed() >= REDRAW_INTERVAL {
            let rate = (step.steps - steps) as f64 / since.elapsed().as_secs_f64();
            *state = (Instant::now(), step.steps);
            line.set_position(step.global_step);
            line.set_message(format!("{rate:.0} steps/s  loss {:.4}", step.loss));
        }
    };
    (Arc::new(draw), bar)
}
