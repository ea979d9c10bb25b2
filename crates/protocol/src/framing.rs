//! Framing of gRPC messages that end in a tensor, without copies of the tensor.
//!
//! The wire format is an ordinary message: five bytes of gRPC prefix, the fields, then field 15, `bytes payload`. The
//! stock codec copies all of it into one buffer before the first byte leaves, and again on arrival. Here the payload
//! leaves as the memory that holds it, and arrives as the list of pieces that the connection read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use prost::Message;
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue};

use crate::limits::{CALL_TIMEOUT, MESSAGE_SILENCE_MAX};

/// Tag of field 15 of length-delimited type.
pub(crate) const PAYLOAD_TAG: u64 = 15 << 3 | 2;
/// Length of the gRPC prefix: compression flag and message length.
pub(crate) const PREFIX_BYTES: usize = 5;
/// Most bytes of the tag and the length of a payload.
const PAYLOAD_HEAD_BYTES_MAX: usize = 11;
const COMPRESSED: &str = "compressed messages are not taken here";

/// A tensor that is encoded while it is sent, piece by piece, so that only the pieces that the connection accepts are
/// in memory.
pub trait Tensor: Send + 'static {
    /// Returns the total size of all pieces, in bytes.
    fn bytes(&self) -> usize;

    /// Returns the next piece; nothing after the last one. A piece is never empty: an empty frame would count against
    /// the connection permanently.
    fn next(&mut self) -> Option<Bytes>;
}

/// A tensor that is in memory in its wire format.
impl Tensor for VecDeque<Bytes> {
    fn bytes(&self) -> usize {
        self.iter().map(Bytes::len).sum()
    }

    fn next(&mut self) -> Option<Bytes> {
        std::iter::from_fn(|| self.pop_front()).find(|piece| !piece.is_empty())
    }
}

/// An optional tensor.
impl<T: Tensor> Tensor for Option<T> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, Tensor::bytes)
    }

    fn next(&mut self) -> Option<Bytes> {
        self.as_mut()?.next()
    }
}

/// An outgoing message.
pub struct Outgoing {
    front: Option<Bytes>,
    tensor: Option<Box<dyn Tensor>>,
    /// Number of bytes that remain to be sent.
    left: usize,
    end: End,
}

/// End of an outgoing message, after its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing, after a request, or once the trailers have been sent.
    Nothing,
    /// The trailers of success, after a reply.
    Trailers,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Outgoing {{ left: {} }}", self.left)
    }
}

impl Outgoing {
    /// Returns a request with these fields and this payload. The payload in `fields` must be empty.
    pub fn request(fields: &impl Message, payload: impl Tensor) -> Self {
        Self::new(fields, payload, End::Nothing)
    }

    /// Returns a reply with these fields and this payload, and the trailers of success.
    pub fn reply(fields: &impl Message, payload: impl Tensor) -> Self {
        Self::new(fields, payload, End::Trailers)
    }

    fn new(fields: &impl Message, payload: impl Tensor, end: End) -> Self {
        let bytes = payload.bytes();
        let front = front(fields, bytes, 0).freeze();
        let left = front.len() + bytes;
        let tensor: Option<Box<dyn Tensor>> = if bytes > 0 {
            Some(Box::new(payload))
        } else {
            None
        };
        Self {
            front: Some(front),
            tensor,
            left,
            end,
        }
    }
}

/// Returns a message up to its payload of so many `bytes`: prefix, fields, and tag and length of the payload. The buffer
/// has `room` for so many bytes of the payload.
pub(crate) fn front(fields: &impl Message, bytes: usize, room: usize) -> BytesMut {
    let length = fields.encoded_len();
    let tensor = match bytes {
        0 => 0,
        bytes => 1 + prost::length_delimiter_len(bytes) + bytes,
    };
    let mut front = BytesMut::with_capacity(PREFIX_BYTES + length + PAYLOAD_HEAD_BYTES_MAX + room);
    front.put_u8(0);
    front.put_u32((length + tensor) as u32);
    // Encoding cannot fail, because the buffer grows.
    let _ = fields.encode(&mut front);
    if bytes > 0 {
        front.put_u8(PAYLOAD_TAG as u8);
        let _ = prost::encode_length_delimiter(bytes, &mut front);
    }
    front
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let piece = self.front.take().or_else(|| self.tensor.as_mut()?.next());
        if let Some(piece) = piece {
            self.left -= piece.len().min(self.left);
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if self.left > 0 {
            return Poll::Ready(Some(Err(Status::internal("a tensor ended early"))));
        }
        if self.end == End::Trailers {
            self.end = End::Nothing;
            let trailers = HeaderMap::from_iter([(
                tonic::codegen::http::HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("0"),
            )]);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.end == End::Nothing
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

/// Reads a message: its fields, with an empty payload, and the pieces of its payload.
///
/// # Errors
/// The message is larger than `bytes_max`, the peer refuses in the trailers, or the message is invalid.
pub async fn read<M: Message + Default>(
    body: tonic::body::Body,
    bytes_max: usize,
) -> Result<(M, Vec<Bytes>), Status> {
    let (message, payload, _) =
        read_within(body, bytes_max, |_| std::future::ready(()), None).await?;
    Ok((message, payload))
}

/// Reads a message with backpressure: as soon as its size is known, it waits for `admit`, while the rest stays on the
/// connection. Returns the result of `admit`, too, if there was a message.
///
/// An admitted message takes memory that others wait for. So it fails after `MESSAGE_SILENCE_MAX` without a byte, and
/// after [`CALL_TIMEOUT`] in total. The caller must be in a runtime with a clock.
///
/// # Errors
/// As [`read`]. The message is compressed, or does not arrive in time.
pub async fn read_admitted<M: Message + Default, T, F: Future<Output = T>>(
    body: tonic::body::Body,
    bytes_max: usize,
    admit: impl FnOnce(usize) -> F,
) -> Result<(M, Vec<Bytes>, Option<T>), Status> {
    read_within(body, bytes_max, admit, Some(CALL_TIMEOUT)).await
}

/// Reads a message with backpressure. Once admitted, the message must arrive within `time`.
async fn read_within<M: Message + Default, T, F: Future<Output = T>>(
    body: tonic::body::Body,
    bytes_max: usize,
    admit: impl FnOnce(usize) -> F,
    time: Option<Duration>,
) -> Result<(M, Vec<Bytes>, Option<T>), Status> {
    let mut body = std::pin::pin!(body);
    let mut pieces = VecDeque::new();
    let mut length = 0;
    let mut admit = Some(admit);
    let mut admitted = None;
    let mut until = None;
    // Bytes of the message and its prefix, once that has come.
    let mut whole = None;
    loop {
        let next = match until {
            // A message that is not admitted yet takes no memory, so it may wait.
            None => body.frame().await,
            Some(until) => {
                let soon = Instant::now() + MESSAGE_SILENCE_MAX;
                timeout_at(soon.min(until), body.frame())
                    .await
                    .map_err(|_| {
                        Status::deadline_exceeded(format!(
                            "message does not come: {length} bytes of it have"
                        ))
                    })?
            }
        };
        let Some(frame) = next else { break };
        match frame?.into_data() {
            Ok(piece) => {
                length += piece.len();
                if length > bytes_max + PREFIX_BYTES {
                    return Err(too_large(length, bytes_max));
                }
                pieces.push_back(piece);
                let is_known = whole.is_some();
                if !is_known && length >= PREFIX_BYTES {
                    whole = Some(announced(&pieces, bytes_max)? + PREFIX_BYTES);
                }
                // Without this, a message that announces little would be admitted as a small one.
                if let Some(whole) = whole.filter(|whole| length > *whole) {
                    return Err(other_length(whole - PREFIX_BYTES, length - PREFIX_BYTES));
                }
                if !is_known
                    && let Some(whole) = whole
                    && let Some(admit) = admit.take()
                {
                    admitted = Some(admit(whole - PREFIX_BYTES).await);
                    until = time.map(|time| Instant::now() + time);
                }
            }
            Err(other) => {
                if let Some(status) = other.trailers_ref().and_then(Status::from_header_map)
                    && status.code() != tonic::Code::Ok
                {
                    return Err(status);
                }
            }
        }
    }
    let (fields, payload) = split(Pieces { pieces, length })?;
    let message = M::decode(fields.as_slice())
        .map_err(|error| Status::invalid_argument(format!("message cannot be decoded: {error}")))?;
    Ok((message, payload, admitted))
}

/// Returns the size of a message in bytes, from its prefix, which must have arrived.
///
/// # Errors
/// The message is compressed or too large.
fn announced(pieces: &VecDeque<Bytes>, bytes_max: usize) -> Result<usize, Status> {
    let mut prefix = [0; PREFIX_BYTES];
    let bytes = pieces.iter().flat_map(|piece| piece.iter());
    prefix
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    let announced = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if prefix[0] != 0 {
        Err(Status::unimplemented(COMPRESSED))
    } else if announced > bytes_max {
        Err(too_large(announced, bytes_max))
    } else {
        Ok(announced)
    }
}

fn other_length(announced: usize, come: usize) -> Status {
    Status::invalid_argument(format!(
        "message of {announced} bytes announced, {come} have come"
    ))
}

fn too_large(bytes: usize, bytes_max: usize) -> Status {
    Status::resource_exhausted(format!(
        "message of {bytes} bytes, at most {bytes_max} are taken"
    ))
}

/// Bytes that have arrived, in order.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: VecDeque<Bytes>,
    length: usize,
}

/// Splits a message into its fields and the pieces of its payload.
pub(crate) fn split(mut from: Pieces) -> Result<(Vec<u8>, Vec<Bytes>), Status> {
    let mut prefix = Vec::with_capacity(PREFIX_BYTES);
    from.copy(PREFIX_BYTES, &mut prefix)?;
    let announced = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if prefix[0] != 0 {
        return Err(Status::unimplemented(COMPRESSED));
    }
    if announced != from.length {
        return Err(other_length(announced, from.length));
    }
    let mut fields = Vec::new();
    let mut payload = Vec::new();
    while from.length > 0 {
        let before = fields.len();
        let tag = from.number(&mut fields)?;
        if tag == PAYLOAD_TAG {
            // As in protobuf, the last field counts.
            let bytes = from.number(&mut fields)? as usize;
            fields.truncate(before);
            payload = from.take(bytes)?;
            continue;
        }
        match tag & 7 {
            0 => drop(from.number(&mut fields)?),
            1 => from.copy(8, &mut fields)?,
            2 => {
                let bytes = from.number(&mut fields)? as usize;
                from.copy(bytes, &mut fields)?;
            }
            5 => from.copy(4, &mut fields)?,
            other => {
                return Err(Status::invalid_argument(format!(
                    "field of unknown wire type {other}"
                )));
            }
        }
    }
    Ok((fields, payload))
}

impl Pieces {
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        self.pieces.push_back(piece);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes the first message, with its prefix, if it has arrived completely.
    pub(crate) fn message(&mut self, bytes_max: usize) -> Result<Option<Self>, Status> {
        if self.length < PREFIX_BYTES {
            return Ok(None);
        }
        let length = PREFIX_BYTES + announced(&self.pieces, bytes_max)?;
        if self.length < length {
            return Ok(None);
        }
        Ok(Some(Self {
            pieces: self.take(length)?.into(),
            length,
        }))
    }

    fn front(&mut self, wanted: usize) -> Result<Bytes, Status> {
        while self.pieces.front().is_some_and(Bytes::is_empty) {
            self.pieces.pop_front();
        }
        let Some(front) = self.pieces.front_mut().filter(|_| wanted <= self.length) else {
            let message = format!(
                "message ends {} bytes early",
                wanted.saturating_sub(self.length).max(1)
            );
            return Err(Status::invalid_argument(message));
        };
        let taken = front.split_to(wanted.min(front.len()));
        self.length -= taken.len();
        Ok(taken)
    }

    fn copy(&mut self, mut bytes: usize, out: &mut Vec<u8>) -> Result<(), Status> {
        while bytes > 0 {
            let piece = self.front(bytes)?;
            bytes -= piece.len();
            out.extend_from_slice(&piece);
        }
        Ok(())
    }

    fn take(&mut self, mut bytes: usize) -> Result<Vec<Bytes>, Status> {
        let mut out = Vec::new();
        while bytes > 0 {
            let piece = self.front(bytes)?;
            bytes -= piece.len();
            out.push(piece);
        }
        Ok(out)
    }

    /// Reads a varint, and copies it to the fields.
    fn number(&mut self, fields: &mut Vec<u8>) -> Result<u64, Status> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            self.copy(1, fields)?;
            let byte = fields.last().copied().unwrap_or_default();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Status::invalid_argument("number of more than 64 bits"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::v1;

    fn reply(payload: Vec<u8>) -> v1::StepReply {
        let pulled = v1::Pulled {
            version: 300,
            global_step: 7,
            ticket: 1,
            ..Default::default()
        };
        v1::StepReply {
            pushed: None,
            pulled: Some(pulled),
            payload: payload.into(),
        }
    }

    /// Pieces of a body, and how many of them were taken.
    struct Counted(
        VecDeque<Bytes>,
        std::sync::Arc<std::sync::atomic::AtomicUsize>,
    );

    impl Body for Counted {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let piece = self.0.pop_front();
            Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    #[tokio::test]
    async fn a_message_that_is_longer_than_it_announces_is_refused_before_it_has_arrived() {
        for first in [vec![0, 0, 0, 0, 1], vec![0, 0, 0, 0, 1, 8], vec![0, 0]] {
            let rest = [0, 0, 1, 8, 8, 8];
            let mut pieces = VecDeque::from([Bytes::from(first), Bytes::from(rest.to_vec())]);
            pieces.extend((0..100).map(|_| Bytes::from(vec![8; 1000])));
            let taken = std::sync::Arc::default();
            let body = Counted(pieces, std::sync::Arc::clone(&taken));
            let admit = |bytes| {
                assert_eq!(bytes, 1);
                std::future::ready(())
            };
            let body = tonic::body::Body::new(body);
            let read = read_admitted::<v1::StepReply, _, _>(body, 1 << 20, admit).await;
            let refused = read.expect_err("too long");
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
            let taken = taken.load(std::sync::atomic::Ordering::Relaxed);
            assert!(taken <= 3, "{taken} pieces");
        }
    }

    /// Returns the bytes of a message as the stock codec sends them.
    fn stock(message: &impl Message) -> Vec<u8> {
        let mut out = vec![0];
        out.extend((message.encoded_len() as u32).to_be_bytes());
        message.encode(&mut out).unwrap();
        out
    }

    fn cut(bytes: &[u8], sizes: &[usize]) -> Pieces {
        let mut rest = Bytes::copy_from_slice(bytes);
        let mut pieces = VecDeque::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            pieces.push_back(rest.split_to((*size).min(rest.len())));
        }
        Pieces {
            pieces,
            length: bytes.len(),
        }
    }

    #[test]
    fn what_leaves_is_what_the_stock_codec_sends() {
        for payload in [Vec::new(), vec![1, 2, 3], vec![9; 70_000]] {
            let whole = stock(&reply(payload.clone()));
            let (front, back) = payload.split_at(payload.len() / 3);
            let tensor: VecDeque<Bytes> = [front, &[], back]
                .map(Bytes::copy_from_slice)
                .into_iter()
                .collect();
            let mut body = Outgoing::reply(&reply(Vec::new()), tensor);
            assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
            let mut context = Context::from_waker(std::task::Waker::noop());
            let mut sent = Vec::new();
            while let Poll::Ready(Some(frame)) = Pin::new(&mut body).poll_frame(&mut context) {
                match frame.unwrap().into_data() {
                    Ok(piece) => {
                        assert!(!piece.is_empty());
                        sent.extend_from_slice(&piece);
                    }
                    Err(trailers) => {
                        assert_eq!(trailers.trailers_ref().unwrap()["grpc-status"], "0")
                    }
                }
            }
            assert!(body.is_end_stream());
            assert_eq!(sent, whole);
        }
    }

    proptest! {
        #[test]
        fn a_message_in_any_pieces_is_read(
            payload in prop::collection::vec(any::<u8>(), 0..600), sizes in prop::collection::vec(1_usize..40, 1..6),
        ) {
            let (fields, pieces) = split(cut(&stock(&reply(payload.clone())), &sizes)).unwrap();
            prop_assert_eq!(v1::StepReply::decode(fields.as_slice()).unwrap(), reply(Vec::new()));
            prop_assert_eq!(pieces.iter().flatten().copied().collect::<Vec<u8>>(), payload);
        }

        #[test]
        fn damaged_messages_are_refused_or_read_but_never_panic(
            at in 0_usize..90, bit in 0_u8..8, keep in 0_usize..90,
        ) {
            let mut bytes = stock(&reply(vec![5; 60]));
            let place = at % bytes.len();
            bytes[place] ^= 1 << bit;
            bytes.truncate(keep);
            drop(split(cut(&bytes, &[7])));
        }
    }
}
