//! Keys of the slices of partitioned variables.
//!
//! `EncodeTensorNameSlice` of `tensorflow/core/util/saved_tensor_slice_util.cc`, in the order-preserving encoding of
//! `tensorflow/core/lib/strings/ordered_code.cc`.

use crate::generated::TensorSliceProto;

/// Length of a slice that covers a whole dimension (`TensorSlice::kFullExtent`).
const FULL_EXTENT: i64 = -1;

/// Returns the key of a slice: 0, name, rank, then start and length of each dimension.
pub(crate) fn slice_key(name: &str, slice: &TensorSliceProto) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 8 + 4 * slice.extent.len());
    push_unsigned(&mut key, 0);
    push_string(&mut key, name.as_bytes());
    push_unsigned(&mut key, slice.extent.len() as u64);
    for extent in &slice.extent {
        push_signed(&mut key, extent.start);
        push_signed(&mut key, extent.length.unwrap_or(FULL_EXTENT));
    }
    key
}

/// Appends a string: 0 and 255 are escaped, and 0 1 ends it.
fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            0 => out.extend([0, 0xff]),
            0xff => out.extend([0xff, 0]),
            other => out.push(other),
        }
    }
    out.extend([0, 1]);
}

/// Appends an unsigned number: the number of bytes, then the bytes, highest first, without leading zeros.
fn push_unsigned(out: &mut Vec<u8>, value: u64) {
    let length = 8 - value.leading_zeros() as usize / 8;
    out.push(length as u8);
    out.extend(&value.to_be_bytes()[8 - length..]);
}

/// Appends a signed number: one 1 per byte of the code, one 0, the value. A negative number has all bits flipped. `n`
/// bytes hold values of `7 n - 1` bits.
fn push_signed(out: &mut Vec<u8>, value: i64) {
    let negative = value < 0;
    let size = if negative { !value } else { value } as u64;
    let bits = (64 - size.leading_zeros()) as usize;
    let length = bits / 7 + 1;
    // The code of a non-negative number begins with `length` ones. The code of a negative number is the complement of
    // the code of its complement.
    let header = ((1_u128 << length) - 1) << (7 * length);
    let code = header | u128::from(size);
    let code = if negative { !code } else { code };
    out.extend(&code.to_be_bytes()[16 - length..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::tensor_slice_proto::Extent;

    fn signed(value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        push_signed(&mut out, value);
        out
    }

    #[test]
    fn signed_numbers_are_those_of_the_documentation_of_ordered_code() {
        assert_eq!(signed(0x42_4242), [0xf0, 0x42, 0x42, 0x42]);
        assert_eq!(signed(-0x800), [0x38, 0x00]);
        assert_eq!(signed(0), [0x80]);
        assert_eq!(signed(63), [0xbf]);
        assert_eq!(signed(64), [0xc0, 0x40]);
        assert_eq!(signed(-1), [0x7f]);
        assert_eq!(signed(-64), [0x40]);
        assert_eq!(signed(-65), [0x3f, 0xbf]);
        assert_eq!(
            signed(i64::MAX),
            [0xff, 0xc0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!(signed(i64::MIN), [0x00, 0x3f, 0x80, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn order_is_kept() {
        let around = |power: u32| [-1, 0, 1].map(|step| (1_i64 << power) + step);
        let mut values: Vec<i64> = (0..63)
            .flat_map(around)
            .flat_map(|value| [value, -value])
            .collect();
        values.sort_unstable();
        values.dedup();
        assert!(
            values
                .windows(2)
                .all(|pair| signed(pair[0]) < signed(pair[1]))
        );
    }

    #[test]
    fn a_key_is_that_of_a_recorded_checkpoint() {
        let extents = [(4, 3), (0, 3)];
        let extent = extents
            .map(|(start, length)| Extent {
                start,
                length: Some(length),
            })
            .to_vec();
        let expected = [b"\0emb\0\x01\x01\x02".as_slice(), &[0x84, 0x83, 0x80, 0x83]].concat();
        assert_eq!(slice_key("emb", &TensorSliceProto { extent }), expected);
    }

    #[test]
    fn special_bytes_are_escaped_and_whole_dimensions_are_marked() {
        let slice = TensorSliceProto {
            extent: vec![Extent {
                start: 0,
                length: None,
            }],
        };
        assert_eq!(
            slice_key("a\0b", &slice),
            b"\0a\0\xffb\0\x01\x01\x01\x80\x7f"
        );
    }
}
