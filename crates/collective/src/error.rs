//! The reasons why a generation ended, or was never formed.

use std::fmt;
use std::time::Duration;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_protocol::{Reason, Refusal};

/// A failed operation. The generation has ended with it, unless the cause is [`Cause::Misuse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Generation of the group.
    pub generation: u64,
    /// Cause of the failure.
    pub cause: Cause,
    /// The wait of this member, if it was waiting.
    pub wait: Option<Wait>,
}

/// The wait of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Description, for example `round 1 of part 0 of the sum of bucket 3 in step 7`.
    pub subject: String,
    /// Duration of the wait.
    pub waited: Duration,
}

/// The cause of a failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// A connection to the peer broke, or could not be made.
    #[error("{peer} is lost: {message}")]
    Lost {
        /// Name of the peer, for messages.
        peer: String,
        /// Description, for example `connection reset`.
        message: String,
    },
    /// The peer is connected, but neither sends nor accepts anything.
    #[error("{peer} was silent for {:.1} s", silence.as_secs_f32())]
    Silent {
        /// Name of the peer, for messages.
        peer: String,
        /// Duration of the silence.
        silence: Duration,
    },
    /// The peer has left the group in order, although this member still needed something from it.
    #[error("{peer} has left the group")]
    Left {
        /// Name of the peer, for messages.
        peer: String,
    },
    /// A member has ended the generation.
    #[error("{by} ended the generation: {reason}")]
    Aborted {
        /// Name of that member, for messages; `this member` for a call of [`crate::Collective::abort`].
        by: String,
        /// Reason that it has given.
        reason: String,
    },
    /// The peer belongs to another group, or to another generation.
    #[error("{peer} refused the request: {refusal}")]
    Refused {
        /// Name of the peer, for messages.
        peer: String,
        /// Its reply.
        refusal: Refusal,
    },
    /// The peer sent a message that does not fit this member's operation, because it computes something else.
    #[error("{peer} sent an invalid message: {message}")]
    InvalidMessage {
        /// Name of the peer, for messages.
        peer: String,
        /// The violated rule, then the value.
        message: String,
    },
    /// The call of this member is invalid.
    #[error("{0}")]
    Misuse(String),
}

/// Name of this member, in the cause of a generation that it has ended.
pub(crate) const THIS_MEMBER: &str = "this member";

impl Cause {
    /// Returns the cause that a peer's refusal means.
    pub(crate) fn refused(peer: String, refusal: Refusal) -> Self {
        match refusal.reason {
            Reason::GroupEnded => Self::Aborted {
                by: peer,
                reason: refusal.message,
            },
            _ => Self::Refused { peer, refusal },
        }
    }

    /// Returns the reason that is sent to other members.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Aborted { by, reason } if by == THIS_MEMBER => reason.clone(),
            other => other.to_string(),
        }
    }

    /// Returns whether another member has found the cause, and has told the others.
    pub(crate) fn was_told(&self) -> bool {
        matches!(self, Self::Aborted { by, .. } if by != THIS_MEMBER)
    }
}

impl Error {
    pub(crate) fn new(generation: u64, cause: Cause) -> Self {
        Self {
            generation,
            cause,
            wait: None,
        }
    }

    /// Returns the message for people.
    pub fn diagnostic(&self) -> Diagnostic {
        let (code, help) = match &self.cause {
            Cause::Lost { .. }
            | Cause::Silent { .. }
            | Cause::Left { .. }
            | Cause::Aborted { .. } => (
                Code::E2003,
                "the chief forms a new process group without the missing member; read the log of \
                that member",
            ),
            Cause::Refused { .. } => (
                Code::E2007,
                "the chief has formed a new process group in the meantime; this member must ask \
                the chief for its rank",
            ),
            Cause::InvalidMessage { .. } => (
                Code::E2007,
                "run the same release and the same job file on every host",
            ),
            Cause::Misuse(_) => (Code::E9001, "please report it, with the job file"),
        };
        Diagnostic::error(code, self.to_string()).help(help)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} (generation {} of the process group",
            self.cause, self.generation
        )?;
        if let Some(Wait { subject, waited }) = &self.wait {
            write!(
                formatter,
                "; waited {:.3} s for {subject}",
                waited.as_secs_f64()
            )?;
        }
        formatter.write_str(")")
    }
}

impl std::error::Error for Error {}
