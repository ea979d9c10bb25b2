//! Polling of the requests to end the job that callbacks of an evaluator have made. A poll runs in the background, because a
//! bucket may take seconds to answer.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::warn;
use trainyard_model_dir::{EndRequest, Error, Interval};
use trainyard_runtime::blocking;

/// Interval between polls.
const POLL_INTERVAL: Interval = Interval {
    folder: Duration::from_millis(500),
    bucket: Duration::from_secs(10),
};

/// Polls the requests.
pub(super) struct EndRequests {
    model_dir: PathBuf,
    interval: Duration,
    due: Instant,
    looking: Option<JoinHandle<Result<Option<EndRequest>, Error>>>,
    /// A problem has been logged. Only the first one is.
    is_told: bool,
}

impl EndRequests {
    pub(super) fn of(model_dir: PathBuf) -> Self {
        Self {
            interval: POLL_INTERVAL.of(&model_dir),
            model_dir,
            due: Instant::now(),
            looking: None,
            is_told: false,
        }
    }

    /// Starts a poll that is due. Never waits. Returns the reason of the request that a poll has found for the chief of this
    /// term.
    pub(super) async fn poll(&mut self, epoch: u64) -> Option<String> {
        let mut found = None;
        if let Some(looking) = self.looking.take_if(|looking| looking.is_finished()) {
            self.due = Instant::now() + self.interval;
            match looking.await {
                Ok(Ok(request)) => found = request,
                Ok(Err(error)) => self.warn_once(&error.to_string()),
                Err(panic) => self.warn_once(&panic.to_string()),
            }
        }
        if self.looking.is_none() && Instant::now() >= self.due {
            let model_dir = self.model_dir.clone();
            self.looking = Some(blocking(move || EndRequest::read(&model_dir)));
        }
        let own = found.filter(|request| request.cluster_epoch == epoch);
        own.map(|request| request.reason)
    }

    fn warn_once(&mut self, problem: &str) {
        if !self.is_told {
            warn!("the chief cannot read whether callbacks of an evaluator end the job: {problem}");
        }
        self.is_told = true;
    }
}
