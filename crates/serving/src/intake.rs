//! What requests may take of the server: of each, and of all together.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use trainyard_runtime::MemoryLimit;

use crate::Error;
use crate::filling::{Filled, RequestBounds};

/// Bytes of the values of a request, by those of its largest body.
const EXPANSION_MAX: usize = 4;
/// Bytes of all bodies that arrive or are answered, unless a quarter of the memory limit is less.
const BODIES_BYTES_MAX: u64 = 1 << 30;
/// Part of a body that does not count, so that small requests are answered while large ones wait.
pub(crate) const FREE_BYTES: usize = 64 << 10;
/// Longest body that is parsed by the thread that answers its connection. What it describes, by words that all its rows have, is some
/// hundred times as long at most.
const INLINE_BYTES: usize = 1 << 10;
/// Bytes of a permit.
const UNIT_BYTES: usize = 4 << 10;
/// Longest silence of a body that others wait for.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Bounds of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Most connections at a time. A further connection is closed.
    pub connections_max: usize,
    /// Time for the head of a request, from the connection or from the last answer.
    pub head_timeout: Duration,
    /// Time for the body of a request, from its head.
    pub body_timeout: Duration,
    /// Largest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// Most rows of a request.
    pub rows_max: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            body_bytes_max: 64 << 20,
            rows_max: 16_384,
        }
    }
}

/// Bounds of requests.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    pub(crate) bounds: RequestBounds,
    /// Largest body, in bytes.
    pub(crate) body_bytes_max: usize,
    /// Time for a body.
    pub(crate) body_timeout: Duration,
    bodies: Arc<Semaphore>,
    /// An answer waits for room while its request has some: they have budgets of their own, so that no two wait for each other.
    answers: Arc<Semaphore>,
    /// A batch waits for room while its body has some, and its answer while the batch has: each has a budget of its own.
    batches: Arc<Semaphore>,
    units: usize,
    /// Requests that are parsed at a time, or wait with their batches for room.
    parsers: Arc<Semaphore>,
}

/// What was read of a request.
pub(crate) trait Parsed {
    /// Returns the batch.
    fn filled(&mut self) -> &mut Filled;
}

impl Parsed for Filled {
    fn filled(&mut self) -> &mut Filled {
        self
    }
}

/// The part of the budget that a body has. Its small beginning has none.
pub(crate) type Room = Option<OwnedSemaphorePermit>;

/// The part of the budget that an answer has, until it has gone to the network. A small answer has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerRoom(Option<Arc<OwnedSemaphorePermit>>);

impl AnswerRoom {
    /// Returns whether the answer has a part of the budget.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl Intake {
    pub(crate) fn new(limits: HttpLimits) -> Self {
        let limit = MemoryLimit::of_process().map_or(u64::MAX, |limit| limit.bytes() / 4);
        let bytes = usize::try_from(limit.min(BODIES_BYTES_MAX)).unwrap_or(usize::MAX);
        let units = (bytes / UNIT_BYTES).max(1);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            bounds: RequestBounds {
                rows_max: limits.rows_max,
                bytes_max: limits.body_bytes_max.saturating_mul(EXPANSION_MAX),
            },
            body_bytes_max: limits.body_bytes_max,
            body_timeout: limits.body_timeout,
            bodies: Arc::new(Semaphore::new(units)),
            answers: Arc::new(Semaphore::new(units)),
            batches: Arc::new(Semaphore::new(units)),
            units,
            parsers: Arc::new(Semaphore::new(cores)),
        }
    }

    /// Waits until a body of so many bytes has room, each byte `weight` times. It has all of it or none: bodies that have a part
    /// and wait for another would wait for each other. A body that exceeds the whole budget takes all of it.
    pub(crate) async fn admit(&self, bytes: usize, weight: usize) -> Room {
        let counted = bytes.saturating_sub(FREE_BYTES).saturating_mul(weight);
        let wanted = self.units_of(counted);
        // The semaphore is never closed.
        Arc::clone(&self.bodies)
            .acquire_many_owned(wanted)
            .await
            .ok()
    }

    /// Waits until an answer has room: so many rows, of so many bytes each.
    ///
    /// # Errors
    /// The answer is too large, or other answers take all room for too long.
    pub(crate) async fn admit_answer(
        &self,
        rows: usize,
        row_bytes: usize,
    ) -> Result<AnswerRoom, Error> {
        let bytes = rows.saturating_mul(row_bytes);
        let most = self.bounds.bytes_max;
        if bytes > most {
            let rows_max = most / row_bytes.max(1);
            return Err(Error::Answer { rows, rows_max });
        }
        if bytes <= FREE_BYTES {
            return Ok(AnswerRoom::default());
        }
        let acquired = Arc::clone(&self.answers).acquire_many_owned(self.units_of(bytes));
        match timeout(self.body_timeout, acquired).await {
            Ok(permit) => Ok(AnswerRoom(permit.ok().map(Arc::new))),
            Err(_) => Err(self.late()),
        }
    }

    /// Parses a body of so many bytes, and gives its batch a part of the budget of all batches: a small body can describe a large one.
    /// All but the smallest bodies are parsed aside of the threads that answer connections.
    ///
    /// # Errors
    /// The body is wrong, or too many others wait.
    pub(crate) async fn parse<T: Parsed>(
        &self,
        bytes: usize,
        read: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        if bytes <= INLINE_BYTES {
            let mut parsed = read()?;
            self.admit_batch(parsed.filled()).await?;
            return Ok(parsed);
        }
        let permit = timeout(self.body_timeout, self.parsers.acquire()).await;
        let _permit = permit.map_err(|_| self.late())?;
        let mut parsed = in_place(read)?;
        self.admit_batch(parsed.filled()).await?;
        Ok(parsed)
    }

    /// Waits until a batch has room.
    ///
    /// # Errors
    /// Other batches take all room for too long.
    async fn admit_batch(&self, filled: &mut Filled) -> Result<(), Error> {
        if filled.bytes <= FREE_BYTES {
            return Ok(());
        }
        let wanted = self.units_of(filled.bytes);
        let acquired = Arc::clone(&self.batches).acquire_many_owned(wanted);
        let permit = timeout(self.body_timeout, acquired).await;
        // The semaphore is never closed.
        filled.room = permit.map_err(|_| self.late())?.ok();
        Ok(())
    }

    /// Returns the permits for so many bytes. What exceeds a whole budget takes all of it.
    fn units_of(&self, bytes: usize) -> u32 {
        let wanted = bytes.div_ceil(UNIT_BYTES).min(self.units);
        u32::try_from(wanted).unwrap_or(u32::MAX)
    }

    fn late(&self) -> Error {
        Error::Late {
            secs: self.body_timeout.as_secs(),
        }
    }
}

/// Waits for the next piece of a body of which `arrived` bytes have come. A body that others may wait for must not be silent.
///
/// # Errors
/// It was silent for too long.
pub(crate) async fn next_frame<B: Body + Unpin>(
    body: &mut B,
    arrived: usize,
) -> Result<Option<Result<Frame<B::Data>, B::Error>>, Error> {
    if arrived <= FREE_BYTES {
        return Ok(body.frame().await);
    }
    let secs = SILENCE_MAX.as_secs();
    let next = timeout(SILENCE_MAX, body.frame()).await;
    next.map_err(|_| Error::SlowBody { secs })
}

/// Runs work on this thread, whose other tasks move to another thread if the runtime has several.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::Batch;

    use super::*;

    #[tokio::test]
    async fn large_bodies_wait_for_each_other_and_small_ones_do_not() {
        let intake = Intake::new(HttpLimits::default());
        let whole = intake.admit(2 << 30, 1).await;
        let small = timeout(Duration::ZERO, intake.admit(FREE_BYTES, 8)).await;
        assert!(small.is_ok(), "a small one enters");
        let large = timeout(Duration::ZERO, intake.admit(1 << 20, 1)).await;
        assert!(large.is_err(), "a large one waits");
        drop(whole);
        let large = timeout(Duration::ZERO, intake.admit(1 << 20, 1)).await;
        assert!(large.is_ok(), "the first one has ended");
    }

    #[tokio::test]
    async fn a_batch_has_room_until_it_is_answered_however_small_its_body_is() {
        let intake = Intake::new(HttpLimits::default());
        let parse = |body: usize, bytes: usize| {
            let read = move || {
                Ok(Filled {
                    batch: Batch::default(),
                    made_bytes: 0,
                    bytes,
                    room: None,
                })
            };
            timeout(Duration::ZERO, intake.parse(body, read))
        };
        for body in [100, 10_000, 1 << 20] {
            let whole = parse(body, 2 << 30).await.expect("room").expect("parsed");
            let small = parse(body, FREE_BYTES).await;
            assert!(small.is_ok(), "a small one enters");
            assert!(parse(body, 1 << 20).await.is_err(), "a large one waits");
            drop(whole);
            let next = parse(body, 1 << 20).await;
            assert!(next.is_ok(), "the first one is answered");
        }
    }

    #[tokio::test]
    async fn an_answer_has_room_until_it_is_gone_and_one_that_is_too_large_is_refused() {
        let mut intake = Intake::new(HttpLimits::default());
        intake.bounds.bytes_max = usize::MAX;
        let whole = intake.admit_answer(1 << 20, 1 << 20).await.expect("room");
        let next = || timeout(Duration::ZERO, intake.admit_answer(1, 1 << 20));
        assert!(next().await.is_err(), "all room is taken");
        let small = timeout(Duration::ZERO, intake.admit_answer(1, 700)).await;
        assert!(small.is_ok(), "a small one is answered");
        drop(whole);
        assert!(next().await.is_ok(), "the first one has gone");
        intake.bounds.bytes_max = 1000;
        let refused = intake.admit_answer(101, 10).await.expect_err("too large");
        assert!(refused.to_string().contains("100 rows"), "{refused}");
    }
}
