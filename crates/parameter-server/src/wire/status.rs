//! The status of a server as a message, with the positions in the data and the parts that were read of a checkpoint.

use trainyard_checkpoint::PartRead;
use trainyard_cluster_spec::Task;
use trainyard_parameter_store::{Held, Progress, Rejections, ShardPosition, State, Status};
use trainyard_protocol::{convert, v1};
use trainyard_variable::{StepNumber, Version};

use super::{batch_from_wire, batch_to_wire, rejection_from_wire, rejection_to_wire};
use crate::{Provenance, ServerStatus};

/// Returns the message of the status of server `task`.
pub fn status_to_wire(status: ServerStatus, task: Task) -> v1::StatusReply {
    let store = status.store;
    v1::StatusReply {
        state: state_to_wire(store.state).into(),
        task: Some(convert::task_to_wire(task)),
        incarnation: status.incarnation,
        cluster_epoch: store.epoch,
        cluster_id: store
            .cluster_id
            .map(convert::cluster_id_to_wire)
            .unwrap_or_default(),
        layout_fingerprint: store.layout_fingerprint,
        version: store.version.count(),
        counts_steps: store.version.steps().is_some(),
        global_step: store.global_step,
        value_bytes: store.value_bytes,
        release: trainyard_protocol::RELEASE.into(),
        slowest_lane: store.slowest_lane,
        positions: status.positions.into_iter().map(position_to_wire).collect(),
        prepared_epoch: store.prepared_epoch,
        settings: status.settings,
        wants_checkpoint: status.wants_checkpoint,
        rejections: store.rejections.iter().map(rejections_to_wire).collect(),
        progress: (store.state == State::Preparing).then_some(v1::Progress {
            done_bytes: store.progress.done_bytes,
            total_bytes: store.progress.total_bytes,
        }),
        parts_read: Vec::new(),
        provenance: (status.provenance != Provenance::default())
            .then(|| provenance_to_wire(&status.provenance)),
    }
}

/// Returns the message of a run.
pub(crate) fn provenance_to_wire(provenance: &Provenance) -> v1::Provenance {
    v1::Provenance {
        input: provenance.input.clone(),
        job: provenance.job.clone(),
    }
}

/// Returns the run in a message; one that is not known without a message.
pub(crate) fn provenance_from_wire(provenance: Option<&v1::Provenance>) -> Provenance {
    provenance.map_or_else(Provenance::default, |provenance| Provenance {
        input: provenance.input.clone(),
        job: provenance.job.clone(),
    })
}

/// Returns the status in a message of the server that the cluster spec calls `expected`.
///
/// # Errors
/// The message is of another server. The text says of which one.
pub fn status_from_wire(reply: &v1::StatusReply, expected: Task) -> Result<ServerStatus, String> {
    let task = convert::task_from_wire(reply.task).map_err(|error| error.to_string())?;
    if task != expected {
        return Err(format!("it is {task}, the cluster spec says {expected}"));
    }
    let cluster_id = if reply.cluster_id.is_empty() {
        None
    } else {
        convert::cluster_id_from_wire(&reply.cluster_id).ok()
    };
    let store = Status {
        state: state_from_wire(reply.state()),
        cluster_id,
        epoch: reply.cluster_epoch,
        prepared_epoch: reply.prepared_epoch,
        layout_fingerprint: reply.layout_fingerprint,
        version: if reply.counts_steps {
            Version::Steps(StepNumber::new(reply.version))
        } else {
            Version::Pushes(reply.version)
        },
        saved_version: None,
        global_step: reply.global_step,
        value_bytes: reply.value_bytes,
        progress: progress_from_wire(reply.progress),
        slowest_lane: reply.slowest_lane,
        dynamic: Vec::new(),
        held: Held::default(),
        memory_max: None,
        rejections: reply
            .rejections
            .iter()
            .filter_map(rejections_from_wire)
            .collect(),
    };
    Ok(ServerStatus {
        store,
        incarnation: reply.incarnation,
        settings: reply.settings,
        wants_checkpoint: reply.wants_checkpoint,
        positions: reply.positions.iter().map(position_from_wire).collect(),
        provenance: provenance_from_wire(reply.provenance.as_ref()),
    })
}

fn state_to_wire(state: State) -> v1::PsState {
    match state {
        State::Empty => v1::PsState::Empty,
        State::Preparing => v1::PsState::Preparing,
        State::Prepared => v1::PsState::Prepared,
        State::Open => v1::PsState::Open,
        State::Draining => v1::PsState::Draining,
        State::Finished => v1::PsState::Finished,
    }
}

fn state_from_wire(state: v1::PsState) -> State {
    match state {
        v1::PsState::Empty | v1::PsState::Unspecified => State::Empty,
        v1::PsState::Preparing => State::Preparing,
        v1::PsState::Prepared => State::Prepared,
        v1::PsState::Open => State::Open,
        v1::PsState::Draining => State::Draining,
        v1::PsState::Finished => State::Finished,
    }
}

/// Returns the progress in a message; none without one.
pub fn progress_from_wire(progress: Option<v1::Progress>) -> Progress {
    let progress = progress.unwrap_or_default();
    Progress {
        done_bytes: progress.done_bytes,
        total_bytes: progress.total_bytes,
    }
}

fn rejections_to_wire(rejections: &Rejections) -> v1::Rejections {
    v1::Rejections {
        task: Some(convert::task_to_wire(rejections.task)),
        session: rejections.session,
        recent: rejections.recent,
        latest: rejections
            .latest
            .iter()
            .copied()
            .map(batch_to_wire)
            .collect(),
        reason: rejections.reason.as_ref().map(rejection_to_wire),
    }
}

/// Returns the rejections in a message; `None` if it names no valid task.
fn rejections_from_wire(rejections: &v1::Rejections) -> Option<Rejections> {
    Some(Rejections {
        task: convert::task_from_wire(rejections.task).ok()?,
        session: rejections.session,
        recent: rejections.recent,
        latest: rejections
            .latest
            .iter()
            .copied()
            .map(batch_from_wire)
            .collect(),
        reason: rejections.reason.as_ref().map(rejection_from_wire),
    })
}

/// Converts a position in the data to a message.
pub(crate) fn position_to_wire(position: ShardPosition) -> v1::DataPosition {
    let ahead = position
        .ahead
        .iter()
        .flat_map(|range| [range.start, range.end])
        .collect();
    v1::DataPosition {
        shard: position.shard,
        pass: position.pass,
        batch: position.batch,
        ahead,
    }
}

/// Converts a message to a position in the data.
pub(crate) fn position_from_wire(position: &v1::DataPosition) -> ShardPosition {
    let ahead = position
        .ahead
        .chunks_exact(2)
        .map(|ends| ends[0]..ends[1])
        .collect();
    ShardPosition {
        shard: position.shard,
        pass: position.pass,
        batch: position.batch,
        ahead,
    }
}

/// Converts a part that was read of a checkpoint tensor to a message.
pub fn part_read_to_wire(part: PartRead) -> v1::PartRead {
    let PartRead {
        file,
        tensor,
        bytes,
        crc32c,
    } = part;
    v1::PartRead {
        file,
        tensor,
        begin: bytes.start,
        end: bytes.end,
        crc32c,
    }
}

/// Converts a message to a part that was read of a checkpoint tensor.
pub fn part_read_from_wire(part: v1::PartRead) -> PartRead {
    let v1::PartRead {
        file,
        tensor,
        begin,
        end,
        crc32c,
    } = part;
    PartRead {
        file,
        tensor,
        bytes: begin..end,
        crc32c,
    }
}
