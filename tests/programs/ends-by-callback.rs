//! A program with the premade models, whose callbacks end the job behind step 100, as the tests start it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use trainyard_command::{Program, run_program};
use trainyard_daemon::StopSource;
use trainyard_model::{AnyModel, AppliedStep, Callbacks, Canned, Error, any_with_callbacks};
use trainyard_run_config::Job;

/// Step from which on the callbacks end the job.
const ENOUGH: u64 = 100;

/// Remembers whether the job has trained long enough.
#[derive(Default)]
struct Impatient {
    has_enough: AtomicBool,
}

impl Impatient {
    fn see(&self, step: u64) {
        self.has_enough.fetch_or(step >= ENOUGH, Ordering::Relaxed);
    }
}

impl Callbacks for Impatient {
    fn after_step(&self, step: &AppliedStep) -> Result<(), Error> {
        self.see(step.global_step);
        Ok(())
    }

    fn after_save(&self, global_step: u64, _: &Path) -> Result<(), Error> {
        self.see(global_step);
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
