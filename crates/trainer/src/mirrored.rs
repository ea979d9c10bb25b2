//! Training with parameters in every worker (`tf.distribute.MultiWorkerMirroredStrategy`, `MirroredStrategy`).
//!
//! At each step every member computes the batches of its lanes, all members sum their gradients, and each applies the
//! same mean to its own copy. The copies stay equal bit for bit. When a member dies or joins, the group is formed again
//! at the last step that any member has finished. Members that are behind take the parameters over from one that is
//! not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{info, warn};
use trainyard_cluster_client::retry;
use trainyard_diagnostic::{Action, Waiting};
use trainyard_parameter_store::Identity;

use crate::exchange::{Allreduce, Ended, Member, ProcessGroup};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::parameter_agreement::{Disagreement, agree};
use crate::rendezvous::Rendezvous;
use crate::replica::Replica;
use crate::session::Session;
use crate::training_task::TrainingTask;
use crate::{GroupAssignment, JoinGroupReply, JoinGroupRequest, LeaveReason, LoopStatus, exchange};

/// Wait before the next group, if the members of one could not agree on their parameters.
const REGROUP_PAUSE: Duration = Duration::from_millis(500);
/// Step number of the exchange after the last step of a group.
const LEAVE_BUCKET: u64 = u64::MAX;

/// Trains in one group after another, until there is a reason to leave.
pub(crate) async fn train(
    member: &Member<'_>,
    rendezvous: &Rendezvous,
    replica: &mut Replica,
    session: &mut Session,
    outcome: &mut Outcome,
) -> Result<LeaveReason, Failure> {
    let TrainingTask { config, stop, .. } = member.task;
    let mut generation = 0;
    loop {
        (config.set_status)(LoopStatus::waiting(vec!["the other workers".to_owned()]));
        let Some(formed) = join_group(&member.task, session, replica, generation).await? else {
            return Ok(if stop.is_cancelled() {
                LeaveReason::Shutdown
            } else {
                LeaveReason::Finished
            });
        };
        generation = formed.generation;
        let joined = &session.joined;
        let control = Identity {
            session: 0,
            ..session.identity
        };
        replica.claim(config, control, &formed)?;
        let ended = match rendezvous
            .join(joined.cluster_id, joined.epoch, &formed)
            .await
        {
            Err(problem) => Ended::Broken(problem),
            Ok(collective) => {
                let buffers = (formed.lanes as usize).div_ceil(formed.members.len().max(1));
                let collective = Arc::new(collective.with_buffers(buffers));
                let group = ProcessGroup { formed, collective };
                let trained = match agree(config, replica, control, &group).await {
                    Ok(()) => steps(member, replica, session, &group, outcome).await,
                    Err(Disagreement::Broken(problem)) => {
                        group
                            .collective
                            .abort("the members do not have the same parameters");
                        tokio::time::sleep(REGROUP_PAUSE).await;
                        Ok(Ended::Broken(problem))
                    }
                    Err(Disagreement::Failed(failure)) => Err(failure),
                };
                match trained {
                    Ok(ended) => {
                        if !matches!(ended, Ended::Broken(_)) {
                            // A member that leaves ends the group, so all members must have the last step before. A
                            // member whose exchange fails has had that step.
                            drop(
                                group
                                    .collective
                                    .all_gather(LEAVE_BUCKET, 0, Bytes::new())
                                    .await,
                            );
                        }
                        if let Some(collective) = Arc::into_inner(group.collective) {
                            collective.leave().await;
                        }
                        ended
                    }
                    Err(failure) => {
                        group.collective.abort("the member cannot continue");
                        return Err(failure);
                    }
                }
            }
        };
        match ended {
            Ended::Leave(reason) => return Ok(reason),
            Ended::Regroup => info!(
                generation,
                "the chief forms a new process group: the members change"
            ),
            Ended::Broken(problem) => {
                warn!(
                    generation,
                    "{}; the chief forms a new process group, which continues from the last step",
                    problem.message
                );
            }
        }
    }
}

/// Runs the steps of one process group.
async fn steps(
    member: &Member<'_>,
    replica: &Replica,
    session: &mut Session,
    group: &ProcessGroup,
    outcome: &mut Outcome,
) -> Result<Ended, Failure> {
    let counters = Arc::clone(&session.heartbeat.counts);
    let mut allreduce = Allreduce::open(member, replica, session, group).await?;
    exchange::train(member.task, &counters, outcome, &mut allreduce).await
}

/// Waits until the chief has formed the next group. Returns `None` if the job has ended or the token is cancelled.
async fn join_group(
    task: &TrainingTask<'_>,
    session: &Session,
    replica: &Replica,
    generation: u64,
) -> Result<Option<GroupAssignment>, Failure> {
    let TrainingTask {
        config,
        coordinator,
        stop,
        ..
    } = *task;
    let started = Instant::now();
    let mut waiting = Waiting::new(
        config.task.to_string(),
        "the other workers",
        config.connect_deadline,
    );
    let name = coordinator.name();
    loop {
        if stop.is_cancelled() || session.told()?.is_some() {
            return Ok(None);
        }
        let ask = JoinGroupRequest {
            heartbeat: session.request.clone(),
            generation,
            values: replica.values(),
        };
        let asked = retry(&session.identity, &name, config.connect_deadline, || {
            coordinator.join_group(ask.clone())
        });
        let missing = match asked.await? {
            JoinGroupReply::Assigned(formed) => return Ok(Some(formed)),
            JoinGroupReply::Waits { waiting_for } => waiting_for,
        };
        (config.set_status)(LoopStatus::waiting(missing.clone()));
        match waiting.tick(
            started.elapsed(),
            &format!("not present: {}", missing.join(", ")),
        ) {
            Action::Wait => {}
            Action::Notice(notice) => warn!("{notice}"),
            Action::GiveUp(problem) => return Err(Failure::Local(*problem)),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
