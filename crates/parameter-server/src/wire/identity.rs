//! The sender of a request, and the id of a batch, as messages.

use trainyard_parameter_store::{BatchId, Identity};
use trainyard_protocol::{convert, v1};

use super::required;

/// Returns the message of a sender.
pub fn identity_to_wire(identity: &Identity) -> v1::Identity {
    v1::Identity {
        cluster_id: convert::cluster_id_to_wire(identity.cluster_id),
        cluster_epoch: identity.epoch,
        task: Some(convert::task_to_wire(identity.task)),
        incarnation: identity.incarnation,
        session: identity.session,
    }
}

/// Returns the sender in a message.
///
/// # Errors
/// There is no sender, it names no task, or its cluster id is not 16 bytes long.
pub fn identity_from_wire(identity: Option<v1::Identity>) -> Result<Identity, convert::Invalid> {
    let identity = required("identity", identity)?;
    Ok(Identity {
        task: convert::task_from_wire(identity.task)?,
        cluster_id: convert::cluster_id_from_wire(&identity.cluster_id)?,
        epoch: identity.cluster_epoch,
        incarnation: identity.incarnation,
        session: identity.session,
    })
}

/// Returns the message of a batch id.
pub(crate) fn batch_to_wire(batch: BatchId) -> v1::BatchId {
    let BatchId { pass, shard, batch } = batch;
    v1::BatchId { pass, shard, batch }
}

/// Returns the batch id in a message.
pub(crate) fn batch_from_wire(batch: v1::BatchId) -> BatchId {
    let v1::BatchId { pass, shard, batch } = batch;
    BatchId { pass, shard, batch }
}
