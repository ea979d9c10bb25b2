//! Where requests to stop a program come from.

use tokio_util::sync::CancellationToken;

use crate::StopSignals;

/// Source of the requests to stop a program.
#[derive(Debug, Clone, Default)]
pub enum StopSource {
    /// SIGTERM and SIGINT of this process, which the program catches.
    #[default]
    Signals,
    /// The caller of a program that runs as a library. The caller handles the signals of its process.
    Caller(CancellationToken),
}

/// Requests to stop, one after the other.
#[derive(Debug)]
pub enum StopRequests {
    /// Signals of this process.
    Signals(StopSignals),
    /// The caller of the program, which asks once.
    Caller {
        /// Cancelled by the caller.
        token: CancellationToken,
        /// The request was returned.
        is_reported: bool,
    },
}

impl StopSource {
    /// Begins to receive requests. Called within a runtime.
    ///
    /// # Errors
    /// The system does not let this process catch signals.
    pub fn requests(&self) -> std::io::Result<StopRequests> {
        match self {
            Self::Signals => StopSignals::catch().map(StopRequests::Signals),
            Self::Caller(token) => Ok(StopRequests::Caller {
                token: token.clone(),
                is_reported: false,
            }),
        }
    }

    /// Returns whether the caller has asked to stop. Always false for signals: the default action of a signal ends a
    /// command that does not catch it.
    pub fn is_requested(&self) -> bool {
        match self {
            Self::Signals => false,
            Self::Caller(token) => token.is_cancelled(),
        }
    }
}

impl StopRequests {
    /// Waits for the next request.
    pub async fn next(&mut self) {
        match self {
            Self::Signals(signals) => signals.next().await,
            Self::Caller {
                is_reported: true, ..
            } => std::future::pending().await,
            Self::Caller { token, is_reported } => {
                token.cancelled().await;
                *is_reported = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_caller_asks_once() {
        let token = CancellationToken::new();
        let source = StopSource::Caller(token.clone());
        let mut requests = source.requests().expect("no signal is caught");
        assert!(!source.is_requested());
        assert!(requests.next().now_or_never().is_none());
        token.cancel();
        assert!(source.is_requested());
        assert!(requests.next().now_or_never().is_some());
        assert!(requests.next().now_or_never().is_none());
    }
}
