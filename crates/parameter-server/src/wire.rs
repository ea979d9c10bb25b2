//! Conversions between the store's types and the generated messages: each message is converted here, and nowhere else.
//!
//! Requests, replies and the records of the log use the same conversions. A new field of a push is a line of the
//! `.proto` file, of [`PushHeader`](trainyard_parameter_store::PushHeader) and of `wire/step.rs`.

mod guard;
mod identity;
mod selection;
mod status;
mod step;

use trainyard_protocol::{Reason, Refusal, convert, payload};

pub(crate) use guard::{guard_from_wire, guard_to_wire, rejection_from_wire, rejection_to_wire};
pub(crate) use identity::{batch_from_wire, batch_to_wire};
pub use identity::{identity_from_wire, identity_to_wire};
pub(crate) use selection::{selection_from_wire, selection_to_wire};
pub use status::{
    part_read_from_wire, part_read_to_wire, progress_from_wire, status_from_wire, status_to_wire,
};
pub(crate) use status::{
    position_from_wire, position_to_wire, provenance_from_wire, provenance_to_wire,
};
pub(crate) use step::push_from_wire;
pub use step::{
    WireStep, pull_to_wire, pulled_from_wire, pulled_to_wire, push_to_wire, pushed_from_wire,
    pushed_to_wire, step_from_wire,
};

/// An invalid message.
#[derive(Debug, thiserror::Error)]
pub enum Invalid {
    /// A field has a value that it must not have.
    #[error(transparent)]
    Field(#[from] convert::Invalid),
    /// Values, rows or ids have a wrong length.
    #[error(transparent)]
    Length(#[from] payload::LengthError),
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::new(Reason::BadRequest, invalid.to_string())
    }
}

/// Returns the value of a field that must be set.
fn required<T>(field: &'static str, value: Option<T>) -> Result<T, convert::Invalid> {
    value.ok_or_else(|| convert::Invalid {
        field,
        rule: "must be set",
        given: "nothing".to_owned(),
    })
}
