//! Errors of models.

use trainyard_diagnostic::{Code, Diagnostic};

/// Why a batch cannot be used, or a model not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job describes a model that cannot be built.
    #[error("the model cannot be built: {0}")]
    Invalid(String),
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

impl From<trainyard_feature_column::Error> for Error {
    fn from(error: trainyard_feature_column::Error) -> Self {
        Self::Value { column: error.column, message: error.message }
    }
}

impl From<Error> for Diagnostic {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Invalid(_) => Self::error(Code::E1006, text).help("correct the job file"),
            Error::Value { .. } => {
                Self::error(Code::E4004, text).help("correct the data, or the feature or label of the job")
            }
            Error::NoLabel => Self::error(Code::E9001, text),
        }
    }
}
