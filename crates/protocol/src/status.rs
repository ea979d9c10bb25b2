//! The one table between refusals and gRPC status codes.

use std::io::ErrorKind;

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::cut;
use crate::limits::PEER_MESSAGE_BYTES_MAX;

/// Metadata key that carries the reason by name.
const REASON_KEY: &str = "trainyard-reason";

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $text:literal $code:ident;)*) => {
        /// Why a request was refused. Nothing was changed by it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Returns the name on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            fn code(self) -> Code {
                match self { $(Self::$name => Code::$code,)* }
            }

            fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

reasons! {
    /// The request's epoch is lower than the one the ps was claimed for.
    StaleEpoch "stale_epoch" FailedPrecondition;
    /// A newer session of the same task exists, or this one was closed.
    Fenced "fenced" FailedPrecondition;
    /// The ps holds no variables yet, or does not let workers in.
    NotReady "not_ready" Unavailable;
    /// The server's replica of the shard is not the one that serves it: the other one may be.
    NotPrimary "not_primary" Unavailable;
    /// The sequence number leaves a gap.
    SequenceGap "sequence_gap" OutOfRange;
    /// The peer computed another layout: another job file or cluster.
    OtherLayout "other_layout" FailedPrecondition;
    /// The peer belongs to another cluster.
    OtherCluster "other_cluster" FailedPrecondition;
    /// Another live process serves the same task.
    TaskTaken "task_taken" AlreadyExists;
    /// A push must name what it updates: the server was restarted since its pull.
    Forgotten "forgotten" FailedPrecondition;
    /// The message does not fit the slices it names.
    BadRequest "bad_request" InvalidArgument;
    /// Too many pushes of the task were refused for their values: it takes part no more.
    Quarantined "quarantined" FailedPrecondition;
    /// The caller has not proved which task it is.
    Unproved "unproved" Unauthenticated;
    /// The caller's role may not call this, or it speaks as another task.
    NotAllowed "not_allowed" PermissionDenied;
    /// A gradient holds NaN or infinity.
    NotFinite "not_finite" InvalidArgument;
    /// The step was pushed without the right to: the last one has been applied.
    NoTicket "no_ticket" FailedPrecondition;
    /// The job has ended.
    JobEnded "job_ended" FailedPrecondition;
    /// The group of workers has been formed anew since, or is another one.
    OtherGroup "other_group" FailedPrecondition;
    /// A member of the group of workers has ended its generation, for the reason that the message gives.
    GroupEnded "group_ended" Aborted;
    /// A file could not be read or written.
    Storage "storage" Internal;
    /// A ps may not hold as much memory.
    NoRoom "no_room" ResourceExhausted;
    /// A message would be too large.
    TooLarge "too_large" ResourceExhausted;
}

/// A refusal: a reason that programs act on, and a message that people read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub reason: Reason,
    /// For people: rule, then value.
    pub message: String,
}

impl Refusal {
    /// Returns a refusal.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// Returns the refusal that a peer's status carries, if it carries one.
    pub fn from_status(status: &Status) -> Option<Self> {
        let text = status.metadata().get(REASON_KEY)?.to_str().ok()?;
        let message = cut(status.message(), PEER_MESSAGE_BYTES_MAX).to_owned();
        Some(Self {
            reason: Reason::parse(text)?,
            message,
        })
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        // It travels in a header, of which there is not much room either.
        let message = cut(&refusal.message, PEER_MESSAGE_BYTES_MAX);
        let mut status = Status::new(refusal.reason.code(), message);
        status.metadata_mut().insert(
            REASON_KEY,
            MetadataValue::from_static(refusal.reason.as_str()),
        );
        status
    }
}

/// Returns the innermost cause that says something: `connection refused` rather than `transport error`.
pub fn root_cause(status: &Status) -> String {
    let mut text = cut(status.message(), PEER_MESSAGE_BYTES_MAX).to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        text = match error.downcast_ref::<std::io::Error>() {
            // Of these two, the kind says nothing: TLS tells by them what is wrong with a certificate.
            Some(io) if !matches!(io.kind(), ErrorKind::Other | ErrorKind::InvalidData) => {
                return io.kind().to_string();
            }
            _ => error.to_string(),
        };
        source = error.source();
    }
    match text.as_str() {
        "" => format!("{:?}", status.code()),
        // What TLS answers to somebody who does not speak it is no frame.
        other if other.contains("frame with invalid size") => {
            format!("{text}: does it speak TLS? Then start this task with --tls-dir")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_survives_the_wire() {
        let refusal = Refusal::new(Reason::StaleEpoch, "epoch must be at least 3, given 2");
        assert_eq!(
            Refusal::from_status(&Status::from(refusal.clone())),
            Some(refusal)
        );
        assert_eq!(
            Refusal::from_status(&Status::internal("no reason given")),
            None
        );
    }
}
