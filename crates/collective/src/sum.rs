//! Adding and copying values from the pieces that a connection delivered.
//!
//! Every function takes exactly as many values as the pieces hold, which its callers have checked.

use std::ops::Range;

use bytes::Bytes;
use trainyard_protocol::payload::float_bytes;
use trainyard_protocol::{Pool, Pooled};

const WIDTH: usize = size_of::<f32>();

/// Takes a buffer of `bytes` bytes from the pool. Its former content must be overwritten.
fn buffer(pool: &Pool, bytes: usize) -> Pooled {
    let mut buffer = pool.take();
    // Only new bytes are zeroed.
    buffer.bytes.resize(bytes, 0);
    buffer
}

/// The buffers that one member adds: `values`, which receive the sum, and then each buffer of `more`.
#[derive(Debug)]
pub(crate) struct Own<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) more: &'a [Vec<f32>],
}

impl Own<'_> {
    fn more(&self, place: &Range<usize>) -> impl Iterator<Item = &[f32]> {
        self.more.iter().map(|values| &values[place.clone()])
    }

    /// Returns the sum of this member's buffers, to be sent.
    pub(crate) fn copy(&self, place: Range<usize>, pool: &Pool) -> Bytes {
        let mut out = buffer(pool, place.len() * WIDTH);
        out.bytes
            .copy_from_slice(float_bytes(&self.values[place.clone()]));
        self.more(&place)
            .for_each(|values| add_to_bytes(&mut out.bytes, values));
        out.into_bytes()
    }

    /// Returns the sum of received values and this member's buffers, to be sent on. The buffers do not change.
    pub(crate) fn add_apart(&self, pieces: &[Bytes], place: Range<usize>, pool: &Pool) -> Bytes {
        let mut out = buffer(pool, place.len() * WIDTH);
        let own = &self.values[place.clone()];
        each_run(pieces, |at, bytes| {
            let out = out.bytes[at * WIDTH..][..bytes.len()].chunks_exact_mut(WIDTH);
            let own = &own[at..at + bytes.len() / WIDTH];
            for ((out, bytes), value) in out.zip(bytes.chunks_exact(WIDTH)).zip(own) {
                out.copy_from_slice(&(float(bytes) + value).to_le_bytes());
            }
        });
        self.more(&place)
            .for_each(|values| add_to_bytes(&mut out.bytes, values));
        out.into_bytes()
    }

    /// Replaces the values by the sum of received values and this member's buffers, and returns a copy to be sent.
    pub(crate) fn add_and_copy(
        &mut self,
        pieces: &[Bytes],
        place: Range<usize>,
        pool: &Pool,
    ) -> Bytes {
        let values = &mut self.values[place.clone()];
        each_run(pieces, |at, bytes| {
            let values = &mut values[at..at + bytes.len() / WIDTH];
            let bytes = bytes.chunks_exact(WIDTH);
            values
                .iter_mut()
                .zip(bytes)
                .for_each(|(value, bytes)| *value += float(bytes));
        });
        self.add_more(&place);
        let mut out = buffer(pool, place.len() * WIDTH);
        out.bytes.copy_from_slice(float_bytes(&self.values[place]));
        out.into_bytes()
    }

    /// Returns this member's buffers, end to end.
    pub(crate) fn buffers(&self) -> Vec<Bytes> {
        let all = std::iter::once(&*self.values).chain(self.more.iter().map(Vec::as_slice));
        all.map(|values| Bytes::copy_from_slice(float_bytes(values)))
            .collect()
    }

    /// Returns a copy of the values, to be sent.
    pub(crate) fn copy_values(&self, pool: &Pool) -> Bytes {
        let mut out = buffer(pool, self.values.len() * WIDTH);
        out.bytes.copy_from_slice(float_bytes(self.values));
        out.into_bytes()
    }

    /// Adds this member's other buffers to its values.
    pub(crate) fn add_more(&mut self, place: &Range<usize>) {
        for more in self.more {
            add(
                &mut self.values[place.clone()],
                more[place.clone()].iter().copied(),
            );
        }
    }

    /// Overwrites the values by received ones.
    pub(crate) fn overwrite(&mut self, pieces: &[Bytes], place: Range<usize>) {
        let values = &mut self.values[place];
        each_run(pieces, |at, bytes| {
            let values = &mut values[at..at + bytes.len() / WIDTH];
            values
                .iter_mut()
                .zip(bytes.chunks_exact(WIDTH))
                .for_each(|(value, bytes)| *value = float(bytes));
        });
    }

    /// Adds received buffers, which lie end to end, one after the other.
    pub(crate) fn add_buffers(&mut self, buffers: &[u8]) {
        for buffer in buffers.chunks_exact((self.values.len() * WIDTH).max(1)) {
            add(self.values, buffer.chunks_exact(WIDTH).map(float));
        }
    }
}

/// Adds received values, or else this member's values, to a sum. Without a sum, they become the sum.
pub(crate) fn add_in_order(
    sum: Option<Pooled>,
    given: Option<&[Bytes]>,
    own: &Own<'_>,
    place: &Range<usize>,
    pool: &Pool,
) -> Pooled {
    let first = sum.is_none();
    let mut sum = sum.unwrap_or_else(|| buffer(pool, place.len() * WIDTH));
    match given {
        None if first => sum
            .bytes
            .copy_from_slice(float_bytes(&own.values[place.clone()])),
        None => add_to_bytes(&mut sum.bytes, &own.values[place.clone()]),
        Some(pieces) => each_run(pieces, |at, bytes| {
            let sum = &mut sum.bytes[at * WIDTH..][..bytes.len()];
            if first {
                sum.copy_from_slice(bytes)
            } else {
                sum.chunks_exact_mut(WIDTH)
                    .zip(bytes.chunks_exact(WIDTH))
                    .for_each(|(sum, value)| {
                        let added = float(sum) + float(value);
                        sum.copy_from_slice(&added.to_le_bytes());
                    })
            }
        }),
    }
    sum
}

fn add(sum: &mut [f32], values: impl Iterator<Item = f32>) {
    sum.iter_mut()
        .zip(values)
        .for_each(|(sum, value)| *sum += value);
}

fn add_to_bytes(sum: &mut [u8], values: &[f32]) {
    for (sum, value) in sum.chunks_exact_mut(WIDTH).zip(values) {
        let added = float(sum) + value;
        sum.copy_from_slice(&added.to_le_bytes());
    }
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Calls `take` with runs of whole values, each with the index of its first value. A value that is split between two
/// pieces is joined first.
fn each_run(pieces: &[Bytes], mut take: impl FnMut(usize, &[u8])) {
    let mut at = 0;
    let mut bridge = [0_u8; WIDTH];
    let mut held = 0;
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
            let mut rest = Bytes::copy_from_slice(float_bytes(&values));
            let mut pieces = Vec::new();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                pieces.push(rest.split_to((*size).min(rest.len())));
            }
            let mine: Vec<f32> = (0..values.len()).map(|place| place as f32).collect();
            let more = [vec![0.25; values.len()], mine.iter().map(|value| value * 1e-4).collect()];
            let with = |first: f32, place: usize| (first + more[0][place]) + more[1][place];
            let places = || mine.iter().enumerate();
            let alone: Vec<f32> = places().map(|(place, own)| with(*own, place)).collect();
            let expected: Vec<f32> = places().map(|(place, own)| with(values[place] + own, place)).collect();
            let pool = Pool::default();
            let whole = 0..values.len();
            let mut held = mine.clone();
            let mut own = Own { values: &mut held, more: &more };
            for _ in 0..2 {
                prop_assert_eq!(&own.add_apart(&pieces, whole.clone(), &pool)[..], float_bytes(&expected));
                prop_assert_eq!(&own.copy(whole.clone(), &pool)[..], float_bytes(&alone));
            }
            prop_assert_eq!(&own.add_and_copy(&pieces, whole.clone(), &pool)[..], float_bytes(&expected));
            prop_assert_eq!(&*own.values, &expected[..]);
            own.overwrite(&pieces, whole);
            prop_assert_eq!(&*own.values, &values[..]);
        }
    }
}
