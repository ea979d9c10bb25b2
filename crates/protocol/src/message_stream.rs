//! Streams of gRPC messages that end in a tensor, without copies of the tensor.
//!
//! A body holds a sequence of messages in the format of [`crate::framing`].

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes};
use http_body_util::BodyExt as _;
use prost::Message;
use tonic::Status;

use crate::framing::{Pieces, front, split};

/// Largest payload that is copied after its fields, in bytes, so that one frame carries both.
const JOINED_BYTES_MAX: usize = 1024;

/// Returns the pieces of a message with these fields and this payload. The payload in `fields` must be empty. No piece
/// is empty.
pub fn message(fields: &impl Message, payload: impl IntoIterator<Item = Bytes>) -> VecDeque<Bytes> {
    let mut pieces: VecDeque<Bytes> = payload
        .into_iter()
        .filter(|piece| !piece.is_empty())
        .collect();
    let bytes: usize = pieces.iter().map(Bytes::len).sum();
    let joined = bytes <= JOINED_BYTES_MAX;
    let mut front = front(fields, bytes, if joined { bytes } else { 0 });
    if joined {
        pieces.drain(..).for_each(|piece| front.put(piece));
    }
    pieces.push_front(front.freeze());
    pieces
}

/// Reader of the messages of a body.
#[derive(Debug)]
pub struct Messages {
    body: tonic::body::Body,
    arrived: Pieces,
    bytes_max: usize,
}

impl Messages {
    /// Returns a reader of messages of at most `bytes_max` bytes each.
    pub fn new(body: tonic::body::Body, bytes_max: usize) -> Self {
        Self {
            body,
            arrived: Pieces::default(),
            bytes_max,
        }
    }

    /// Returns the fields of the next message, with an empty payload, and the pieces of its payload; nothing after the
    /// end of the stream. The future is cancel-safe.
    ///
    /// # Errors
    /// A message is too large or cannot be decoded, the stream ends within a message, or the connection failed.
    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<(M, Vec<Bytes>)>, Status> {
        loop {
            if let Some(whole) = self.arrived.message(self.bytes_max)? {
                let (fields, payload) = split(whole)?;
                let message = M::decode(fields.as_slice()).map_err(|error| {
                    Status::invalid_argument(format!("message cannot be decoded: {error}"))
                })?;
                return Ok(Some((message, payload)));
            }
            match self.body.frame().await {
                // Trailers of a request are ignored.
                Some(frame) => {
                    if let Ok(piece) = frame?.into_data() {
                        self.arrived.push(piece);
                    }
                }
                None if self.arrived.is_empty() => return Ok(None),
                None => return Err(Status::invalid_argument("stream ends within a message")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use proptest::prelude::*;

    use super::*;
    use crate::v1;

    fn group_message(number: usize) -> v1::GroupMessage {
        v1::GroupMessage {
            step: number as u64,
            part: 1,
            ..v1::GroupMessage::default()
        }
    }

    /// Reads all messages in `rest`, which arrives in pieces of these sizes.
    fn read(
        mut rest: Bytes,
        sizes: &[usize],
        bytes_max: usize,
    ) -> Result<Vec<(v1::GroupMessage, Vec<u8>)>, Status> {
        let mut frames = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece = rest.split_to((*size).min(rest.len()));
            frames.push(Ok::<_, Status>(http_body::Frame::data(piece)));
        }
        let body = tonic::body::Body::new(StreamBody::new(futures_util::stream::iter(frames)));
        let mut messages = Messages::new(body, bytes_max);
        futures_util::FutureExt::now_or_never(async {
            let mut found = Vec::new();
            while let Some((fields, payload)) = messages.next::<v1::GroupMessage>().await? {
                found.push((fields, payload.concat()));
            }
            Ok(found)
        })
        .expect("everything has arrived")
    }

    proptest! {
        #[test]
        fn messages_of_a_stream_are_read_in_any_pieces(
            lengths in prop::collection::vec(0_usize..3000, 0..5), sizes in prop::collection::vec(1_usize..700, 1..6),
        ) {
            let payload = |length: usize| -> Vec<u8> { (0..length).map(|place| place as u8).collect() };
            let mut sent = Vec::new();
            for (number, length) in lengths.iter().enumerate() {
                let bytes = Bytes::from(payload(*length));
                let pieces = message(&group_message(number), [bytes.slice(..length / 3), bytes.slice(length / 3..)]);
                prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
                pieces.iter().for_each(|piece| sent.extend_from_slice(piece));
            }
            let found = read(Bytes::from(sent.clone()), &sizes, 1 << 20).unwrap();
            prop_assert_eq!(found.len(), lengths.len());
            for (number, (fields, bytes)) in found.into_iter().enumerate() {
                prop_assert_eq!(fields, group_message(number));
                prop_assert_eq!(bytes, payload(lengths[number]));
            }
            if !sent.is_empty() {
                let cut = Bytes::from(sent).slice(1..);
                drop(read(cut.slice(..cut.len() - 1), &sizes, 1 << 20));
            }
        }
    }

    #[test]
    fn a_message_over_the_bound_is_refused_before_it_is_here() {
        let sent = message(&group_message(1), [Bytes::from(vec![1; 5000])]);
        let front = sent[0].clone();
        let status = read(front, &[100], 4096).unwrap_err();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
        let status = read(sent[0].clone(), &[100], 1 << 20).unwrap_err();
        assert!(status.message().contains("within a message"), "{status}");
    }
}
