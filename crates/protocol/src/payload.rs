//! Tensors as bytes: little-endian, end to end, copied once each way.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::limits::IDS_MAX;

#[cfg(target_endian = "big")]
compile_error!("payloads are the memory of a little-endian machine");

/// A payload that is not as long as its message says.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("payload of {given} bytes, expected {expected}")]
pub struct LengthError {
    /// Bytes in the message.
    pub given: usize,
    /// Bytes that its slices and rows call for.
    pub expected: usize,
}

/// Returns the bytes of `values`.
pub fn float_bytes(values: &[f32]) -> &[u8] {
    bytemuck::cast_slice(values)
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
        return Err(LengthError { given: bytes.len(), expected: bytes.len() / 4 * 4 });
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
/// The length is not a multiple of 8, or there are more than [`IDS_MAX`].
pub fn ids(bytes: &[u8]) -> Result<Vec<u64>, LengthError> {
    let expected = (bytes.len() / 8).min(IDS_MAX) * 8;
    if bytes.len() != expected {
        return Err(LengthError { given: bytes.len(), expected });
    }
    let mut ids = vec![0_u64; bytes.len() / 8];
    bytemuck::cast_slice_mut(&mut ids).copy_from_slice(bytes);
    Ok(ids)
}

/// Reads floats from the front of a payload, in whatever pieces it came.
#[derive(Debug)]
pub struct Reader {
    rest: VecDeque<Bytes>,
}

impl Reader {
    /// Starts at the front, once the payload is known to hold `floats` values and nothing else.
    ///
    /// # Errors
    /// It is longer or shorter.
    pub fn new(payload: Vec<Bytes>, floats: usize) -> Result<Self, LengthError> {
        let expected = floats.saturating_mul(4);
        let given = payload.iter().map(Bytes::len).sum();
        if given != expected {
            return Err(LengthError { given, expected });
        }
        Ok(Self { rest: payload.into() })
    }

    /// Copies the next `out.len()` values into `out`.
    ///
    /// # Panics
    /// Never, as long as the reads add up to the length given to [`Reader::new`].
    pub fn read(&mut self, out: &mut [f32]) {
        let mut bytes = bytemuck::cast_slice_mut::<f32, u8>(out);
        while let Some(front) = self.rest.front_mut().filter(|_| !bytes.is_empty()) {
            let (now, later) = bytes.split_at_mut(front.len().min(bytes.len()));
            now.copy_from_slice(&front.split_to(now.len()));
            if front.is_empty() {
                self.rest.pop_front();
            }
            bytes = later;
        }
        assert!(bytes.is_empty(), "the payload was as long as it should be");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_survive_at_an_odd_address() {
        let values = [1.5_f32, -0.0, f32::MIN_POSITIVE, 3.0e38];
        let mut shifted = vec![7_u8];
        shifted.extend_from_slice(float_bytes(&values));
        let shifted = Bytes::from(shifted);
        let mut reader = Reader::new(vec![shifted.slice(1..6), shifted.slice(6..17)], 4).unwrap();
        let (mut first, mut rest) = ([0.0; 1], [0.0; 3]);
        reader.read(&mut first);
        reader.read(&mut rest);
        assert_eq!([first[0], rest[0], rest[1], rest[2]].map(f32::to_bits), values.map(f32::to_bits));
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
        assert_eq!(
            Reader::new(vec![Bytes::from_static(&[0; 9])], 2).map(|_| ()),
            Err(LengthError { given: 9, expected: 8 })
        );
        assert_eq!(rows(&[0; 6]), Err(LengthError { given: 6, expected: 4 }));
        assert_eq!(ids(&[0; 12]), Err(LengthError { given: 12, expected: 8 }));
        let (most, given) = (IDS_MAX * 8, IDS_MAX * 8 + 8);
        assert_eq!(ids(&vec![0; given]), Err(LengthError { given, expected: most }));
    }
}
