//! Why a call did not do what was asked.

use trainyard_parameter_store as store;
use trainyard_protocol::{Reason, Refusal, root_cause};

/// A failed call to a peer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The peer answered no, and changed nothing.
    #[error("{peer} refused: {refusal}")]
    Refused {
        /// The peer, for people.
        peer: String,
        /// Its answer.
        refusal: Refusal,
    },
    /// No answer. Whether the call had an effect is not known; it may be made again.
    #[error("{peer} cannot be reached: {message}")]
    Unreachable {
        /// The peer, for people.
        peer: String,
        /// Why, for example `connection refused`.
        message: String,
    },
    /// The peer answered something that makes no sense.
    #[error("{peer} gave a wrong answer: {message}")]
    Protocol {
        /// The peer, for people.
        peer: String,
        /// What was wrong.
        message: String,
    },
    /// A wait came to its deadline.
    #[error("{0}")]
    Deadline(Box<trainyard_diagnostic::Diagnostic>),
}

impl Error {
    /// Returns the reason of a refusal.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal.reason),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed later without anybody changing anything in it.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
            || matches!(self.reason(), Some(Reason::NotReady | Reason::NotPrimary))
    }

    /// Returns the refusal of a store.
    pub fn refused(peer: &str, error: &store::Error) -> Self {
        Self::Refused {
            peer: peer.to_owned(),
            refusal: refusal(error),
        }
    }

    /// Reads a peer's status: a refusal by reason, anything else as "no answer".
    pub(crate) fn from_status(peer: &str, status: &tonic::Status) -> Self {
        if let Some(refusal) = Refusal::from_status(status) {
            return Self::Refused {
                peer: peer.to_owned(),
                refusal,
            };
        }
        let message = root_cause(status);
        match status.code() {
            tonic::Code::Unavailable
            | tonic::Code::DeadlineExceeded
            | tonic::Code::Cancelled
            | tonic::Code::Unknown
            | tonic::Code::Internal
            | tonic::Code::Aborted => Self::Unreachable {
                peer: peer.to_owned(),
                message,
            },
            _ => Self::Protocol {
                peer: peer.to_owned(),
                message,
            },
        }
    }
}

/// Returns what the wire says of a store's refusal.
pub fn refusal(error: &store::Error) -> Refusal {
    let reason = match error {
        store::Error::StaleEpoch { .. } => Reason::StaleEpoch,
        store::Error::Fenced { .. } => Reason::Fenced,
        store::Error::NotReady(_) => Reason::NotReady,
        store::Error::SequenceGap { .. } => Reason::SequenceGap,
        store::Error::OtherLayout { .. } => Reason::OtherLayout,
        store::Error::OtherCluster { .. } => Reason::OtherCluster,
        store::Error::Forgotten { .. } => Reason::Forgotten,
        store::Error::BadRequest(_) => Reason::BadRequest,
        store::Error::NotFinite { .. } => Reason::NotFinite,
        store::Error::NoTicket { .. } => Reason::NoTicket,
        store::Error::Ended => Reason::JobEnded,
        store::Error::Restore(_) => Reason::Storage,
        store::Error::TooLarge { .. } => Reason::TooLarge,
        store::Error::NoRoom { .. } => Reason::NoRoom,
    };
    Refusal::new(reason, error.to_string())
}
