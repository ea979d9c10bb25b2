//! Messages and streams of them as a connection brings them, in pieces of any lengths.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use tonic::body::Body;
use trainyard_protocol::framing::read;
use trainyard_protocol::message_stream::Messages;
use trainyard_protocol::v1;

use crate::scratch::block_on;

/// Largest message here.
const BYTES_MAX: usize = 4096;
/// More messages than an input can hold.
const MESSAGES_MAX: usize = 10_000;

fn body(bytes: &[u8], cut: usize) -> Body {
    let pieces: Vec<_> = bytes
        .chunks(cut)
        .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    Body::new(StreamBody::new(stream::iter(pieces)))
}

/// Reads a message in pieces and whole, and a stream of messages.
pub fn run(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else {
        return;
    };
    let cut = usize::from(*cut).max(1);
    let request = block_on(read::<v1::StepRequest>(body(bytes, cut), BYTES_MAX));
    let whole = block_on(read::<v1::StepRequest>(
        body(bytes, bytes.len().max(1)),
        BYTES_MAX,
    ));
    match (request, whole) {
        (Ok((one, payload)), Ok((other, again))) => {
            assert_eq!(one, other, "the cuts mean nothing");
            assert_eq!(payload.concat(), again.concat());
        }
        (Err(_), Err(_)) => {}
        (one, other) => panic!("{one:?} in pieces of {cut}, {other:?} whole"),
    }
    let mut messages = Messages::new(body(bytes, cut), BYTES_MAX);
    for count in 0.. {
        assert!(count < MESSAGES_MAX, "a stream does not end");
        match block_on(messages.next::<v1::GroupMessage>()) {
            Ok(Some(_)) => {}
            _ => break,
        }
    }
}
