//! Guards and rejections as messages.

use trainyard_parameter_store::{Fault, Guard, Nonfinite, Rejection};
use trainyard_protocol::v1;

/// Converts a guard to a message.
pub(crate) fn guard_to_wire(guard: &Guard) -> v1::Guard {
    let nonfinite = match guard.nonfinite {
        Nonfinite::Reject => v1::Nonfinite::Reject,
        Nonfinite::Zero => v1::Nonfinite::Zero,
        Nonfinite::Halt => v1::Nonfinite::Halt,
    };
    v1::Guard {
        nonfinite: nonfinite.into(),
        max_norm: guard.max_norm,
        max_abs: guard.max_abs,
    }
}

/// Converts a message to a guard; the default if there is none.
pub(crate) fn guard_from_wire(guard: Option<v1::Guard>) -> Guard {
    let guard = guard.unwrap_or_default();
    let nonfinite = match guard.nonfinite() {
        v1::Nonfinite::Unspecified | v1::Nonfinite::Reject => Nonfinite::Reject,
        v1::Nonfinite::Zero => Nonfinite::Zero,
        v1::Nonfinite::Halt => Nonfinite::Halt,
    };
    Guard {
        nonfinite,
        max_norm: guard.max_norm,
        max_abs: guard.max_abs,
    }
}

/// Converts a rejection to a message.
pub(crate) fn rejection_to_wire(rejection: &Rejection) -> v1::Rejection {
    let Rejection {
        fault,
        variable,
        position,
        bits,
    } = *rejection;
    let fault = match fault {
        Fault::Nonfinite => v1::ValueFault::Nonfinite,
        Fault::Norm => v1::ValueFault::Norm,
        Fault::Abs => v1::ValueFault::Abs,
    };
    v1::Rejection {
        fault: fault.into(),
        variable,
        position,
        value: bits,
    }
}

/// Converts a message to a rejection.
pub(crate) fn rejection_from_wire(rejection: &v1::Rejection) -> Rejection {
    let fault = match rejection.fault() {
        v1::ValueFault::Unspecified | v1::ValueFault::Nonfinite => Fault::Nonfinite,
        v1::ValueFault::Norm => Fault::Norm,
        v1::ValueFault::Abs => Fault::Abs,
    };
    let v1::Rejection {
        variable,
        position,
        value: bits,
        ..
    } = *rejection;
    Rejection {
        fault,
        variable,
        position,
        bits,
    }
}
