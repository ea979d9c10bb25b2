//! Requests to join the allreduce group, the chief's replies, and their messages.

use std::path::PathBuf;

use trainyard_checkpoint::folder_name;
use trainyard_cluster_spec::Task;
use trainyard_protocol::convert::{self, Invalid};
use trainyard_protocol::v1;
use trainyard_variable::StepNumber;

use super::heartbeat::{HeartbeatRequest, held};

/// A request to join the allreduce group.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinGroupRequest {
    /// Heartbeat of the requesting task.
    pub heartbeat: HeartbeatRequest,
    /// Generation of the task's former group; 0 = none.
    pub generation: u64,
    /// Parameters that the task holds itself.
    pub values: Option<MemberValues>,
}

/// Parameters that a task holds itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberValues {
    /// Term in which they were initialized, restored or taken over.
    pub prepared_epoch: u64,
    /// Steps applied.
    pub step: StepNumber,
    /// First batch that they have not had.
    pub batches_applied: u64,
}

impl MemberValues {
    /// Returns whether they are parameters of the job that starts like this. Otherwise the job has gone back to a
    /// checkpoint since.
    pub fn belong_to(&self, start: &GroupStart) -> bool {
        self.prepared_epoch >= start.prepared_epoch
    }
}

impl From<MemberValues> for v1::MemberValues {
    fn from(values: MemberValues) -> Self {
        Self {
            prepared_epoch: values.prepared_epoch,
            version: values.step.get(),
            batches_applied: values.batches_applied,
        }
    }
}

impl From<v1::MemberValues> for MemberValues {
    fn from(values: v1::MemberValues) -> Self {
        Self {
            prepared_epoch: values.prepared_epoch,
            step: StepNumber::new(values.version),
            batches_applied: values.batches_applied,
        }
    }
}

impl From<JoinGroupRequest> for v1::JoinGroupRequest {
    fn from(request: JoinGroupRequest) -> Self {
        Self {
            heartbeat: Some(request.heartbeat.into()),
            generation: request.generation,
            values: request.values.map(Into::into),
        }
    }
}

impl TryFrom<v1::JoinGroupRequest> for JoinGroupRequest {
    type Error = Invalid;

    fn try_from(request: v1::JoinGroupRequest) -> Result<Self, Invalid> {
        Ok(Self {
            heartbeat: held(request.heartbeat)?,
            generation: request.generation,
            values: request.values.map(Into::into),
        })
    }
}

/// Reply to a request to join the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinGroupReply {
    /// The group has been formed.
    Assigned(GroupAssignment),
    /// Other members are missing. The task must ask again.
    Waits {
        /// Names of the missing members.
        waiting_for: Vec<String>,
    },
}

/// The assignment of a task to a process group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAssignment {
    /// Generation of the group, from 1. It grows each time the group is formed.
    pub generation: u64,
    /// Rank of the requesting task.
    pub rank: usize,
    /// Members by rank: tasks and their addresses.
    pub members: Vec<(Task, String)>,
    /// Number of lanes of a step.
    pub lanes: u32,
    /// The state from which members without parameters start.
    pub start: GroupStart,
}

/// The state from which a group without parameters starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupStart {
    /// Term from which on parameters are those of the job: it was initialized or restored in this term.
    pub prepared_epoch: u64,
    /// Step of the parameters of the checkpoint, or before the first one.
    pub step: StepNumber,
    /// Checkpoint, of which members use the name: they look for it in their own model directory. Absent = initial values.
    pub checkpoint: Option<PathBuf>,
    /// The data positions of the checkpoint are ignored.
    pub forget_positions: bool,
}

impl From<JoinGroupReply> for v1::JoinGroupReply {
    fn from(reply: JoinGroupReply) -> Self {
        let group = match reply {
            JoinGroupReply::Waits { waiting_for } => {
                return Self {
                    waiting_for,
                    ..Self::default()
                };
            }
            JoinGroupReply::Assigned(group) => group,
        };
        let member = |(task, address)| v1::Member {
            task: Some(convert::task_to_wire(task)),
            address,
        };
        let checkpoint = group.start.checkpoint;
        Self {
            generation: group.generation,
            rank: group.rank as u32,
            members: group.members.into_iter().map(member).collect(),
            waiting_for: Vec::new(),
            checkpoint: checkpoint
                .map(|path| folder_name(&path))
                .unwrap_or_default(),
            forget_positions: group.start.forget_positions,
            lanes: group.lanes,
            prepared_epoch: group.start.prepared_epoch,
            start_version: group.start.step.get(),
        }
    }
}

impl TryFrom<v1::JoinGroupReply> for JoinGroupReply {
    type Error = Invalid;

    fn try_from(reply: v1::JoinGroupReply) -> Result<Self, Invalid> {
        if reply.generation == 0 {
            return Ok(Self::Waits {
                waiting_for: reply.waiting_for,
            });
        }
        let member =
            |member: v1::Member| Ok((convert::task_from_wire(member.task)?, member.address));
        let members = reply.members.into_iter().map(member);
        Ok(Self::Assigned(GroupAssignment {
            generation: reply.generation,
            rank: reply.rank as usize,
            members: members.collect::<Result<_, Invalid>>()?,
            lanes: reply.lanes,
            start: GroupStart {
                prepared_epoch: reply.prepared_epoch,
                step: StepNumber::new(reply.start_version),
                checkpoint: (!reply.checkpoint.is_empty()).then(|| reply.checkpoint.into()),
                forget_positions: reply.forget_positions,
            },
        }))
    }
}
