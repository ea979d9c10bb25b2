//! Errors of models.

use trainyard_diagnostic::Diagnostic;

/// Why a batch cannot be used, or a model not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job describes a model that cannot be built; every reason at once.
    #[error("the model cannot be built: {} problem(s), the first: {}", .0.len(), .0[0])]
    Invalid(Vec<Diagnostic>),
    /// A value of a batch cannot be used.
    #[error("column `{column}`: {message}")]
    Value {
        /// The input column.
        column: String,
        /// Rule, then value.
        message: String,
    },
    /// Training or evaluation was asked for on features without label.
    #[error("the batch has no label column, as training and evaluation need")]
    NoLabel,
}
