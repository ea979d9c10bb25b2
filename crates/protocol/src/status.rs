//! Refusals, and the only table that maps them to gRPC status codes.

use std::io::ErrorKind;

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::cut;
use crate::limits::PEER_MESSAGE_BYTES_MAX;

/// Metadata key that carries the reason by name.
const REASON_KEY: &str = "trainyard-reason";

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $text:literal $code:ident;)*) => {
        /// Reason of a refused request. A refused request has changed nothing.
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
    /// The term of the request is lower than the term for which the parameter server was claimed.
    StaleEpoch "stale_epoch" FailedPrecondition;
    /// A newer session of the same task exists, or this one was closed.
    Fenced "fenced" FailedPrecondition;
    /// The parameter server holds no variables yet, or does not accept workers.
    NotReady "not_ready" Unavailable;
    /// The server's replica of the shard is not the primary. The other replica may be.
    NotPrimary "not_primary" Unavailable;
    /// The sequence number leaves a gap.
    SequenceGap "sequence_gap" OutOfRange;
    /// The peer has computed another layout, from another job file or cluster.
    OtherLayout "other_layout" FailedPrecondition;
    /// The peer belongs to another cluster.
    OtherCluster "other_cluster" FailedPrecondition;
    /// Another live process serves the same task.
    TaskTaken "task_taken" AlreadyExists;
    /// The server was restored since the pull and has lost its selection. The push must name it.
    Forgotten "forgotten" FailedPrecondition;
    /// The message does not fit the slices it names.
    BadRequest "bad_request" InvalidArgument;
    /// Too many pushes of the task were refused for their values. The task no longer takes part.
    Quarantined "quarantined" FailedPrecondition;
    /// The caller has not proved its identity.
    Unproved "unproved" Unauthenticated;
    /// The caller's role may not call the method, or the message names another task.
    NotAllowed "not_allowed" PermissionDenied;
    /// A gradient holds NaN or infinity.
    NotFinite "not_finite" InvalidArgument;
    /// The step was pushed without a ticket: the last step has been applied.
    NoTicket "no_ticket" FailedPrecondition;
    /// The job has ended.
    JobEnded "job_ended" FailedPrecondition;
    /// The process group has another generation by now, or is another group.
    OtherGroup "other_group" FailedPrecondition;
    /// A member of the process group has ended the generation. The message gives the reason.
    GroupEnded "group_ended" Aborted;
    /// A file could not be read or written.
    Storage "storage" Internal;
    /// A limit or a lacking right of the peer's process, which the next attempt meets again.
    Limit "limit" FailedPrecondition;
    /// The values to begin with were read, and do not fit the model.
    Unfit "unfit" FailedPrecondition;
    /// The memory budget of the parameter server is exceeded.
    NoRoom "no_room" ResourceExhausted;
    /// A message is too large.
    TooLarge "too_large" ResourceExhausted;
}

/// A refusal: a reason that programs act on, and a message that people read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Reason, for programs.
    pub reason: Reason,
    /// Message for people: rule, then value.
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
        // The message is sent in a header, whose size is limited.
        let message = cut(&refusal.message, PEER_MESSAGE_BYTES_MAX);
        let mut status = Status::new(refusal.reason.code(), message);
        status.metadata_mut().insert(
            REASON_KEY,
            MetadataValue::from_static(refusal.reason.as_str()),
        );
        status
    }
}

/// Returns the innermost informative cause: `connection refused` instead of `transport error`.
pub fn root_cause(status: &Status) -> String {
    let mut text = cut(status.message(), PEER_MESSAGE_BYTES_MAX).to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        text = match error.downcast_ref::<std::io::Error>() {
            // For these two kinds, the message matters: TLS uses them for errors of certificates.
            Some(io) if !matches!(io.kind(), ErrorKind::Other | ErrorKind::InvalidData) => {
                return io.kind().to_string();
            }
            _ => error.to_string(),
        };
        source = error.source();
    }
    match text.as_str() {
        "" => format!("{:?}", status.code()),
        // The reply of a TLS server to a plain-text client is not an HTTP/2 frame.
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
