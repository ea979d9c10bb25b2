//! Why a batch's values cannot be used.

/// A value that its column does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}`: {message}")]
pub struct Error {
    /// The feature.
    pub column: String,
    /// Rule, then value.
    pub message: String,
}
