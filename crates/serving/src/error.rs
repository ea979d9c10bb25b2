//! Errors of a request, and their codes in each protocol.

use http::StatusCode;

use crate::text::message;

/// The reason why a request is not answered with predictions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request is wrong. Value, expectation and remedy are in the message.
    #[error("{0}")]
    Request(String),
    /// The client has not proved itself. The message says what is needed.
    #[error("{0}")]
    Unproved(&'static str),
    /// The request names a signature that the model does not have.
    #[error("{0}")]
    Precondition(String),
    /// The path or method does not exist.
    #[error("{0}")]
    Path(String),
    /// The request names a host that is not this server: a web page may have made it by DNS rebinding.
    #[error("{0}")]
    Misdirected(String),
    /// A web page of another site has made the request.
    #[error("{0}")]
    CrossSite(String),
    /// No such model, version or label.
    #[error("{0}")]
    NotFound(String),
    /// The request has too many rows.
    #[error("a request may have at most {most} rows, given {given}: send several requests")]
    Rows {
        /// Rows of the request.
        given: usize,
        /// The bound.
        most: usize,
    },
    /// The body is too large.
    #[error("the body of a request may have at most {most} bytes: send several requests")]
    Body {
        /// The bound.
        most: usize,
    },
    /// The rows are too large.
    #[error(
        "the values of a request may take at most {most} bytes of memory: send several requests, and no value more often than needed"
    )]
    Expanded {
        /// The bound.
        most: usize,
    },
    /// The answer is too large.
    #[error(
        "the answer to {rows} rows is too large: this model's answers have room for {rows_max} rows, send several requests"
    )]
    Answer {
        /// Rows of the request.
        rows: usize,
        /// The bound.
        rows_max: usize,
    },
    /// The body did not arrive in time.
    #[error("the body of the request did not arrive within {secs} s")]
    SlowBody {
        /// The deadline.
        secs: u64,
    },
    /// The queue is full.
    #[error("{waiting} requests are waiting, which is the bound: send this one again later")]
    Busy {
        /// Bound of the queue.
        waiting: usize,
    },
    /// The prediction was not made in time.
    #[error("the prediction was not made within {secs} s: send the request again later")]
    Late {
        /// The deadline.
        secs: u64,
    },
    /// The model cannot answer now.
    #[error("{0}")]
    Unavailable(String),
    /// A fault of this program or of the model.
    #[error("{0}")]
    Fault(String),
}

impl Error {
    /// Returns the status of an answer over HTTP.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Request(_) | Self::Precondition(_) | Self::Rows { .. } => StatusCode::BAD_REQUEST,
            Self::Unproved(_) => StatusCode::UNAUTHORIZED,
            Self::Misdirected(_) => StatusCode::MISDIRECTED_REQUEST,
            Self::CrossSite(_) => StatusCode::FORBIDDEN,
            Self::Path(_) | Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Body { .. } | Self::Expanded { .. } | Self::Answer { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::SlowBody { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Busy { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Fault(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the status of an answer over gRPC.
    pub(crate) fn grpc(&self) -> tonic::Status {
        use tonic::Code;
        let code = match self {
            Self::Request(_) | Self::Rows { .. } => Code::InvalidArgument,
            Self::Unproved(_) => Code::Unauthenticated,
            Self::Misdirected(_) | Self::CrossSite(_) => Code::PermissionDenied,
            Self::Precondition(_) => Code::FailedPrecondition,
            Self::Path(_) => Code::Unimplemented,
            Self::NotFound(_) => Code::NotFound,
            Self::Body { .. } | Self::Expanded { .. } | Self::Answer { .. } | Self::Busy { .. } => {
                Code::ResourceExhausted
            }
            Self::SlowBody { .. } | Self::Late { .. } => Code::DeadlineExceeded,
            Self::Unavailable(_) => Code::Unavailable,
            Self::Fault(_) => Code::Internal,
        };
        tonic::Status::new(code, message(&self.to_string()))
    }

    /// Returns the value of the label `outcome` of the metrics.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "busy",
            Self::Late { .. } | Self::Unavailable(_) | Self::Fault(_) => "failed",
            _ => "refused",
        }
    }
}
