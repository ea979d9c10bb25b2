//! A push and a pull, and their outcomes, as messages. The log keeps pushes in the same form.

use bytes::Bytes;
use trainyard_parameter_store::{
    MicroBatch, Pull, Pulled, Push, PushHeader, Pushed, Selection, StepRequest, Ticket,
};
use trainyard_protocol::payload::{Encoding, Payload};
use trainyard_protocol::{convert, v1};

use super::{
    Invalid, batch_from_wire, batch_to_wire, rejection_from_wire, rejection_to_wire, required,
    selection_from_wire, selection_to_wire,
};
use crate::WireGradients;

/// Returns the message of a push. `selection` is absent if the pull of the step has named it. `encoding` is that of the
/// gradients, which travel beside the message.
pub fn push_to_wire(header: &PushHeader, selection: Option<&Selection>, encoding: i32) -> v1::Push {
    v1::Push {
        seq: header.seq,
        batch: Some(batch_to_wire(header.batch)),
        pulled_version: header.pulled_version,
        selection: selection.map(selection_to_wire),
        encoding,
        lane: header.micro_batch.map_or(0, |place| place.lane),
        lanes: header.micro_batch.map_or(0, |place| place.lanes),
        rejected: header.rejected.as_ref().map(rejection_to_wire),
        optimizer_step: header.optimizer_step.unwrap_or(0),
    }
}

/// Returns the push in a message, whose gradients are the `payload`. A push over the wire is always of one batch.
///
/// # Errors
/// No batch is named, the encoding is unknown, or gradients, rows or ids have a wrong length.
pub(crate) fn push_from_wire(
    push: &v1::Push,
    payload: Vec<Bytes>,
) -> Result<Push<WireGradients>, Invalid> {
    let encoding = convert::encoding_from_wire(push.encoding)?;
    let gradients = WireGradients(Payload::new(payload, encoding)?);
    let header = PushHeader {
        seq: push.seq,
        batch: batch_from_wire(required("batch", push.batch)?),
        batches: 1,
        pulled_version: push.pulled_version,
        micro_batch: (push.lanes > 0).then_some(MicroBatch {
            lane: push.lane,
            lanes: push.lanes,
        }),
        optimizer_step: (push.optimizer_step > 0).then_some(push.optimizer_step),
        rejected: push.rejected.as_ref().map(rejection_from_wire),
    };
    let selection = push
        .selection
        .as_ref()
        .map(selection_from_wire)
        .transpose()?;
    Ok(Push {
        header,
        selection,
        gradients,
    })
}

/// Returns the message of a pull whose values are to have this `encoding`.
pub fn pull_to_wire(pull: &Pull, encoding: Encoding) -> v1::Pull {
    v1::Pull {
        seq: pull.seq,
        selection: Some(selection_to_wire(&pull.selection)),
        reserve_step: pull.reserve_step,
        known: pull.known.clone(),
        encoding: convert::encoding_to_wire(encoding).into(),
        at_least: pull.at_least,
        or_before: pull.or_before,
        half_applied: pull.half_applied,
    }
}

fn pull_from_wire(pull: v1::Pull) -> Result<(Pull, Encoding), Invalid> {
    let encoding = convert::encoding_from_wire(pull.encoding)?;
    let selection = pull
        .selection
        .as_ref()
        .map(selection_from_wire)
        .transpose()?;
    let pull = Pull {
        seq: pull.seq,
        selection: selection.unwrap_or_default(),
        known: pull.known,
        reserve_step: pull.reserve_step,
        at_least: pull.at_least,
        or_before: pull.or_before,
        half_applied: pull.half_applied,
    };
    Ok((pull, encoding))
}

/// A step as a server receives it.
#[derive(Debug)]
pub struct WireStep {
    /// The step. Its gradients are the pieces that arrived on the connection.
    pub request: StepRequest<WireGradients>,
    /// Encoding of the values that the pull requests.
    pub encoding: Encoding,
}

/// Returns the step in a message, whose payload has arrived beside it.
///
/// # Errors
/// The push or the pull is invalid.
pub fn step_from_wire(
    push: Option<v1::Push>,
    pull: Option<v1::Pull>,
    payload: Vec<Bytes>,
) -> Result<WireStep, Invalid> {
    let push = match push {
        Some(push) => Some(push_from_wire(&push, payload)?),
        None => {
            let bytes = Payload::new(payload, Encoding::Float32)?.bytes();
            if bytes > 0 {
                let given = format!("{bytes} bytes without a push");
                let (field, rule) = ("payload", "must be the gradients of a push");
                return Err(convert::Invalid { field, rule, given }.into());
            }
            None
        }
    };
    let (pull, encoding) = match pull {
        Some(pull) => {
            let (pull, encoding) = pull_from_wire(pull)?;
            (Some(pull), encoding)
        }
        None => (None, Encoding::Float32),
    };
    Ok(WireStep {
        request: StepRequest { push, pull },
        encoding,
    })
}

/// Returns the message of the outcome of a push.
pub fn pushed_to_wire(pushed: &Pushed) -> v1::Pushed {
    v1::Pushed {
        duplicate: pushed.duplicate,
        version: pushed.version,
        global_step: pushed.global_step,
        staleness: pushed.staleness,
        stale: pushed.stale,
        rejected: pushed.rejected.as_ref().map(rejection_to_wire),
    }
}

/// Returns the outcome of a push in a message.
pub fn pushed_from_wire(pushed: &v1::Pushed) -> Pushed {
    Pushed {
        duplicate: pushed.duplicate,
        stale: pushed.stale,
        version: pushed.version,
        global_step: pushed.global_step,
        staleness: pushed.staleness,
        rejected: pushed.rejected.as_ref().map(rejection_from_wire),
    }
}

/// Returns the message of the outcome of a pull. `unchanged` are the places of the whole slices that are left out.
pub fn pulled_to_wire(pulled: Pulled, unchanged: Vec<u32>) -> v1::Pulled {
    let ticket = match pulled.ticket {
        Ticket::Granted => v1::Ticket::Granted,
        Ticket::Wait => v1::Ticket::Wait,
        Ticket::Finished => v1::Ticket::Finished,
    };
    v1::Pulled {
        version: pulled.version,
        global_step: pulled.global_step,
        ticket: ticket.into(),
        updates: pulled.updates,
        unchanged,
        lead: pulled.lead,
        reached: pulled.reached,
        without_row: pulled
            .without_row
            .iter()
            .map(|places| bits(places))
            .collect(),
    }
}

/// Returns a bit for each place up to the last one, from the lowest bit of the first byte on.
fn bits(places: &[u32]) -> Bytes {
    let bytes = places.last().map_or(0, |last| *last as usize / 8 + 1);
    let mut bits = vec![0_u8; bytes];
    for place in places {
        bits[*place as usize / 8] |= 1 << (place % 8);
    }
    bits.into()
}

/// Returns the places whose bits are 1, ascending.
fn places(bits: &Bytes) -> Vec<u32> {
    let of_byte = |(byte, place): (&u8, u32)| {
        let byte = *byte;
        (0..8)
            .filter(move |bit| byte & (1 << bit) > 0)
            .map(move |bit| place * 8 + bit)
    };
    bits.iter().zip(0..).flat_map(of_byte).collect()
}

/// Returns the outcome of a pull in a message, and the places of the whole slices that are left out.
pub fn pulled_from_wire(pulled: v1::Pulled) -> (Pulled, Vec<u32>) {
    let ticket = match pulled.ticket() {
        v1::Ticket::Wait => Ticket::Wait,
        v1::Ticket::Finished => Ticket::Finished,
        v1::Ticket::Granted | v1::Ticket::Unspecified => Ticket::Granted,
    };
    let outcome = Pulled {
        version: pulled.version,
        reached: pulled.reached,
        global_step: pulled.global_step,
        ticket,
        lead: pulled.lead,
        updates: pulled.updates,
        without_row: pulled.without_row.iter().map(places).collect(),
    };
    (outcome, pulled.unchanged)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_of_ids_without_a_row_come_back_from_their_bits(
            expected in prop::collection::btree_set(0_u32..300, 0..40),
        ) {
            let expected: Vec<u32> = expected.into_iter().collect();
            prop_assert_eq!(places(&bits(&expected)), expected);
        }
    }
}
