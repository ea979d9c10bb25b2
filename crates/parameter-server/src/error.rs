//! Errors of a parameter server.

use trainyard_parameter_store as store;
use trainyard_protocol::{Reason, Refusal};

/// A failed request to a server.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server refused the request and changed nothing.
    #[error("{server} refused: {refusal}")]
    Refused {
        /// Name of the server, for messages.
        server: String,
        /// The reason.
        refusal: Refusal,
    },
}

impl Error {
    /// Whether the server may not take the memory.
    pub(crate) fn is_no_room(&self) -> bool {
        let Self::Refused { refusal, .. } = self;
        refusal.reason == Reason::NoRoom
    }

    /// Returns the error for a refusal by a store.
    pub fn refused(server: &str, error: &store::Error) -> Self {
        Self::Refused {
            server: server.to_owned(),
            refusal: refusal(error),
        }
    }
}

/// Converts a store's error to the refusal that is sent on the wire.
fn refusal(error: &store::Error) -> Refusal {
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

/// Returns an error and its cause in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
