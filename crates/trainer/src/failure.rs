//! The failures that end the steps of a session.

use trainyard_cluster_client::Error;
use trainyard_diagnostic::Diagnostic;

use crate::outcome::into_diagnostic;

/// The reason why the steps of a session have failed.
pub(crate) enum Failure {
    /// A call to the cluster failed.
    Cluster(Error),
    /// Anything else failed.
    Local(Diagnostic),
}

impl Failure {
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        match self {
            Self::Cluster(error) => into_diagnostic(&error),
            Self::Local(diagnostic) => diagnostic,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Cluster(error)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Local(diagnostic)
    }
}
