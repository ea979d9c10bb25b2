//! Answers that go to the network piece by piece. A client that reads slowly holds the room of a large answer no longer than
//! its deadline.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::intake::AnswerRoom;

/// Bytes that a connection gets at a time. They are a copy, which the connection may hold as long as it wants.
const PIECE_BYTES: usize = 64 << 10;

/// The body of an answer. At the deadline, what has not gone to the connection is dropped with its room, and the client gets no
/// end of the answer.
#[derive(Debug)]
pub(crate) struct Paced<B> {
    answer: Arc<Mutex<Option<Answer<B>>>>,
    size: SizeHint,
    /// The task that drops the answer at its deadline; absent without room.
    deadline: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Answer<B> {
    body: B,
    /// The rest of the frame that goes out.
    rest: Bytes,
    room: AnswerRoom,
}

/// The client has not taken the answer within its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotTaken;

impl fmt::Display for NotTaken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the client did not take its answer in time")
    }
}

impl Error for NotTaken {}

impl<B: Body<Data = Bytes> + Send + 'static> Paced<B> {
    /// Returns the body of an answer, which the client has to take within `deadline` if it holds room.
    pub(crate) fn new(body: B, room: AnswerRoom, deadline: Duration) -> Self {
        let size = body.size_hint();
        let has_room = room.is_some();
        let answer = Arc::new(Mutex::new(Some(Answer {
            body,
            rest: Bytes::new(),
            room,
        })));
        let deadline = has_room.then(|| {
            // A body that ends before does not wait for the end of this task.
            let answer = Arc::downgrade(&answer);
            tokio::spawn(async move {
                sleep(deadline).await;
                if let Some(answer) = answer.upgrade() {
                    drop(answer.lock().take());
                }
            })
        });
        Self {
            answer,
            size,
            deadline,
        }
    }
}

impl<B> Drop for Paced<B> {
    fn drop(&mut self) {
        if let Some(deadline) = &self.deadline {
            deadline.abort();
        }
    }
}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let mut locked = this.answer.lock();
        let Some(answer) = locked.as_mut() else {
            return Poll::Ready(Some(Err(NotTaken.into())));
        };
        if answer.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut answer.body).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(frame) => frame.map_err(Into::into)?,
            };
            match frame.into_data() {
                Ok(data) if answer.room.is_some() => answer.rest = data,
                Ok(data) => {
                    this.size = answer.body.size_hint();
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = answer.rest.len().min(PIECE_BYTES);
        let piece = Bytes::copy_from_slice(&answer.rest[..length]);
        answer.rest.advance(length);
        if answer.rest.is_empty() {
            // The piece that goes out does not hold the whole.
            answer.rest = Bytes::new();
        }
        if let Some(left) = this.size.exact() {
            this.size = SizeHint::with_exact(left.saturating_sub(length as u64));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let answer = self.answer.lock();
        answer
            .as_ref()
            .is_some_and(|answer| answer.rest.is_empty() && answer.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;
    use crate::intake::{HttpLimits, Intake};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_its_answer_gives_the_room_back_at_the_deadline() {
        let mut intake = Intake::new(HttpLimits::default());
        intake.bounds.bytes_max = usize::MAX;
        let room = intake.admit_answer(1 << 20, 1 << 20).await.expect("room");
        let whole = Bytes::from(vec![7; PIECE_BYTES + 1]);
        let mut slow = Paced::new(Full::new(whole), room, Duration::from_secs(20));
        assert_eq!(slow.size_hint().exact(), Some(PIECE_BYTES as u64 + 1));
        let piece = slow.frame().await.expect("a frame").expect("a piece");
        assert_eq!(piece.data_ref().map(Bytes::len), Some(PIECE_BYTES));
        let began = tokio::time::Instant::now();
        intake
            .admit_answer(1, 1 << 20)
            .await
            .expect("room at the deadline");
        assert_eq!(began.elapsed().as_secs(), 20);
        let refused = slow.frame().await.expect("a frame").expect_err("no rest");
        assert!(refused.is::<NotTaken>());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_taken_is_whole_and_gives_its_room_back() {
        let mut intake = Intake::new(HttpLimits::default());
        intake.bounds.bytes_max = usize::MAX;
        let room = intake.admit_answer(1 << 20, 1 << 20).await.expect("room");
        let whole: Bytes = (0..3 * PIECE_BYTES + 5).map(|place| place as u8).collect();
        let paced = Paced::new(Full::new(whole.clone()), room, Duration::from_secs(30));
        let taken = paced.collect().await.expect("it is taken").to_bytes();
        assert_eq!(taken, whole);
        let next = tokio::time::timeout(Duration::ZERO, intake.admit_answer(1, 1 << 20));
        assert!(next.await.is_ok(), "the room is free");
    }
}
