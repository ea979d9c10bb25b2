//! The progress of a run: a line of the terminal, or steps for the console that has been taken.
#![expect(
    clippy::disallowed_types,
    reason = "the rate on the terminal is that of the wall clock"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use trainyard_daemon::{ConsoleStep, taken_console};
use trainyard_trainer::OnStep;

/// Time between two redraws of the line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Display of the progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// A line on the terminal.
    Line,
    /// Steps for the console that has been taken.
    Console,
    /// Nothing: log lines say what happens.
    Nothing,
}

/// Returns a function that passes steps to the console that has been taken.
pub(crate) fn console_steps(max_steps: Option<u64>) -> OnStep {
    let console = taken_console();
    Arc::new(move |step: &trainyard_trainer::Progress| {
        if let Some(console) = &console {
            console.step(ConsoleStep {
                global_step: step.global_step,
                max_steps,
                loss: step.loss,
            });
        }
    })
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
