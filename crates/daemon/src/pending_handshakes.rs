//! Pending handshakes: connections that are not served yet, bounded in number. The oldest is dropped first.

use std::collections::VecDeque;
use std::future::Future;

use tokio::task::JoinHandle;

/// Tasks of pending connections, one each. A new connection always gets in, and the oldest one is dropped if there are
/// too many. So silent connections, however many, cannot keep out a peer that completes its handshake at once.
#[derive(Debug)]
pub(crate) struct PendingHandshakes {
    tasks: VecDeque<JoinHandle<()>>,
    most: usize,
}

impl PendingHandshakes {
    /// Returns a set of at most `most` tasks, at least 1.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            tasks: VecDeque::new(),
            most,
        }
    }

    /// Starts the task of a new connection. The connection is dropped with its task. Returns when there is room: the oldest
    /// connections are closed then, so that no more than `most` are open however fast they come.
    pub(crate) async fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.retain(|task| !task.is_finished());
        while self.tasks.len() >= self.most.max(1) {
            if let Some(oldest) = self.tasks.pop_front() {
                oldest.abort();
                let _ = oldest.await;
            }
        }
        self.tasks.push_back(tokio::spawn(task));
    }
}

impl Drop for PendingHandshakes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends its number when its task is dropped.
    struct Told(u32, tokio::sync::mpsc::UnboundedSender<u32>);

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    #[tokio::test]
    async fn the_oldest_is_closed_before_a_further_one_begins_and_whoever_has_ended_counts_no_more()
    {
        let mut pending_handshakes = PendingHandshakes::new(2);
        let (over, mut ended) = tokio::sync::mpsc::unbounded_channel();
        let mut closed = Vec::new();
        for number in 0..4 {
            let told = Told(number, over.clone());
            let silent = async move {
                let _told = told;
                std::future::pending().await
            };
            pending_handshakes.spawn(silent).await;
            closed.extend(std::iter::from_fn(|| ended.try_recv().ok()));
            assert_eq!(closed.len(), (number as usize + 1).saturating_sub(2));
        }
        assert_eq!(closed, [0, 1]);
        let told = Told(9, over.clone());
        pending_handshakes.spawn(async move { drop(told) }).await;
        assert_eq!((ended.recv().await, ended.recv().await), (Some(2), Some(9)));
        tokio::task::yield_now().await;
        pending_handshakes.spawn(std::future::pending()).await;
        assert!(ended.try_recv().is_err(), "3 had room: 9 has ended");
        drop(pending_handshakes);
        assert_eq!(ended.recv().await, Some(3));
    }
}
