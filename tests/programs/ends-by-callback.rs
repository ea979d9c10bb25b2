//! A program with the premade models, whose callbacks end the job behind step 100, as the tests start it. With BY=evaluation,
//! they end it by its evaluations.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use trainyard_command::{Program, run_program};
use trainyard_daemon::StopSource;
use trainyard_model::{
    AnyModel, AppliedStep, Callbacks, Canned, Error, Scores, any_with_callbacks,
};
use trainyard_run_config::Job;

/// Variable that says by what the callbacks end the job.
const BY: &str = "BY";

/// Step from which on the callbacks end the job.
const ENOUGH: u64 = 100;

/// Remembers whether the job has trained long enough.
#[derive(Default)]
struct Impatient {
    has_enough: AtomicBool,
}

impl Impatient {
    /// Remembers a step that the callbacks have seen in an event of training, or of an evaluation.
    fn see(&self, step: u64, is_evaluation: bool) {
        let by_evaluation = std::env::var_os(BY).is_some();
        let counts = step >= ENOUGH && is_evaluation == by_evaluation;
        self.has_enough.fetch_or(counts, Ordering::Relaxed);
    }
}

impl Callbacks for Impatient {
    fn after_step(&self, step: &AppliedStep) -> Result<(), Error> {
        self.see(step.global_step, false);
        Ok(())
    }

    fn after_save(&self, global_step: u64, _: &Path) -> Result<(), Error> {
        self.see(global_step, false);
        Ok(())
    }

    fn after_evaluation(&self, global_step: u64, _: &str, _: &Scores) -> Result<(), Error> {
        self.see(global_step, true);
        Ok(())
    }

    fn end(&self) -> Option<String> {
        let has_enough = self.has_enough.load(Ordering::Relaxed);
        has_enough.then(|| "a hundred steps are enough".to_owned())
    }
}

fn build(job: &Job) -> Result<Box<AnyModel>, Error> {
    any_with_callbacks(Canned::from_job(job)?, Box::new(Impatient::default()))
}

fn main() -> ExitCode {
    run_program(&Program::this(), &build, &StopSource::Signals)
        .code
        .into()
}
