//! Messages that clients and servers both read and write: selections, pushes and positions in the data.

use std::sync::Arc;

use bytes::Bytes;
use trainyard_checkpoint::PartRead;
use trainyard_parameter_store::{BatchId, MicroBatch, Selection, ShardPosition};
use trainyard_protocol::{payload, v1};

/// Converts a selection to a message.
pub fn selection_to_wire(selection: &Selection) -> v1::Selection {
    let row_set = |rows: &Vec<u32>| v1::RowSet {
        rows: Bytes::copy_from_slice(payload::row_bytes(rows)),
    };
    let id_set = |ids: &Vec<u64>| v1::IdSet {
        ids: Bytes::copy_from_slice(payload::id_bytes(ids)),
    };
    let rows = selection
        .rows
        .iter()
        .map(|&(slice, row_set)| v1::SliceRows {
            slice,
            row_set: row_set as u32,
        });
    let ids = selection.ids.iter().map(|&(slice, id_set)| v1::SliceIds {
        slice,
        id_set: id_set as u32,
    });
    v1::Selection {
        whole: selection.whole.clone(),
        row_sets: selection.row_sets.iter().map(row_set).collect(),
        rows: rows.collect(),
        id_sets: selection.id_sets.iter().map(id_set).collect(),
        ids: ids.collect(),
    }
}

/// Converts a message to a selection. The store checks whether the slices, rows and ids exist.
///
/// # Errors
/// The bytes of rows or ids have a wrong length.
pub fn selection_from_wire(named: &v1::Selection) -> Result<Arc<Selection>, payload::LengthError> {
    let row_sets = named.row_sets.iter().map(|set| payload::rows(&set.rows));
    let id_sets = named.id_sets.iter().map(|set| payload::ids(&set.ids));
    Ok(Arc::new(Selection {
        whole: named.whole.clone(),
        rows: named
            .rows
            .iter()
            .map(|rows| (rows.slice, rows.row_set as usize))
            .collect(),
        row_sets: row_sets.collect::<Result<_, _>>()?,
        ids: named
            .ids
            .iter()
            .map(|ids| (ids.slice, ids.id_set as usize))
            .collect(),
        id_sets: id_sets.collect::<Result<_, _>>()?,
    }))
}

/// Converts a position in the data to a message.
pub fn position_to_wire(position: ShardPosition) -> v1::DataPosition {
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
pub fn position_from_wire(position: &v1::DataPosition) -> ShardPosition {
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

/// Converts a batch id to a message.
pub fn batch_to_wire(batch: BatchId) -> v1::BatchId {
    let BatchId { pass, shard, batch } = batch;
    v1::BatchId { pass, shard, batch }
}

/// Converts a message to a batch id.
pub fn batch_from_wire(batch: v1::BatchId) -> BatchId {
    let v1::BatchId { pass, shard, batch } = batch;
    BatchId { pass, shard, batch }
}

/// Converts a push to a message, without the encoding of its values. `selection` is absent if the pull of the step
/// has named it.
pub fn push_to_wire(
    seq: u64,
    batch: BatchId,
    pulled_version: u64,
    micro_batch: Option<MicroBatch>,
    selection: Option<v1::Selection>,
) -> v1::Push {
    v1::Push {
        seq,
        batch: Some(batch_to_wire(batch)),
        pulled_version,
        selection,
        encoding: 0,
        lane: micro_batch.map_or(0, |place| place.lane),
        lanes: micro_batch.map_or(0, |place| place.lanes),
        rejected: None,
    }
}

/// Converts the lane of a push in its synchronous step, if the message has one.
pub fn micro_batch_from_wire(push: &v1::Push) -> Option<MicroBatch> {
    (push.lanes > 0).then_some(MicroBatch {
        lane: push.lane,
        lanes: push.lanes,
    })
}
