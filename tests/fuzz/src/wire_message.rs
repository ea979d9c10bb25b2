//! Messages of the wire and what is made of them: what is accepted is said again in the same way.

use prost::Message;
use trainyard_protocol::{convert, payload, v1};

/// Decodes a message, and checks that its own bytes are read as the same one.
fn decode<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    let again = message.encode_to_vec();
    let other = M::decode(again.as_slice()).expect("what was written is read");
    assert_eq!(other.encode_to_vec().len(), again.len());
    Some(message)
}

/// Decodes a message of the kind that the first byte says, and converts it.
pub fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else {
        return;
    };
    match kind % 6 {
        0 => {
            let Some(request) = decode::<v1::PrepareRequest>(bytes) else {
                return;
            };
            let _ = convert::optimizers_from_wire(request.optimizers);
            let Ok(variables) = convert::variables_from_wire(request.variables) else {
                return;
            };
            for slice in &request.slices {
                let _ = convert::slice_from_wire(slice, &variables, 0);
            }
            let again = variables.iter().map(convert::variable_to_wire).collect();
            let again =
                convert::variables_from_wire(again).expect("what was accepted is accepted again");
            assert_eq!(again.len(), variables.len());
        }
        1 => {
            let Some(request) = decode::<v1::StepRequest>(bytes) else {
                return;
            };
            let identity = request.identity.unwrap_or_default();
            let _ = (
                convert::task_from_wire(identity.task),
                convert::cluster_id_from_wire(&identity.cluster_id),
            );
            for selection in [
                request.push.and_then(|push| push.selection),
                request.pull.and_then(|pull| pull.selection),
            ] {
                let Some(selection) = selection else { continue };
                selection
                    .row_sets
                    .iter()
                    .for_each(|set| drop(payload::rows(&set.rows)));
                selection
                    .id_sets
                    .iter()
                    .for_each(|set| drop(payload::ids(&set.ids)));
            }
        }
        2 => drop(
            decode::<v1::RegisterRequest>(bytes)
                .map(|request| convert::task_from_wire(request.task)),
        ),
        3 => drop(decode::<v1::NextShardReply>(bytes)),
        4 => drop(decode::<v1::StatusReply>(bytes)),
        _ => drop(decode::<v1::JoinGroupReply>(bytes)),
    }
}
