//! The pushes of rows that a member of a hybrid group has in progress.

use std::collections::VecDeque;

use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;
use trainyard_parameter_store::WINDOW;

/// Most pushes of a session in progress at once. A server remembers the last [`WINDOW`] sequence numbers of a session,
/// and takes a push that is further behind for a duplicate.
const PUSHES_MAX: usize = 32;
const _: () = assert!((PUSHES_MAX as u64) < WINDOW);

/// Pushes in progress, in the order in which they began, and their results.
#[derive(Debug)]
pub(super) struct RowPushes<T> {
    open: VecDeque<AbortOnDropHandle<T>>,
}

impl<T: Send + 'static> RowPushes<T> {
    pub(super) fn new() -> Self {
        Self {
            open: VecDeque::new(),
        }
    }

    /// Begins a push. If too many are in progress, first waits for the oldest one and returns its result.
    pub(super) async fn begin(
        &mut self,
        push: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, JoinError> {
        let ended = if self.open.len() < PUSHES_MAX {
            None
        } else {
            self.next().await?
        };
        self.open
            .push_back(AbortOnDropHandle::new(tokio::spawn(push)));
        Ok(ended)
    }

    /// Waits for the oldest push in progress, and returns its result. `None` if there is none.
    pub(super) async fn next(&mut self) -> Result<Option<T>, JoinError> {
        match self.open.pop_front() {
            Some(push) => push.await.map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_push_begins_once_so_few_are_under_way_that_none_is_taken_for_one_that_was_seen() {
        let (first, wait) = oneshot::channel();
        let mut pushes = RowPushes::new();
        pushes
            .begin(async move { wait.await.expect("it is told") })
            .await
            .expect("begun");
        for number in 1..PUSHES_MAX {
            let ended = pushes.begin(async move { number }).await.expect("begun");
            assert_eq!(ended, None);
        }
        let another = pushes.begin(async { PUSHES_MAX });
        tokio::pin!(another);
        assert!(
            another.as_mut().now_or_never().is_none(),
            "the first is under way"
        );
        first.send(0).expect("it waits to be told");
        assert_eq!(another.await.expect("begun"), Some(0));
    }

    #[tokio::test]
    async fn pushes_return_in_the_order_in_which_they_were_begun() {
        let mut pushes = RowPushes::new();
        let mut returned = Vec::new();
        for number in 0..3 * PUSHES_MAX {
            returned.extend(pushes.begin(async move { number }).await.expect("begun"));
        }
        while let Some(number) = pushes.next().await.expect("returned") {
            returned.push(number);
        }
        assert_eq!(returned, (0..3 * PUSHES_MAX).collect::<Vec<_>>());
    }
}
