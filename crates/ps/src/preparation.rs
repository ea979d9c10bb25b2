//! The preparation of a store: work that is done once, however often it is requested.
//!
//! A large store takes minutes to restore. The work belongs to the server, not to the call that began it. A call
//! waits for a limited time and then returns the progress. A repeated request waits for the same work.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tonic::Status;
use trainyard_protocol::{Reason, Refusal, v1};

/// Longest time that a call waits before it returns the progress. It is far less than
/// [`trainyard_protocol::limits::CALL_TIMEOUT`].
pub(crate) const LONG_POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// The outcome of a preparation; `None` until it has ended.
type Outcome = watch::Receiver<Option<Result<(), Status>>>;

/// The latest preparation of a store.
#[derive(Debug, Default)]
pub(crate) struct PreparationWork {
    latest: Mutex<Option<Latest>>,
}

#[derive(Debug)]
struct Latest {
    request: v1::PrepareRequest,
    outcome: Outcome,
}

/// The values that a request has made, when it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// The store still has them.
    Held,
    /// The store has never had them, or others since.
    Gone,
}

/// Effect of a request to prepare.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The preparation is running or done.
    Joined(Outcome),
    /// Another preparation is running and must end first.
    After(Outcome),
}

impl PreparationWork {
    /// Begins the requested preparation, unless it is running, or done and its values are held.
    pub(crate) fn ask<W: Future<Output = Result<(), Status>> + Send + 'static>(
        &self,
        request: &v1::PrepareRequest,
        made: Made,
        begin: impl FnOnce() -> W,
    ) -> Asked {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*latest {
            let same = known.request == *request;
            let outcome = known.outcome.clone();
            let under_way = outcome.borrow().is_none() && outcome.has_changed().is_ok();
            let done = made == Made::Held && matches!(*outcome.borrow(), Some(Ok(())));
            match (under_way, same) {
                (true, false) => return Asked::After(outcome),
                (true, true) => return Asked::Joined(outcome),
                (false, true) if done => return Asked::Joined(outcome),
                (false, _) => {}
            }
        }
        let (tell, outcome) = watch::channel(None);
        let work = begin();
        tokio::spawn(async move {
            let done = work.await;
            tell.send_replace(Some(done));
        });
        *latest = Some(Latest {
            request: request.clone(),
            outcome: outcome.clone(),
        });
        Asked::Joined(outcome)
    }
}

/// Waits for an outcome, at most for `hold`; `None` if it has not come.
///
/// # Errors
/// The preparation failed, or it ended without an outcome.
pub(crate) async fn within(hold: Duration, outcome: &mut Outcome) -> Result<Option<()>, Status> {
    match tokio::time::timeout(hold, outcome.wait_for(Option::is_some)).await {
        Ok(Ok(done)) => done.clone().transpose(),
        Ok(Err(_)) => {
            let message = "the variables were not prepared: the work ended without an outcome";
            Err(Refusal::new(Reason::NotReady, message.to_owned()).into())
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    /// Work that ends on request, and counts how often it was begun.
    #[derive(Debug, Default)]
    struct Work {
        begun: AtomicUsize,
        end: Notify,
        fails: bool,
    }

    impl Work {
        fn begin(self: &Arc<Self>) -> impl Future<Output = Result<(), Status>> + use<> {
            self.begun.fetch_add(1, Ordering::Relaxed);
            let this = Arc::clone(self);
            async move {
                this.end.notified().await;
                if this.fails {
                    Err(Status::internal("it cannot be read"))
                } else {
                    Ok(())
                }
            }
        }
    }

    fn request(seed: u64) -> v1::PrepareRequest {
        v1::PrepareRequest {
            seed,
            ..v1::PrepareRequest::default()
        }
    }

    fn joined(asked: Asked) -> Outcome {
        match asked {
            Asked::Joined(outcome) => outcome,
            Asked::After(_) => panic!("it waits for another one"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_repeated_waits_for_the_work_under_way_and_is_not_begun_again() {
        let preparation = PreparationWork::default();
        let work = Arc::new(Work::default());
        for _ in 0..3 {
            let mut outcome = joined(preparation.ask(&request(1), Made::Gone, || work.begin()));
            assert_eq!(
                within(LONG_POLL_TIMEOUT, &mut outcome)
                    .await
                    .expect("under way"),
                None
            );
        }
        let mut outcome = joined(preparation.ask(&request(1), Made::Gone, || work.begin()));
        work.end.notify_one();
        assert_eq!(
            within(LONG_POLL_TIMEOUT, &mut outcome).await.expect("done"),
            Some(())
        );
        // A late copy of the request changes nothing, as long as the store has the values that it made.
        let mut late = joined(preparation.ask(&request(1), Made::Held, || work.begin()));
        assert_eq!(
            within(LONG_POLL_TIMEOUT, &mut late).await.expect("done"),
            Some(())
        );
        assert_eq!(work.begun.load(Ordering::Relaxed), 1);
        drop(joined(
            preparation.ask(&request(1), Made::Gone, || work.begin()),
        ));
        assert_eq!(
            work.begun.load(Ordering::Relaxed),
            2,
            "the store has lost it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn another_request_waits_until_the_one_under_way_has_ended() {
        let preparation = PreparationWork::default();
        let work = Arc::new(Work::default());
        drop(joined(
            preparation.ask(&request(1), Made::Gone, || work.begin()),
        ));
        let Asked::After(mut before) = preparation.ask(&request(2), Made::Gone, || work.begin())
        else {
            panic!("two at once");
        };
        work.end.notify_one();
        assert_eq!(
            within(LONG_POLL_TIMEOUT, &mut before).await.expect("done"),
            Some(())
        );
        drop(joined(
            preparation.ask(&request(2), Made::Gone, || work.begin()),
        ));
        assert_eq!(work.begun.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_failed_tells_all_who_wait_and_is_begun_again_when_asked_for() {
        let preparation = PreparationWork::default();
        let work = Arc::new(Work {
            fails: true,
            ..Work::default()
        });
        let mut outcomes =
            [(); 2].map(|()| joined(preparation.ask(&request(1), Made::Gone, || work.begin())));
        work.end.notify_one();
        for outcome in &mut outcomes {
            let told = within(LONG_POLL_TIMEOUT, outcome)
                .await
                .expect_err("it cannot be read");
            assert_eq!(told.message(), "it cannot be read");
        }
        drop(joined(
            preparation.ask(&request(1), Made::Held, || work.begin()),
        ));
        assert_eq!(work.begun.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_is_no_wait_for_ever() {
        let preparation = PreparationWork::default();
        let panics = || async { panic!("expected") };
        let mut outcome = joined(preparation.ask(&request(1), Made::Gone, panics));
        let told = within(LONG_POLL_TIMEOUT, &mut outcome)
            .await
            .expect_err("it panics");
        assert!(told.message().contains("without an outcome"), "{told}");
    }
}
