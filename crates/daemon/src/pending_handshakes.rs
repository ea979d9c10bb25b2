//! Connections that have yet to show that they are worth serving, bounded in number: the oldest goes first.

use std::collections::VecDeque;
use std::future::Future;

use tokio::task::AbortHandle;

/// Tasks, one for each connection, of which there are at most so many. A newcomer always gets in: whoever has taken longest
/// goes, so that connections that say nothing, however many there are, keep out nobody who says at once what he wants.
#[derive(Debug)]
pub(crate) struct PendingHandshakes {
    tasks: VecDeque<AbortHandle>,
    most: usize,
}

impl PendingHandshakes {
    /// Bounds the tasks to `most`, at least 1.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            tasks: VecDeque::new(),
            most,
        }
    }

    /// Starts the task of a new connection, which is dropped with the task's.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.retain(|task| !task.is_finished());
        while self.tasks.len() >= self.most.max(1) {
            if let Some(oldest) = self.tasks.pop_front() {
                oldest.abort();
            }
        }
        self.tasks.push_back(tokio::spawn(task).abort_handle());
    }
}

impl Drop for PendingHandshakes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_goes_and_whoever_has_ended_counts_no_more() {
        let mut pending_handshakes = PendingHandshakes::new(2);
        let (over, mut ended) = tokio::sync::mpsc::unbounded_channel();
        /// Tells its number when its task is dropped.
        struct Told(u32, tokio::sync::mpsc::UnboundedSender<u32>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.1.send(self.0);
            }
        }
        for number in 0..4 {
            let told = Told(number, over.clone());
            pending_handshakes.spawn(async move {
                let _told = told;
                std::future::pending().await
            });
        }
        assert_eq!((ended.recv().await, ended.recv().await), (Some(0), Some(1)));
        let told = Told(9, over.clone());
        pending_handshakes.spawn(async move { drop(told) });
        assert_eq!((ended.recv().await, ended.recv().await), (Some(2), Some(9)));
        tokio::task::yield_now().await;
        pending_handshakes.spawn(std::future::pending());
        assert!(ended.try_recv().is_err(), "3 had room: 9 has ended");
        drop(pending_handshakes);
        assert_eq!(ended.recv().await, Some(3));
    }
}
