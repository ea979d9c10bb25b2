//! Error of a value that cannot be used.

/// A value that its column cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}`: {message}")]
pub struct Error {
    /// Name of the feature.
    pub column: String,
    /// The rule, then the value.
    pub message: String,
}
