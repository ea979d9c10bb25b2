//! Payload codec: tensors as little-endian bytes, end to end. Each direction copies them once.

use bytes::Bytes;
pub use trainyard_tensor::Encoding;

use crate::limits::IDS_MAX;

#[cfg(target_endian = "big")]
compile_error!("payloads are the memory of a little-endian machine");

/// A payload whose length does not match its message.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("payload of {given} bytes, expected {expected}")]
pub struct LengthError {
    /// Bytes in the message.
    pub given: usize,
    /// Expected number of bytes.
    pub expected: usize,
}

/// Returns the bytes of `values`.
pub fn float_bytes(values: &[f32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// Returns the memory of `bytes` as values, if it is aligned and its length is a multiple of 4.
pub fn float_bytes_mut(bytes: &mut [u8]) -> Option<&mut [f32]> {
    bytemuck::try_cast_slice_mut(bytes).ok()
}

/// Returns the bytes of `rows`.
pub fn row_bytes(rows: &[u32]) -> &[u8] {
    bytemuck::cast_slice(rows)
}

/// Returns the rows in `bytes`.
///
/// # Errors
/// The length is not a multiple of 4.
pub fn rows(bytes: &[u8]) -> Result<Vec<u32>, LengthError> {
    if !bytes.len().is_multiple_of(4) {
        return Err(LengthError {
            given: bytes.len(),
            expected: bytes.len() / 4 * 4,
        });
    }
    let mut rows = vec![0_u32; bytes.len() / 4];
    bytemuck::cast_slice_mut(&mut rows).copy_from_slice(bytes);
    Ok(rows)
}

/// Returns the bytes of `ids`.
pub fn id_bytes(ids: &[u64]) -> &[u8] {
    bytemuck::cast_slice(ids)
}

/// Returns the ids in `bytes`.
///
/// # Errors
/// The length is not a multiple of 8, or there are more than `IDS_MAX` ids.
pub fn ids(bytes: &[u8]) -> Result<Vec<u64>, LengthError> {
    let expected = (bytes.len() / 8).min(IDS_MAX) * 8;
    if bytes.len() != expected {
        return Err(LengthError {
            given: bytes.len(),
            expected,
        });
    }
    let mut ids = vec![0_u64; bytes.len() / 8];
    bytemuck::cast_slice_mut(&mut ids).copy_from_slice(bytes);
    Ok(ids)
}

/// The values of a message, in the pieces in which they arrived.
#[derive(Debug, Default)]
pub struct Payload {
    pieces: Vec<Bytes>,
    /// End of each piece, in bytes from the beginning of the payload.
    ends: Vec<usize>,
    encoding: Encoding,
}

/// Size of the buffer for a value that crosses pieces, or for values that are converted at once, in bytes.
const BRIDGE_BYTES: usize = 2048;

impl Payload {
    /// Returns the values of `pieces`.
    ///
    /// # Errors
    /// The pieces end within a value.
    pub fn new(mut pieces: Vec<Bytes>, encoding: Encoding) -> Result<Self, LengthError> {
        pieces.retain(|piece| !piece.is_empty());
        let mut given = 0;
        let ends = pieces.iter().map(|piece| {
            given += piece.len();
            given
        });
        let ends = ends.collect();
        let width = encoding.value_bytes();
        if !given.is_multiple_of(width) {
            return Err(LengthError {
                given,
                expected: given / width * width,
            });
        }
        Ok(Self {
            pieces,
            ends,
            encoding,
        })
    }

    /// Returns the pieces and the encoding of their values.
    pub fn pieces(&self) -> (&[Bytes], Encoding) {
        (&self.pieces, self.encoding)
    }

    /// Returns the number of values.
    pub fn values(&self) -> usize {
        self.ends.last().copied().unwrap_or(0) / self.encoding.value_bytes()
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Copies the values from place `begin` on into `out`.
    ///
    /// # Panics
    /// The values are not within the payload.
    pub fn read(&self, begin: usize, out: &mut [f32]) {
        let width = self.encoding.value_bytes();
        let mut at = begin * width;
        let mut out = out;
        let mut piece = self.ends.partition_point(|end| *end <= at);
        let mut bridge = [0_u8; BRIDGE_BYTES];
        while !out.is_empty() {
            let bytes = &self.pieces[piece];
            let end = self.ends[piece];
            let rest = &bytes[bytes.len() - (end - at)..];
            let here = (rest.len() / width).min(out.len());
            if here > 0 {
                let (now, later) = out.split_at_mut(here);
                self.encoding.read(&rest[..here * width], now);
                (out, at) = (later, at + here * width);
            } else {
                // Only the beginning of this value is in this piece.
                let (now, later) = out.split_at_mut(1);
                self.copy_bytes(at, &mut bridge[..width]);
                self.encoding.read(&bridge[..width], now);
                (out, at) = (later, at + width);
            }
            while self.ends.get(piece).is_some_and(|end| *end <= at) {
                piece += 1;
            }
        }
    }

    fn copy_bytes(&self, begin: usize, out: &mut [u8]) {
        let mut at = begin;
        let mut done = 0;
        while done < out.len() {
            let piece = self.ends.partition_point(|end| *end <= at);
            let bytes = &self.pieces[piece];
            let end = self.ends[piece];
            let rest = &bytes[bytes.len() - (end - at)..];
            let count = rest.len().min(out.len() - done);
            out[done..done + count].copy_from_slice(&rest[..count]);
            (at, done) = (at + count, done + count);
        }
    }

    /// Returns the place of the first value that is NaN, or whose absolute value is not below `bound`, a power of two.
    /// Such a value is rare, so a vectorized pass over all values first checks whether there may be one.
    pub fn not_below(&self, bound: f32) -> Option<usize> {
        // Without the sign, the bits of floats have the order of their values, with infinity and NaN at the top. A
        // negative difference shows in the sign bit of all differences or-ed together.
        let last = bound.to_bits().cast_signed() - 1;
        let fits = |value: f32| value.abs() < bound;
        let width = self.encoding.value_bytes();
        let mut suspect = false;
        let mut begin = 0;
        for (piece, &end) in self.pieces.iter().zip(&self.ends) {
            // This handles the whole values of the piece. A value that crosses pieces is checked separately.
            let skip = (width - begin % width) % width;
            if skip > 0 {
                let mut value = [0.0];
                self.read(begin / width, &mut value);
                suspect |= !fits(value[0]);
            }
            let whole = piece.get(skip..).unwrap_or_default();
            suspect |= match self.encoding {
                Encoding::Float32 => {
                    let values = whole.chunks_exact(4);
                    let values = values
                        .map(|bytes| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                    values.fold(0, |signs, value| signs | (last - (value & i32::MAX))) < 0
                }
                Encoding::Bfloat16 => halves_suspect(whole, (bound.to_bits() >> 16) as i16),
                // The largest float16 is 65,504.
                Encoding::Float16 => halves_suspect(whole, half_bits(bound)),
            };
            begin = end;
        }
        let mut block = [0.0_f32; BRIDGE_BYTES / 4];
        let mut places = (0..self.values()).step_by(block.len()).filter(|_| suspect);
        places.find_map(|begin| {
            let count = block.len().min(self.values() - begin);
            self.read(begin, &mut block[..count]);
            block[..count]
                .iter()
                .position(|value| !fits(*value))
                .map(|place| begin + place)
        })
    }
}

/// Returns whether the bits of any half, without the sign, are not below the bits of a bound.
fn halves_suspect(bytes: &[u8], bound: i16) -> bool {
    let halves = bytes
        .chunks_exact(2)
        .map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]]));
    halves.fold(0, |signs, half| signs | (bound - 1 - (half & i16::MAX))) < 0
}

/// Returns the bits of a bound as a float16. A bound that is too large becomes the largest float16.
fn half_bits(bound: f32) -> i16 {
    let mut bytes = [0; 2];
    Encoding::Float16.write(&[bound], &mut bytes);
    i16::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns `values` as a payload in pieces of these sizes.
    fn payload(values: &[f32], encoding: Encoding, sizes: &[usize]) -> Payload {
        let mut bytes = vec![0; values.len() * encoding.value_bytes()];
        encoding.write(values, &mut bytes);
        let mut rest = Bytes::from(bytes);
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            pieces.push(rest.split_to((*size).min(rest.len())));
        }
        Payload::new(pieces, encoding).unwrap()
    }

    fn encoding() -> impl Strategy<Value = Encoding> {
        prop::sample::select(vec![
            Encoding::Float32,
            Encoding::Bfloat16,
            Encoding::Float16,
        ])
    }

    proptest! {
        #[test]
        fn values_are_read_from_any_place_in_any_pieces(
            values in prop::collection::vec(-512_i16..512, 1..3000), encoding in encoding(),
            sizes in prop::collection::vec(1_usize..700, 1..6), begin in 0_usize..3000, count in 0_usize..3000,
        ) {
            // Every encoding represents these values exactly.
            let values: Vec<f32> = values.iter().map(|value| f32::from(value / 64) * 0.5).collect();
            let payload = payload(&values, encoding, &sizes);
            prop_assert_eq!(payload.values(), values.len());
            let begin = begin % values.len();
            let count = count.min(values.len() - begin);
            let mut out = vec![0.0; count];
            payload.read(begin, &mut out);
            prop_assert_eq!(&out[..], &values[begin..begin + count]);
            prop_assert_eq!(payload.not_below(512.0), None);
        }

        #[test]
        fn the_first_value_that_is_not_below_a_bound_is_found(
            length in 1_usize..2000, encoding in encoding(), sizes in prop::collection::vec(1_usize..700, 1..6),
            bad in prop::collection::vec(0_usize..2000, 1..4), value in 0_usize..5,
        ) {
            let mut values = vec![1.0; length];
            let bad: Vec<usize> = bad.iter().map(|place| place % length).collect();
            bad.iter().for_each(|place| values[*place] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 4096.0, -8192.0][value]);
            prop_assert_eq!(payload(&values, encoding, &sizes).not_below(4096.0), bad.iter().min().copied());
        }

        #[test]
        fn halves_are_the_nearest_there_are(value in -60000.0_f32..60000.0) {
            for (encoding, precision) in [(Encoding::Bfloat16, 1.0 / 256.0), (Encoding::Float16, 1.0 / 2048.0)] {
                let mut out = [0.0];
                payload(&[value], encoding, &[1]).read(0, &mut out);
                prop_assert!((out[0] - value).abs() <= (value.abs() * precision).max(1e-7), "{value} {out:?}");
            }
        }
    }

    #[test]
    fn ids_survive_at_an_odd_address() {
        let values = [0, 1 << 63, u64::MAX];
        let mut shifted = vec![7_u8];
        shifted.extend_from_slice(id_bytes(&values));
        assert_eq!(ids(&shifted[1..]), Ok(values.to_vec()));
    }

    #[test]
    fn a_payload_of_the_wrong_length_is_refused() {
        let short = Payload::new(vec![Bytes::from_static(&[0; 9])], Encoding::Float32).map(|_| ());
        assert_eq!(
            short,
            Err(LengthError {
                given: 9,
                expected: 8
            })
        );
        assert_eq!(
            rows(&[0; 6]),
            Err(LengthError {
                given: 6,
                expected: 4
            })
        );
        assert_eq!(
            ids(&[0; 12]),
            Err(LengthError {
                given: 12,
                expected: 8
            })
        );
        let most = IDS_MAX * 8;
        let given = IDS_MAX * 8 + 8;
        assert_eq!(
            ids(&vec![0; given]),
            Err(LengthError {
                given,
                expected: most
            })
        );
    }
}
