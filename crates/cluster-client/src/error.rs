//! Errors of calls to other tasks.

use trainyard_protocol::{Reason, Refusal, root_cause};

/// A failed call to a peer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The peer refused the call and changed nothing.
    #[error("{peer} refused: {refusal}")]
    Refused {
        /// Name of the peer, for messages.
        peer: String,
        /// The reason.
        refusal: Refusal,
    },
    /// No reply came. The call may have had an effect, and may be repeated.
    #[error("{peer} cannot be reached: {message}")]
    Unreachable {
        /// Name of the peer, for messages.
        peer: String,
        /// The cause, for example `connection refused`.
        message: String,
    },
    /// The peer's reply is invalid.
    #[error("{peer} gave a wrong answer: {message}")]
    Protocol {
        /// Name of the peer, for messages.
        peer: String,
        /// The fault.
        message: String,
    },
    /// A wait reached its deadline.
    #[error("{0}")]
    Deadline(Box<trainyard_diagnostic::Diagnostic>),
}

impl From<trainyard_parameter_server::Error> for Error {
    fn from(error: trainyard_parameter_server::Error) -> Self {
        let trainyard_parameter_server::Error::Refused { server, refusal } = error;
        Self::Refused {
            peer: server,
            refusal,
        }
    }
}

impl Error {
    /// Returns the reason of a refusal.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal.reason),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed if it is repeated unchanged.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
            || matches!(self.reason(), Some(Reason::NotReady | Reason::NotPrimary))
    }

    /// Converts a peer's status: a refusal to its reason, a transport failure to [`Error::Unreachable`].
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
