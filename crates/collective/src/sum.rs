//! Adding and copying values out of the pieces that a connection brought.
//!
//! Every function takes exactly as many values as the pieces hold; callers have checked that.

use bytes::Bytes;
use trainyard_protocol::payload::float_bytes;
use trainyard_protocol::{Pool, Pooled};

const WIDTH: usize = size_of::<f32>();

/// Takes a buffer of `bytes` bytes from the pool. What it holds is to be overwritten.
fn buffer(pool: &Pool, bytes: usize) -> Pooled {
    let mut buffer = pool.take();
    // Only growth is filled.
    buffer.bytes.resize(bytes, 0);
    buffer
}

/// Returns a copy of `values` that can be sent.
pub(crate) fn copy(values: &[f32], pool: &Pool) -> Bytes {
    let mut out = buffer(pool, values.len() * WIDTH);
    out.bytes.copy_from_slice(float_bytes(values));
    out.into_bytes()
}

/// Copies what has arrived over `values`.
pub(crate) fn overwrite(pieces: &[Bytes], values: &mut [f32]) {
    each_run(pieces, |at, bytes| {
        let values = &mut values[at..at + bytes.len() / WIDTH];
        values.iter_mut().zip(bytes.chunks_exact(WIDTH)).for_each(|(value, bytes)| *value = float(bytes));
    });
}

/// Returns the sum of what has arrived and `values`, which stay as they are, to be sent on.
pub(crate) fn add_apart(pieces: &[Bytes], values: &[f32], pool: &Pool) -> Bytes {
    let mut out = buffer(pool, values.len() * WIDTH);
    each_run(pieces, |at, bytes| {
        let count = bytes.len() / WIDTH;
        let out = out.bytes[at * WIDTH..][..bytes.len()].chunks_exact_mut(WIDTH);
        let values = &values[at..at + count];
        for ((out, bytes), value) in out.zip(bytes.chunks_exact(WIDTH)).zip(values) {
            out.copy_from_slice(&(float(bytes) + value).to_le_bytes());
        }
    });
    out.into_bytes()
}

/// Adds what has arrived to `values`.
pub(crate) fn add(pieces: &[Bytes], values: &mut [f32]) {
    each_run(pieces, |at, bytes| {
        let values = &mut values[at..at + bytes.len() / WIDTH];
        let bytes = bytes.chunks_exact(WIDTH);
        values.iter_mut().zip(bytes).for_each(|(value, bytes)| *value += float(bytes));
    });
}

/// Adds what has arrived to `values`, and returns a copy of the sum that can be sent.
pub(crate) fn add_and_copy(pieces: &[Bytes], values: &mut [f32], pool: &Pool) -> Bytes {
    let mut out = buffer(pool, values.len() * WIDTH);
    each_run(pieces, |at, bytes| {
        let count = bytes.len() / WIDTH;
        let out = out.bytes[at * WIDTH..][..bytes.len()].chunks_exact_mut(WIDTH);
        let values = &mut values[at..at + count];
        for ((out, bytes), value) in out.zip(bytes.chunks_exact(WIDTH)).zip(values) {
            *value += float(bytes);
            out.copy_from_slice(&value.to_le_bytes());
        }
    });
    out.into_bytes()
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Calls `take` with runs of whole values, each with the number of its first one. A value that lies in two pieces is
/// put together first.
fn each_run(pieces: &[Bytes], mut take: impl FnMut(usize, &[u8])) {
    let (mut at, mut bridge, mut held) = (0, [0_u8; WIDTH], 0);
    for piece in pieces {
        let mut rest = &piece[..];
        if held > 0 {
            let count = (WIDTH - held).min(rest.len());
            bridge[held..held + count].copy_from_slice(&rest[..count]);
            (held, rest) = (held + count, &rest[count..]);
            if held < WIDTH {
                continue;
            }
            take(at, &bridge);
            at += 1;
        }
        let (whole, tail) = rest.split_at(rest.len() / WIDTH * WIDTH);
        if !whole.is_empty() {
            take(at, whole);
            at += whole.len() / WIDTH;
        }
        bridge[..tail.len()].copy_from_slice(tail);
        held = tail.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_added_from_any_pieces(
            values in prop::collection::vec(-1e3_f32..1e3, 0..300), sizes in prop::collection::vec(1_usize..90, 1..6),
        ) {
            let (mut rest, mut pieces) = (Bytes::copy_from_slice(float_bytes(&values)), Vec::new());
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                pieces.push(rest.split_to((*size).min(rest.len())));
            }
            let own: Vec<f32> = (0..values.len()).map(|place| place as f32).collect();
            let expected: Vec<f32> = own.iter().zip(&values).map(|(own, value)| value + own).collect();
            let pool = Pool::default();
            for _ in 0..2 {
                prop_assert_eq!(&add_apart(&pieces, &own, &pool)[..], float_bytes(&expected));
            }
            let mut sum = own.clone();
            add(&pieces, &mut sum);
            prop_assert_eq!(&sum, &expected);
            sum.clone_from(&own);
            prop_assert_eq!(&add_and_copy(&pieces, &mut sum, &pool)[..], float_bytes(&expected));
            prop_assert_eq!(&sum, &expected);
            overwrite(&pieces, &mut sum);
            prop_assert_eq!(&sum, &values);
            prop_assert_eq!(&copy(&own, &pool)[..], float_bytes(&own));
        }
    }
}
