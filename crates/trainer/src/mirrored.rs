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
use trainyard_diagnostic::{Action, Diagnostic, Waiting};
use trainyard_parameter_store::Identity;

use crate::exchange::{Allreduce, Ended, Member, ProcessGroup};
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::rendezvous::Rendezvous;
use crate::replica::{Replica, clear_handover};
use crate::session::Session;
use crate::training_task::TrainingTask;
use crate::{
    Config, GroupAssignment, JoinGroupReply, JoinGroupRequest, LeaveReason, LoopStatus, exchange,
};

/// Step number of the exchanges before the first step of a group.
const HANDSHAKE: u64 = 0;
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
        let Some(formed) = join_group(&member.task, session, generation).await? else {
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
        replica.ready(config, control, &formed).await?;
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
                    Ok(Ok(())) => steps(member, replica, session, &group, outcome).await,
                    Ok(Err(problem)) => Ok(Ended::Broken(problem)),
                    Err(failure) => Err(failure),
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

/// Brings all members to the parameters of the member that has come furthest. The inner error says why the group has
/// broken.
async fn agree(
    config: &Config,
    replica: &mut Replica,
    identity: Identity,
    group: &ProcessGroup,
) -> Result<Result<(), Diagnostic>, Failure> {
    let ProcessGroup { formed, collective } = group;
    let gather = async |bucket: u32, bytes: Bytes| {
        collective
            .all_gather(HANDSHAKE, bucket, bytes)
            .await
            .map_err(|error| error.diagnostic())
    };
    let own = replica.version().unwrap_or(0);
    let versions: Vec<u64> = match gather(0, Bytes::copy_from_slice(&own.to_le_bytes())).await {
        Ok(told) => told.iter().map(|bytes| version(bytes)).collect(),
        Err(problem) => return Ok(Err(problem)),
    };
    let most = versions.iter().max().copied().unwrap_or(own);
    let behind = versions.iter().filter(|version| **version < most).count();
    info!(
        generation = formed.generation,
        members = versions.len(),
        step = most,
        behind,
        "the process group is formed"
    );
    if behind == 0 {
        return Ok(Ok(()));
    }
    let root = versions
        .iter()
        .position(|version| *version == most)
        .unwrap_or(0);
    let gives = root == formed.rank;
    let path = if gives {
        replica
            .hand_over(config, identity, formed.generation)
            .await?
    } else {
        std::path::PathBuf::new()
    };
    let told = match gather(1, Bytes::from(path.to_string_lossy().into_owned())).await {
        Ok(told) => told,
        Err(problem) => return Ok(Err(problem)),
    };
    if own < most
        && let Some(path) = told.get(root)
    {
        replica
            .take_over(identity, String::from_utf8_lossy(path).as_ref().as_ref())
            .await?;
    }
    // The parameters that were handed over stay until every member has them.
    let had = gather(2, Bytes::new()).await;
    if gives {
        clear_handover(config, identity.epoch, formed.generation);
    }
    Ok(had.map(drop))
}

fn version(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
