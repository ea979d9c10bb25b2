//! Prefetch: a thread or task parses and prepares batches while the model computes.

use std::future::Future;
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio::task;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::{Batch, Dataset, Error, Position, ShardReader};

/// Source of batches: a [`Dataset`], a [`ShardReader`] for one data shard, or a function, which may continue with the
/// next data shard.
pub trait Batches {
    /// Reads the next batch into `batch`, whose content is replaced and whose memory is reused. Returns `false` at the
    /// end.
    ///
    /// # Errors
    /// The input failed. No batch follows an error.
    fn read(&mut self, batch: &mut Batch) -> Result<bool, Error>;

    /// Reads the next batch from an asynchronous task. It must not block while it waits for other tasks. It may block
    /// on files.
    ///
    /// # Errors
    /// As [`Batches::read`].
    fn read_beside(
        &mut self,
        batch: &mut Batch,
    ) -> impl Future<Output = Result<bool, Error>> + Send {
        std::future::ready(self.read(batch))
    }
}

impl Batches for Dataset {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        Self::read(self, batch)
    }
}

impl Batches for ShardReader {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        Self::read(self, batch)
    }
}

impl<F: FnMut(&mut Batch) -> Result<bool, Error>> Batches for F {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        self(batch)
    }
}

/// The reason why no more batches follow.
#[derive(Debug)]
pub enum PrefetchError<E> {
    /// The input failed.
    Input(Error),
    /// The preparation of a batch failed.
    Prepare(E),
    /// The input thread panicked: a fault in this program.
    Panicked,
}

impl<E: Into<Diagnostic>> From<PrefetchError<E>> for Diagnostic {
    fn from(error: PrefetchError<E>) -> Self {
        match error {
            PrefetchError::Input(error) => error.into(),
            PrefetchError::Prepare(error) => error.into(),
            PrefetchError::Panicked => Self::error(Code::E9001, "the input thread panicked"),
        }
    }
}

type Item<T, E> = Result<(Position, T), PrefetchError<E>>;

/// Queue of prepared batches, at most `depth` ahead. Dropping the queue ends the thread or task.
#[derive(Debug)]
pub struct Prefetch<T, E> {
    queue: mpsc::Receiver<Item<T, E>>,
    thread: Option<JoinHandle<()>>,
    /// The task that replaces the thread.
    task: Option<task::JoinHandle<()>>,
    depth: usize,
}

impl<T: Send + 'static, E: Send + 'static> Prefetch<T, E> {
    /// Starts a thread that reads batches. `map` prepares each batch on that thread. The memory of the batch is reused.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn spawn(
        mut source: impl Batches + Send + 'static,
        depth: usize,
        mut map: impl FnMut(&Batch) -> Result<T, E> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, queue) = mpsc::channel(depth.max(1));
        let work = move || {
            let mut batch = Batch::default();
            loop {
                let item = match source.read(&mut batch) {
                    Ok(true) => map(&batch)
                        .map(|prepared| (batch.position, prepared))
                        .map_err(PrefetchError::Prepare),
                    Ok(false) => return,
                    Err(error) => Err(PrefetchError::Input(error)),
                };
                let last = item.is_err();
                if sender.blocking_send(item).is_err() || last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("input".to_owned())
            .spawn(work)?;
        Ok(Self {
            queue,
            thread: Some(thread),
            task: None,
            depth,
        })
    }

    /// Starts a task of the current runtime that reads batches, without a thread. Other tasks run between two batches.
    ///
    /// # Panics
    /// The caller is outside of a tokio runtime.
    pub fn spawn_task(
        mut source: impl Batches + Send + 'static,
        depth: usize,
        mut map: impl FnMut(&Batch) -> Result<T, E> + Send + 'static,
    ) -> Self {
        let (sender, queue) = mpsc::channel(depth.max(1));
        let task = tokio::spawn(async move {
            let mut batch = Batch::default();
            while let Ok(place) = sender.reserve().await {
                let item = match source.read_beside(&mut batch).await {
                    Ok(true) => map(&batch)
                        .map(|prepared| (batch.position, prepared))
                        .map_err(PrefetchError::Prepare),
                    Ok(false) => return,
                    Err(error) => Err(PrefetchError::Input(error)),
                };
                let last = item.is_err();
                place.send(item);
                if last {
                    return;
                }
            }
        });
        Self {
            queue,
            thread: None,
            task: Some(task),
            depth,
        }
    }

    /// Waits for the next batch and returns it; nothing at the end of the input.
    pub async fn next(&mut self) -> Option<Item<T, E>> {
        let item = self.queue.recv().await;
        if item.is_none()
            && let Some(task) = self.task.take()
            && task.await.is_err()
        {
            return Some(Err(PrefetchError::Panicked));
        }
        item.or_else(|| self.ended())
    }

    /// Returns whether [`Prefetch::next`] would return immediately.
    pub fn is_ready(&self) -> bool {
        !self.queue.is_empty() || self.queue.is_closed()
    }

    /// Waits for the next batch and returns it, for callers outside of a runtime.
    ///
    /// # Panics
    /// The caller is asynchronous code.
    pub fn blocking_next(&mut self) -> Option<Item<T, E>> {
        let item = self.queue.blocking_recv();
        item.or_else(|| self.ended())
    }

    /// Returns the number of batches in the queue, and the capacity of the queue.
    pub fn fill(&self) -> (usize, usize) {
        (self.queue.len(), self.depth)
    }

    fn ended(&mut self) -> Option<Item<T, E>> {
        match self.thread.take()?.join() {
            Ok(()) => None,
            Err(_) => Some(Err(PrefetchError::Panicked)),
        }
    }
}

impl<T, E> Drop for Prefetch<T, E> {
    fn drop(&mut self) {
        self.queue.close();
    }
}
