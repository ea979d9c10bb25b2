//! The start of a chief whose job is over: the model directory says so, and no server need be reachable.

use std::time::Duration;

use tracing::{debug, info};
use trainyard_checkpoint::{Checkpoint, list, misfit};
use trainyard_cluster_client::JobEnd;
use trainyard_diagnostic::Diagnostic;
use trainyard_model_dir::{FileState, JobState as Marker};
use trainyard_run_config::Job;
use trainyard_trainer::JobState;

use super::{Chief, Run};

/// Longest wait for the servers to receive that the job is over. Usually no server runs any more.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why the job is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// `train.max_steps` have been applied.
    Steps(u64),
    /// `input.train.epochs` passes over the data have been applied.
    Epochs(u64),
    /// Early stopping has ended the job, by the rule that the job still has.
    EarlyStopping,
}

/// Comparison of the input of a checkpoint with that of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputMatch {
    Same,
    Other,
}

/// Decides whether a job is over, from the marker in the model directory, and the step and the input of the latest
/// checkpoint. Only a marker of the end counts: a checkpoint of the last step may be older than the last updates of
/// some servers.
fn decide(marker: &Marker, step: u64, input: InputMatch, job: &Job) -> Option<Reason> {
    if !marker.is_finished() || step < marker.global_step {
        return None;
    }
    let rule = job
        .train
        .early_stopping
        .as_ref()
        .and_then(|rule| serde_json::to_value(rule).ok());
    if rule.is_some() && rule == marker.early_stopping {
        return Some(Reason::EarlyStopping);
    }
    if let Some(most) = job.train.max_steps.filter(|most| step >= *most) {
        return Some(Reason::Steps(most));
    }
    let wanted = job.input.train.epochs?;
    let applied = marker.epochs?;
    (input == InputMatch::Same && wanted <= applied).then_some(Reason::Epochs(wanted))
}

/// Returns the step at which the job has ended, if there is nothing left to do. If all stores are in this process, only
/// early stopping counts here: otherwise the restored store itself says whether the job is over.
///
/// # Errors
/// The checkpoint belongs to another model.
pub(super) fn look(lead: &Chief, run: &Run) -> Result<Option<u64>, Diagnostic> {
    let is_alone = !lead.shards.iter().any(|shard| shard.is_remote());
    let folder = &lead.job.model_dir;
    let marker = match Marker::read(folder) {
        Err(error) if error.file_state() == FileState::Unreadable => return Err(error.into()),
        marker => marker.ok().flatten(),
    };
    let Some(marker) = marker else {
        return Ok(None);
    };
    let Some(latest) = list(folder)?.into_iter().next_back() else {
        return Ok(None);
    };
    let checkpoint = match Checkpoint::open(&latest.path) {
        Ok(checkpoint) => checkpoint,
        Err(error) if error.is_unreadable() => return Err(error.into()),
        // A damaged checkpoint is verified and quarantined at startup.
        Err(_) => return Ok(None),
    };
    let manifest = checkpoint.manifest();
    let Some(reason) = decide(
        &marker,
        manifest.global_step,
        if manifest.input == run.provenance.input {
            InputMatch::Same
        } else {
            InputMatch::Other
        },
        &lead.job,
    ) else {
        return Ok(None);
    };
    if is_alone && reason != Reason::EarlyStopping {
        return Ok(None);
    }
    if let Some(problem) = misfit(manifest, &lead.plan.variables, &lead.plan.optimizers) {
        return Err(problem);
    }
    let step = manifest.global_step;
    match reason {
        Reason::Steps(most) => {
            info!(
                step,
                "nothing to do: the job is done, and train.max_steps = {most} has been reached"
            );
        }
        Reason::EarlyStopping => {
            info!(step, "nothing to do: the job is done: {}", marker.reason);
        }
        Reason::Epochs(epochs) => {
            info!(
                step,
                "nothing to do: the job is done, and all input.train.epochs = {epochs} passes \
                are applied"
            );
        }
    }
    Ok(Some(step))
}

/// Reports that the job is done to all tasks that still send requests, and to servers that wait for a chief. An
/// unreachable server has received the end before.
///
/// # Errors
/// The next term cannot be claimed.
pub(super) async fn tell(lead: &Chief, run: &mut Run) -> Result<(), Diagnostic> {
    run.epoch = lead.claim_epoch()?;
    lead.coordinator.end(JobState::Done);
    if let Some(pairs) = &lead.pairs {
        pairs.lead(run.epoch);
    }
    // The servers of a finished job may belong to another job by now.
    for (ps, error) in lead
        .report_end(run, "done", JobEnd::Done, FINISH_TIMEOUT)
        .await
    {
        debug!(ps, %error, "the server did not accept the report that the job is done");
    }
    lead.dismiss_pairs().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use trainyard_model_dir::JobPhase;

    use super::*;

    fn marker(phase: JobPhase, global_step: u64, epochs: Option<u64>) -> Marker {
        Marker {
            phase,
            global_step,
            reason: String::new(),
            cluster_epoch: 1,
            epochs,
            early_stopping: None,
            finished_before: false,
        }
    }

    #[test]
    fn a_start_that_fails_does_not_undo_the_end_of_the_job() {
        let failed = Marker {
            finished_before: true,
            ..marker(JobPhase::Failed, 100, None)
        };
        assert_eq!(
            decide(&failed, 100, InputMatch::Same, &job(Some(100), None)),
            Some(Reason::Steps(100))
        );
        let never_done = marker(JobPhase::Failed, 100, None);
        assert_eq!(
            decide(&never_done, 100, InputMatch::Same, &job(Some(100), None)),
            None
        );
    }

    fn job(max_steps: Option<u64>, epochs: Option<u64>) -> Job {
        let text = "model_dir = \"m\"\n[input]\nlabel = { column = \"y\" }\ntrain = { files = [\"t.csv\"] }\n\
                    eval = { files = [\"t.csv\"] }\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n\
                    [model]\nkind = \"dnn_classifier\"\nhidden_units = [2]\n[train]\nmax_steps = 1\n";
        let mut job = Job::parse(std::path::Path::new("job.toml"), text, &[]).expect("a job");
        (job.train.max_steps, job.input.train.epochs) = (max_steps, epochs);
        job
    }

    #[test]
    fn a_job_is_over_at_its_last_step() {
        let done = marker(JobPhase::Done, 20, None);
        assert_eq!(
            decide(&done, 20, InputMatch::Other, &job(Some(20), None)),
            Some(Reason::Steps(20))
        );
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &job(Some(21), None)),
            None,
            "there is more to do"
        );
        assert_eq!(
            decide(&done, 19, InputMatch::Same, &job(Some(19), None)),
            None,
            "the last checkpoint is not there"
        );
        let running = marker(JobPhase::Running, 20, None);
        assert_eq!(
            decide(&running, 20, InputMatch::Same, &job(Some(20), None)),
            None,
            "servers may know more"
        );
    }

    #[test]
    fn a_job_that_evaluations_have_ended_is_over_while_it_has_the_same_rule() {
        let rule = |most: u64| {
            let text = "model_dir = \"m\"\n[input]\nlabel = { column = \"y\" }\ntrain = { files = [\"t.csv\"] }\n\
                        eval = { files = [\"t.csv\"] }\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n\
                        [model]\nkind = \"dnn_classifier\"\nhidden_units = [2]\n";
            let text = format!(
                "{text}[train.early_stopping]\nmax_evaluations_without_improvement = {most}\n"
            );
            Job::parse(std::path::Path::new("job.toml"), &text, &[]).expect("a job")
        };
        let written = serde_json::to_value(&rule(3).train.early_stopping).expect("a rule");
        let done = Marker {
            early_stopping: Some(written),
            ..marker(JobPhase::Done, 20, None)
        };
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &rule(3)),
            Some(Reason::EarlyStopping)
        );
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &rule(4)),
            None,
            "more patience goes on"
        );
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &job(Some(90), None)),
            None,
            "without a rule it goes on"
        );
    }

    #[test]
    fn a_job_is_over_when_its_data_has_been_applied() {
        let done = marker(JobPhase::Done, 20, Some(2));
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &job(None, Some(2))),
            Some(Reason::Epochs(2))
        );
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &job(Some(90), Some(1))),
            Some(Reason::Epochs(1))
        );
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &job(None, Some(3))),
            None,
            "there is more to do"
        );
        assert_eq!(
            decide(&done, 20, InputMatch::Same, &job(Some(90), None)),
            None,
            "there is no end of data"
        );
        assert_eq!(
            decide(&done, 20, InputMatch::Other, &job(None, Some(2))),
            None,
            "it is other data"
        );
        let early = marker(JobPhase::Done, 20, None);
        assert_eq!(
            decide(&early, 20, InputMatch::Same, &job(None, Some(2))),
            None,
            "it ended before its data did"
        );
    }
}
