//! Why a generation ended, or never began.

use std::fmt;
use std::time::Duration;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_protocol::{Reason, Refusal};

/// An operation that was not done. The generation has ended with it, unless the cause is [`Cause::Misuse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Of the group.
    pub generation: u64,
    /// What happened.
    pub cause: Cause,
    /// What this member was waiting for, if it was.
    pub wait: Option<Wait>,
}

/// What a member was waiting for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// For example `round 1 of part 0 of the sum of bucket 3 in step 7`.
    pub subject: String,
    /// For how long.
    pub waited: Duration,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// A connection to the peer broke, or never came about.
    #[error("{peer} is lost: {message}")]
    Lost {
        /// The peer, for people.
        peer: String,
        /// For example `connection reset`.
        message: String,
    },
    /// The peer is connected, and neither sends nor takes anything.
    #[error("{peer} was silent for {:.1} s", silence.as_secs_f32())]
    Silent {
        /// The peer, for people.
        peer: String,
        /// How long.
        silence: Duration,
    },
    /// The peer has left the group in good order, and something of it was still needed.
    #[error("{peer} has left the group")]
    Left {
        /// The peer, for people.
        peer: String,
    },
    /// Somebody else ended the generation.
    #[error("{by} ended the generation: {reason}")]
    Aborted {
        /// Who did, for people; `this member` for a call of [`crate::Collective::abort`].
        by: String,
        /// Why, in its words.
        reason: String,
    },
    /// The peer is of another group, or of another generation.
    #[error("{peer} refused: {refusal}")]
    Refused {
        /// The peer, for people.
        peer: String,
        /// Its answer.
        refusal: Refusal,
    },
    /// The peer sent what does not fit this member's operation: other members compute something else.
    #[error("{peer} sent what does not fit: {message}")]
    Misfit {
        /// The peer, for people.
        peer: String,
        /// Rule, then value.
        message: String,
    },
    /// This member's own call cannot be done.
    #[error("{0}")]
    Misuse(String),
}

/// Who ended a generation, when it was a call of this member's.
pub(crate) const THIS_MEMBER: &str = "this member";

impl Cause {
    /// Returns what a peer's refusal means.
    pub(crate) fn refused(peer: String, refusal: Refusal) -> Self {
        match refusal.reason {
            Reason::GroupEnded => Self::Aborted {
                by: peer,
                reason: refusal.message,
            },
            _ => Self::Refused { peer, refusal },
        }
    }

    /// Returns what others are told.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Aborted { by, reason } if by == THIS_MEMBER => reason.clone(),
            other => other.to_string(),
        }
    }

    /// Returns whether it was another member that found it out, and has told the others.
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
                "the group is formed anew without the member that is missing; see its own log",
            ),
            Cause::Refused { .. } => (
                Code::E2007,
                "the group has been formed anew meanwhile; this member must ask the chief for its place",
            ),
            Cause::Misfit { .. } => (
                Code::E2007,
                "all members must run the same job file and release",
            ),
            Cause::Misuse(_) => (Code::E9001, "report it, with the job file"),
        };
        Diagnostic::error(code, self.to_string()).help(help)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} (generation {} of the group",
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
