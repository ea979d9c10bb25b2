//! gRPC services whose messages have the budget and the deadlines of all bodies. tonic reserves the length that a message
//! announces, and waits for it without a deadline.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::Full;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::{Response, Status};

use crate::Error;
use crate::intake::{AnswerRoom, FREE_BYTES, Intake, Room, next_frame};
use crate::paced::Paced;

/// Memory of a message, by its bytes: it is copied once, and a value of one byte takes eight or more once it is decoded.
const WEIGHT: usize = 8;
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// A service, whose calls have one message each.
#[derive(Debug, Clone)]
pub(crate) struct Admitted<S> {
    pub(crate) service: S,
    pub(crate) intake: Intake,
}

impl<S: NamedService> NamedService for Admitted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Admitted<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let ready = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, ready);
        let intake = self.intake.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let mut room = Room::default();
            match timeout(intake.body_timeout, read(body, &intake, &mut room)).await {
                Ok(Ok(message)) => {
                    let body = Body::new(Full::new(message));
                    let request = http::Request::from_parts(head, body);
                    let answer = service.call(request).await;
                    answer.map(|answer| hold_room(answer, intake.body_timeout))
                }
                Ok(Err(status)) => Ok(status.into_http()),
                Err(_) => {
                    let secs = intake.body_timeout.as_secs();
                    Ok(Error::SlowBody { secs }.grpc().into_http())
                }
            }
        })
    }
}

/// Returns the answer of a service, which holds its part of the budget.
pub(crate) fn with_room<T>((answer, room): (T, AnswerRoom)) -> Response<T> {
    let mut response = Response::new(answer);
    response.extensions_mut().insert(room);
    response
}

/// Lets the body of an answer hold the room that the answer has, until the client has taken it, at most to the deadline.
fn hold_room(mut response: http::Response<Body>, deadline: Duration) -> http::Response<Body> {
    let Some(room) = response.extensions_mut().remove::<AnswerRoom>() else {
        return response;
    };
    response.map(|body| Body::new(Paced::new(body, room, deadline)))
}

fn more_than_announced(announced: usize) -> Status {
    Status::invalid_argument(format!(
        "the message has more bytes than the {announced} that it announces: a call has one message"
    ))
}

/// Reads a message with its prefix.
async fn read(body: Body, intake: &Intake, room: &mut Room) -> Result<Bytes, Status> {
    let most = intake.body_bytes_max;
    let too_large = || Error::Body { most }.grpc();
    let mut body = body;
    let mut message = BytesMut::new();
    loop {
        let next = next_frame(&mut body, message.len()).await;
        let next = next.map_err(|error| error.grpc())?;
        let Some(frame) = next else {
            return Ok(message.freeze());
        };
        let Ok(piece) = frame?.into_data() else {
            continue;
        };
        if message.len() + piece.len() > most.saturating_add(PREFIX_BYTES) {
            return Err(too_large());
        }
        message.extend_from_slice(&piece);
        if let Some([_, length @ ..]) = message.first_chunk::<PREFIX_BYTES>() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > most {
                return Err(too_large());
            }
            // Without this, a message that announces little would take no part of the budget.
            if message.len() > PREFIX_BYTES + length {
                return Err(more_than_announced(length));
            }
            if room.is_none() && length > FREE_BYTES {
                *room = intake.admit(length, WEIGHT).await;
            }
        }
    }
}
