//! The outcome of a training loop.

use std::path::Path;

use trainyard_cluster_client::Error;
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{JobPhase, JobState};
use trainyard_protocol::Reason;

/// The outcome of a training loop, over all its sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Steps applied.
    pub steps: u64,
    /// Examples in those steps.
    pub examples: u64,
    /// Loss of the latest step.
    pub loss: Option<f64>,
    /// Seconds from the start of the process to its first applied step.
    pub first_step_seconds: Option<f64>,
    /// Seconds from the first pull to the latest push.
    pub train_seconds: f64,
}

/// Progress of training, after a step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Steps applied by all tasks.
    pub global_step: u64,
    /// Steps applied by this task.
    pub steps: u64,
    /// Examples in the steps of this task.
    pub examples: u64,
    /// Loss of the step.
    pub loss: f64,
}

/// Returns the error of a task whose job has failed. `model_dir` gives the reason, if this task can read it.
pub(crate) fn job_failed(task: Task, model_dir: &Path) -> Diagnostic {
    let marker = JobState::read(model_dir).ok().flatten();
    let reason = marker
        .filter(|marker| marker.phase == JobPhase::Failed)
        .map_or_else(
            || "the chief has ended with an error".to_owned(),
            |marker| marker.reason,
        );
    Diagnostic::error(Code::E2010, format!("the job has failed: {reason}")).help(format!(
        "correct the problem that the chief reported, then start the job and {task} again"
    ))
}

/// Turns a failed call into a message for a person.
pub fn into_diagnostic(error: &Error) -> Diagnostic {
    let text = error.to_string();
    match error {
        Error::Deadline(diagnostic) => (**diagnostic).clone(),
        Error::Unreachable { .. } => Diagnostic::error(Code::E2003, text)
            .help("check that the task runs, and that its address is right"),
        Error::Protocol { .. } => Diagnostic::error(Code::E2007, text).help(
            "run the same release on every host, and check whether another task listens at that \
            address",
        ),
        Error::Refused { refusal, .. } => {
            let (code, help) = match refusal.reason {
                Reason::TaskTaken => (
                    Code::E2008,
                    "stop the other process, or give this process another index",
                ),
                Reason::OtherCluster => (
                    Code::E2006,
                    "give every task the same cluster file and model_dir",
                ),
                Reason::OtherLayout => (Code::E2007, "give every task the same job file"),
                Reason::Unproved => (
                    Code::E7003,
                    "start this task with --tls-dir or --token-file, like the other tasks",
                ),
                Reason::NotAllowed => (
                    Code::E7003,
                    "give this task its own certificate or token, not those of \
                        another role or task",
                ),
                Reason::StaleEpoch | Reason::Fenced => (
                    Code::E2009,
                    "another process has taken over the role of this process",
                ),
                Reason::NotFinite => (
                    Code::E5001,
                    "lower the learning rate, or look for extreme values in the data",
                ),
                Reason::Quarantined => (
                    Code::E5002,
                    "check the memory and the data of the host of this task, then \
                        start the job again",
                ),
                Reason::Storage => (Code::E3003, "read the log of that task"),
                Reason::Limit => (
                    Code::E1202,
                    "on the host of that task, raise the limit that the message names (`ulimit -f`, `ulimit -n`, `ulimit -u`; \
                     LimitFSIZE=, LimitNOFILE=, TasksMax= of systemd), or give its user the right",
                ),
                Reason::Unfit => (
                    Code::E3002,
                    "correct train.warm_start, or the files that it names",
                ),
                Reason::NoRoom => (
                    Code::E3009,
                    "raise what bounds the server, as its message says: the memory limit of its container, unit or machine, or \
                     parameter_servers.memory_bytes_max; add parameter servers; or lower rows_max of dynamic features",
                ),
                Reason::TooLarge => (Code::E2007, "use more parameter servers"),
                _ => (Code::E9001, "read the log of that task"),
            };
            Diagnostic::error(code, text).help(help)
        }
    }
}

#[cfg(test)]
mod tests {
    use trainyard_protocol::Refusal;

    use super::*;

    #[test]
    fn each_refusal_has_the_code_of_its_reason_and_a_cure() {
        for (reason, code) in [
            (Reason::TaskTaken, "E2008"),
            (Reason::OtherCluster, "E2006"),
            (Reason::OtherLayout, "E2007"),
            (Reason::TooLarge, "E2007"),
            (Reason::Unproved, "E7003"),
            (Reason::NotAllowed, "E7003"),
            (Reason::StaleEpoch, "E2009"),
            (Reason::Fenced, "E2009"),
            (Reason::NotFinite, "E5001"),
            (Reason::Quarantined, "E5002"),
            (Reason::Storage, "E3003"),
            (Reason::Limit, "E1202"),
            (Reason::Unfit, "E3002"),
            (Reason::NoRoom, "E3009"),
            (Reason::BadRequest, "E9001"),
        ] {
            let refusal = Refusal::new(reason, "no");
            let told = into_diagnostic(&Error::Refused {
                peer: "ps:0".to_owned(),
                refusal,
            });
            assert_eq!(told.code.name, code, "{reason:?}");
            assert!(
                told.message.contains("ps:0") && told.help.is_some(),
                "{}",
                told.render()
            );
        }
    }
}
