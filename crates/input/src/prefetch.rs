//! A thread that reads ahead: batches are parsed and prepared while the model computes.

use std::future::Future;
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio::task;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::{Batch, Dataset, Error, Position, ShardReader};

/// What batches are read from: a [`Dataset`], a [`ShardReader`] for one data shard, or a function, which may go from one
/// data shard to the next.
pub trait Batches {
    /// Reads the next batch into `batch`, whose memory is used again, whatever it held; `false` at the end.
    ///
    /// # Errors
    /// The input failed. No batch comes after that.
    fn read(&mut self, batch: &mut Batch) -> Result<bool, Error>;

    /// The same for a task, which must not block while it waits for others. Files are not waited for.
    ///
    /// # Errors
    /// As there.
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

/// Why no more batches come.
#[derive(Debug)]
pub enum PrefetchError<E> {
    /// The input failed.
    Input(Error),
    /// The preparation of a batch failed.
    Prepare(E),
    /// The input thread ended without a word: a fault in this program.
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

/// Prepared batches, at most `depth` ahead. Dropping it ends the thread or task.
#[derive(Debug)]
pub struct Prefetch<T, E> {
    queue: mpsc::Receiver<Item<T, E>>,
    thread: Option<JoinHandle<()>>,
    /// Instead of the thread.
    task: Option<task::JoinHandle<()>>,
    depth: usize,
}

impl<T: Send + 'static, E: Send + 'static> Prefetch<T, E> {
    /// Starts to read. `map` prepares each batch, on the input's thread; the memory of the batch is used again.
    ///
    /// # Errors
    /// The system starts no thread.
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

    /// The same by a task of the runtime that this is called from, where threads of its own are not wanted: between two
    /// batches the others have their turn.
    ///
    /// # Panics
    /// It is called outside of a tokio runtime.
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

    /// Returns the next batch; nothing at the end of the input.
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

    /// Returns whether [`Prefetch::next`] would answer at once.
    pub fn is_ready(&self) -> bool {
        !self.queue.is_empty() || self.queue.is_closed()
    }

    /// Returns the next batch where there is no runtime.
    ///
    /// # Panics
    /// It is called from asynchronous code.
    pub fn blocking_next(&mut self) -> Option<Item<T, E>> {
        let item = self.queue.blocking_recv();
        item.or_else(|| self.ended())
    }

    /// Returns (batches that wait, batches that may).
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
