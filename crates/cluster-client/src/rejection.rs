//! The guard of values, and what it refuses, on the wire.

use trainyard_parameter_store::{BatchId, Fault, Guard, Nonfinite, Rejection};
use trainyard_protocol::v1;

/// Returns a guard as the wire has it.
pub fn guard_to_wire(guard: &Guard) -> v1::Guard {
    let nonfinite = match guard.nonfinite {
        Nonfinite::Reject => v1::Nonfinite::Reject,
        Nonfinite::Zero => v1::Nonfinite::Zero,
        Nonfinite::Halt => v1::Nonfinite::Halt,
    };
    v1::Guard { nonfinite: nonfinite.into(), max_norm: guard.max_norm, max_abs: guard.max_abs }
}

/// Returns the guard that the wire says; where it says none, the default.
pub fn guard_from_wire(guard: Option<v1::Guard>) -> Guard {
    let guard = guard.unwrap_or_default();
    let nonfinite = match guard.nonfinite() {
        v1::Nonfinite::Unspecified | v1::Nonfinite::Reject => Nonfinite::Reject,
        v1::Nonfinite::Zero => Nonfinite::Zero,
        v1::Nonfinite::Halt => Nonfinite::Halt,
    };
    Guard { nonfinite, max_norm: guard.max_norm, max_abs: guard.max_abs }
}

/// Returns a rejection as the wire has it.
pub fn rejection_to_wire(rejection: &Rejection) -> v1::Rejection {
    let Rejection { fault, variable, position, bits } = *rejection;
    let fault = match fault {
        Fault::Nonfinite => v1::ValueFault::Nonfinite,
        Fault::Norm => v1::ValueFault::Norm,
        Fault::Abs => v1::ValueFault::Abs,
    };
    v1::Rejection { fault: fault.into(), variable, position, value: bits }
}

/// Returns the rejection that the wire says.
pub fn rejection_from_wire(rejection: &v1::Rejection) -> Rejection {
    let fault = match rejection.fault() {
        v1::ValueFault::Unspecified | v1::ValueFault::Nonfinite => Fault::Nonfinite,
        v1::ValueFault::Norm => Fault::Norm,
        v1::ValueFault::Abs => Fault::Abs,
    };
    let v1::Rejection { variable, position, value: bits, .. } = *rejection;
    Rejection { fault, variable, position, bits }
}

/// Returns a batch as the wire has it.
pub fn batch_to_wire(batch: BatchId) -> v1::BatchId {
    let BatchId { pass, shard, batch } = batch;
    v1::BatchId { pass, shard, batch }
}

/// Returns the batch that the wire says.
pub fn batch_from_wire(batch: v1::BatchId) -> BatchId {
    let v1::BatchId { pass, shard, batch } = batch;
    BatchId { pass, shard, batch }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_and_why_survive_the_wire() {
        for (fault, variable) in Fault::ALL.into_iter().zip([None, Some(0), Some(u32::MAX)]) {
            let rejection = Rejection { fault, variable, position: u64::MAX, bits: f32::NAN.to_bits() };
            assert_eq!(rejection_from_wire(&rejection_to_wire(&rejection)), rejection);
        }
        for (nonfinite, max_norm, max_abs) in [
            (Nonfinite::Reject, None, None),
            (Nonfinite::Zero, Some(1.5), None),
            (Nonfinite::Halt, None, Some(2.5)),
        ] {
            let guard = Guard { nonfinite, max_norm, max_abs };
            assert_eq!(guard_from_wire(Some(guard_to_wire(&guard))), guard);
        }
        assert_eq!(guard_from_wire(None), Guard::default());
    }
}
