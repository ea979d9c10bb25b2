//! Crash points of whole daemons: a chief or a server is killed at its n-th file operation, and the job ends exact.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use trainyard_cluster_spec::{LocalCounts, Role, Task};

use super::trace::{Call, arguments, parse};
use super::{CrashPoints, Survived};
use crate::{Account, Ledger, Supervisor};

/// Longest time for a job of a few seconds.
const LIMIT: Duration = Duration::from_secs(300);
/// What only the saving of checkpoints, markers and logs on disk does; the other calls are made for a hundred things.
const NAMES: [&str; 10] = [
    "linkat",
    "mkdir",
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "rename",
    "unlink",
    "unlinkat",
    "rmdir",
];
const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};

impl CrashPoints {
    /// Kills a chief and a server, each at each file operation of a short counting job with several checkpoints, lets a
    /// supervisor start them again, and asks whether each update counted once.
    ///
    /// # Errors
    /// The job cannot be run or traced.
    pub fn of_daemons(&self, told: &mut dyn FnMut(&str)) -> Result<Survived, String> {
        let mut survived = Survived::default();
        for task in [
            CHIEF,
            Task {
                role: Role::Ps,
                index: 1,
            },
        ] {
            let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
            let output = scratch.path().join("calls");
            self.job(scratch.path(), task, arguments(&output, None))?;
            let text = std::fs::read(&output).map_err(|error| error.to_string())?;
            // Each thread counts for itself: the n-th call of any of them is one point.
            let all: BTreeSet<Call> = parse(&String::from_utf8_lossy(&text), "/model")
                .into_iter()
                .collect();
            let all: Vec<Call> = all
                .into_iter()
                .filter(|call| NAMES.contains(&call.name.as_str()))
                .collect();
            told(&format!("{task}: {} points", all.len()));
            survived.points += all.len();
            let chosen = |call: &Call| {
                self.only
                    .as_ref()
                    .is_none_or(|only| format!("{task} at {call}").contains(only.as_str()))
            };
            let wanted = self.wanted(all.len());
            let before = survived.tried;
            for call in self.points(all).into_iter().filter(chosen) {
                if survived.tried - before >= wanted {
                    break;
                }
                let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
                let outcome = self.job(
                    scratch.path(),
                    task,
                    arguments(Path::new("/dev/null"), Some(&call)),
                );
                let outcome = outcome.map(|killed| {
                    if killed {
                        "killed, exact"
                    } else {
                        "not reached, exact"
                    }
                });
                told(&format!("{task} at {call}: {outcome:?}"));
                // Threads share their work by chance: one that did not come as far this time was not tried, and another
                // point is.
                survived.tried += usize::from(outcome != Ok("not reached, exact"));
                if let Err(problem) = outcome {
                    let kept = scratch.keep();
                    survived.failures.push(format!(
                        "{task} at {call}: {problem}, kept in {}",
                        kept.display()
                    ));
                }
            }
        }
        Ok(survived)
    }

    /// Runs the job with one task under a tracer; returns whether that one was killed.
    fn job(&self, folder: &Path, traced: Task, tracer: Vec<String>) -> Result<bool, String> {
        let ledger = Ledger {
            rows: 1000,
            epochs: 8,
            batch_size: 16,
            lanes: 1,
            servers: 2,
        };
        // By steps, so that a slow run comes to the same points as a fast one: twice in the life of the job, and at its end.
        let job = ledger.write_saving(folder, "save_checkpoints_steps = 240");
        let counts = LocalCounts {
            ps: 2,
            workers: 0,
            evaluators: 0,
        };
        let settings = ["run.keep_checkpoint_max=2"].map(str::to_owned);
        let mut tasks = Supervisor::new(&self.program, folder, &job, counts, &settings);
        let wrapper = std::iter::once("strace".to_owned()).chain(tracer).collect();
        tasks.wrap_next(traced, wrapper);
        tasks.start_all();
        let before = tasks.starts();
        if !tasks.wait_for_end_of(CHIEF, LIMIT) {
            return Err(format!(
                "the job did not end: {:?}",
                tasks.failed_for_good()
            ));
        }
        let killed = tasks.starts() > before;
        let late = tasks.finish(LIMIT);
        if !late.is_empty() {
            return Err(format!("did not end by themselves: {late:?}"));
        }
        let account = Account::of_model_dir(&folder.join("model"), &ledger)?;
        if account.is_exact() {
            Ok(killed)
        } else {
            Err(account.to_string())
        }
    }
}
