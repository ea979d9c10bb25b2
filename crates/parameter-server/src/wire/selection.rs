//! Selections as messages.

use std::sync::Arc;

use bytes::Bytes;
use trainyard_parameter_store::Selection;
use trainyard_protocol::{payload, v1};

/// Converts a selection to a message.
pub(crate) fn selection_to_wire(selection: &Selection) -> v1::Selection {
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
    let slice_ids = |&(slice, id_set): &(u32, usize)| v1::SliceIds {
        slice,
        id_set: id_set as u32,
    };
    v1::Selection {
        whole: selection.whole.clone(),
        row_sets: selection.row_sets.iter().map(row_set).collect(),
        rows: rows.collect(),
        id_sets: selection.id_sets.iter().map(id_set).collect(),
        ids: selection.ids.iter().map(slice_ids).collect(),
        counted: selection.counted.iter().map(slice_ids).collect(),
    }
}

/// Converts a message to a selection. The store checks whether the slices, rows and ids exist.
///
/// # Errors
/// The bytes of rows or ids have a wrong length.
pub(crate) fn selection_from_wire(
    named: &v1::Selection,
) -> Result<Arc<Selection>, payload::LengthError> {
    let row_sets = named.row_sets.iter().map(|set| payload::rows(&set.rows));
    let id_sets = named.id_sets.iter().map(|set| payload::ids(&set.ids));
    let slice_ids = |ids: &v1::SliceIds| (ids.slice, ids.id_set as usize);
    Ok(Arc::new(Selection {
        whole: named.whole.clone(),
        rows: named
            .rows
            .iter()
            .map(|rows| (rows.slice, rows.row_set as usize))
            .collect(),
        row_sets: row_sets.collect::<Result<_, _>>()?,
        ids: named.ids.iter().map(slice_ids).collect(),
        id_sets: id_sets.collect::<Result<_, _>>()?,
        counted: named.counted.iter().map(slice_ids).collect(),
    }))
}
