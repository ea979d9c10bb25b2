//! The standby chief: waits until it is this chief's turn to lead.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use trainyard_cluster_client::channel_over;
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{CancellationToken, Context, ReadinessState};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{FileState, Interval, JobPhase, JobRecord, JobState, Leader, cluster_id};
use trainyard_run_config::Agreement;
use trainyard_trainer::RemoteCoordinator;

use crate::start_files::at_start;
use trainyard_coordinator::{Candidate, ElectionStep, LeaderElection};

/// Interval between polls of the model directory.
const POLL_INTERVAL: Interval = Interval {
    folder: Duration::from_millis(100),
    bucket: Duration::from_secs(1),
};
/// Time within which a host refuses a connection to a port on which nothing listens.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Reads who leads, and the phase of the job. A damaged state of the job counts as none.
///
/// # Errors
/// One of them cannot be read.
fn leader_and_phase(
    model_dir: &Path,
) -> Result<(Option<Leader>, Option<JobPhase>), trainyard_model_dir::Error> {
    let leader = Leader::read(model_dir)?;
    let state = match JobState::read(model_dir) {
        Err(error) if error.file_state() == FileState::Unreadable => return Err(error),
        state => state.ok().flatten(),
    };
    Ok((leader, state.map(|state| state.phase)))
}

/// Waits until this chief leads. Returns `false` if the job is over before, or the token is cancelled.
///
/// # Errors
/// Another chief leads, and the cluster names only one, or the leader has another job; or the model directory cannot be
/// used.
pub(crate) async fn wait_for_leadership(
    context: &Context,
    stop: &CancellationToken,
) -> Result<bool, Diagnostic> {
    let own = context.cluster.address(context.task).unwrap_or_default();
    let folder = &context.job.model_dir;
    let look = POLL_INTERVAL.of(folder);
    let first = context.task.index == 0;
    if !first {
        // A problem with listening is reported now, and not when this chief has to lead.
        drop(context.listener().await?);
    }
    let fresh = uuid::Uuid::new_v4().as_u128();
    let id = at_start(folder, move |folder| cluster_id(folder, fresh)).await?;
    let mut election = LeaderElection::new(Candidate {
        address: own.to_owned(),
        is_first: first,
        has_standbys: !context.cluster.standbys.is_empty(),
    });
    let started = Instant::now();
    let mut told = 0;
    let mut unreadable = None::<String>;
    let mut heard = false;
    loop {
        let (leader, phase) = match at_start(folder, leader_and_phase).await {
            Ok(found) => found,
            Err(problem) => {
                // Another chief may lead.
                let line = problem.log_line();
                if unreadable.replace(line.clone()).as_ref() != Some(&line) {
                    warn!("this chief waits until it can read who leads: {line}");
                }
                tokio::select! {
                    () = sleep(look) => continue,
                    () = stop.cancelled() => return Ok(false),
                }
            }
        };
        unreadable = None;
        if heard && matches!(phase, Some(JobPhase::Done | JobPhase::Failed)) {
            info!(
                phase = phase.map(JobPhase::name),
                "the job has ended: this standby chief ends"
            );
            return Ok(false);
        }
        let next = election.next(started.elapsed(), leader, phase);
        match next {
            ElectionStep::Chief => return Ok(true),
            ElectionStep::Refuse(leader) => return Err(led_by(&leader)),
            ElectionStep::Wait => context.readiness.set(ReadinessState::ready("standing by")),
            ElectionStep::Follow(leader) => {
                context.readiness.set(ReadinessState::ready("standing by"));
                let seen = tokio::select! {
                    seen = follow(context, id, &leader, &mut told) => seen,
                    () = stop.cancelled() => return Ok(false),
                };
                match seen {
                    Seen::There => {
                        heard = true;
                        election.heard(started.elapsed());
                    }
                    Seen::Nobody => election.nobody(),
                    Seen::Silent => {}
                    Seen::OtherJob(problem) => return Err(*problem),
                }
            }
        }
        tokio::select! {
            () = sleep(look) => {}
            () = stop.cancelled() => return Ok(false),
        }
    }
}

/// The result of following a leader.
enum Seen {
    /// The leader was present until now.
    There,
    /// Nothing listens at its address.
    Nobody,
    /// The leader does not answer.
    Silent,
    /// The leader has another job.
    OtherJob(Box<Diagnostic>),
}

/// Follows a leader until its connection breaks.
async fn follow(context: &Context, id: u128, leader: &Leader, told: &mut u64) -> Seen {
    let chief = Task {
        role: Role::Chief,
        index: 0,
    };
    // A leader in a process without a port cannot be reached.
    let Ok(channel) = channel_over(&context.network, chief, &leader.address) else {
        return Seen::Nobody;
    };
    let coordinator = RemoteCoordinator::new(std::slice::from_ref(&leader.address), channel);
    let asked = Instant::now();
    let mut there = false;
    let other_job = CancellationToken::new();
    let refused = Mutex::new(None);
    let followed = coordinator.follow(id, |epoch| {
        if let Err(problem) = check_job(context, leader, epoch) {
            *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
            other_job.cancel();
        }
        there = true;
        if std::mem::replace(told, leader.cluster_epoch) < leader.cluster_epoch {
            info!(%leader, "standing by");
        }
    });
    let ended = tokio::select! {
        ended = followed => Some(ended),
        () = other_job.cancelled() => None,
    };
    let refused = refused.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(problem) = refused {
        return Seen::OtherJob(Box::new(problem));
    }
    if there {
        warn!(%leader, "the leading chief has gone, or is about to end");
        return Seen::There;
    }
    if ended.is_some_and(|ended| ended.is_err()) && asked.elapsed() < CONNECT_TIMEOUT {
        Seen::Nobody
    } else {
        Seen::Silent
    }
}

/// Checks that this chief has the same job as the leader: a standby with another job could not continue it. `epoch` is
/// the term that the leader has begun.
fn check_job(context: &Context, leader: &Leader, epoch: u64) -> Result<(), Diagnostic> {
    // The record of another term describes an earlier job: a chief that restarts with another job answers before it
    // begins its own term, and again when it has begun.
    let record = JobRecord::read(&context.job.model_dir).ok().flatten();
    let Some(record) = record.filter(|record| record.cluster_epoch == epoch) else {
        return Ok(());
    };
    let theirs = Agreement::recorded(&record.keys);
    let own = Agreement::of(&context.job);
    match theirs.differences(&own, "the leading chief", "this chief") {
        None => Ok(()),
        Some(difference) => {
            let message =
                format!("this chief has another job than the leading chief: {difference}");
            Err(Diagnostic::error(Code::E2007, message)
                .note(leader.to_string())
                .help("give every task the same job file and the same --set options"))
        }
    }
}

fn led_by(leader: &Leader) -> Diagnostic {
    Diagnostic::error(
        Code::E2008,
        "another chief leads this job, and the cluster names one chief".to_owned(),
    )
    .note(leader.to_string())
    .help(
        "stop the other chief first; or name both addresses in `chief` of the cluster \
            file: then the second is a standby chief",
    )
}
