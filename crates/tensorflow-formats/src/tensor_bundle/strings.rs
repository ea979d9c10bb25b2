//! The stored form of string tensors.

use crate::tfrecord::unmasked;

use crate::tensor_bundle::byte_order::ByteOrder;
use crate::tensor_bundle::cursor::Cursor;

/// Largest string tensor in its file, in bytes.
pub(crate) const STRING_TENSOR_BYTES_MAX: u64 = 1 << 30;
/// Most strings of a tensor.
pub(crate) const STRINGS_MAX: u64 = 1 << 26;

/// Strings, and the checksum of their stored form.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) strings: Vec<Vec<u8>>,
    pub(crate) crc32c: u32,
}

/// Decodes a string tensor: all lengths as varints, a masked checksum of the lengths, and the bytes of all strings
/// (`ReadStringTensor` in `tensorflow/core/util/tensor_bundle/tensor_bundle.cc`).
///
/// The checksum covers a length as four bytes, not as it is stored. A length that does not fit into four bytes is
/// refused. `elements` is at most the number of bytes.
pub(crate) fn decode(bytes: &[u8], elements: usize, order: ByteOrder) -> Result<Decoded, String> {
    if bytes.is_empty() {
        return Ok(Decoded {
            strings: Vec::new(),
            crc32c: 0,
        });
    }
    let mut cursor = Cursor::new(bytes);
    let mut crc32c = 0;
    let mut total = 0_u64;
    for index in 0..elements {
        let length = cursor
            .varint()
            .ok_or_else(|| format!("the length of string {index} is cut off"))?;
        // A longer string cannot follow. The sum cannot overflow, because each length is at most the number of bytes.
        if length > bytes.len() as u64 {
            return Err(format!(
                "string {index} has {length} bytes, the tensor has {}",
                bytes.len()
            ));
        }
        let Ok(short) = u32::try_from(length) else {
            return Err(format!(
                "string {index} has {length} bytes, at most {} are read",
                u32::MAX
            ));
        };
        crc32c = crc32c::crc32c_append(crc32c, &order.write_u32(short));
        total += length;
    }
    let stored = cursor
        .four()
        .ok_or_else(|| "the checksum of the lengths is cut off".to_owned())?;
    let expected = unmasked(order.read_u32(stored));
    if crc32c != expected {
        return Err(format!(
            "the lengths of its strings have crc32c {crc32c:08x}, expected {expected:08x}"
        ));
    }
    crc32c = crc32c::crc32c_append(crc32c, &stored);
    let contents = cursor.take(total).filter(|_| cursor.is_empty());
    let Some(contents) = contents else {
        return Err(format!(
            "its {elements} strings have {total} bytes together, which is not what is stored"
        ));
    };
    crc32c = crc32c::crc32c_append(crc32c, contents);
    Ok(Decoded {
        strings: cut(bytes, contents, elements),
        crc32c,
    })
}

/// Cuts the contents by the lengths, which were checked before.
fn cut(bytes: &[u8], contents: &[u8], elements: usize) -> Vec<Vec<u8>> {
    let mut lengths = Cursor::new(bytes);
    let mut contents = Cursor::new(contents);
    let next = |_| {
        contents
            .take(lengths.varint().unwrap_or(0))
            .unwrap_or_default()
            .to_vec()
    };
    (0..elements).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tensor `words` of the recorded checkpoint: "", "a" and two characters of three bytes.
    const WORDS: [u8; 14] = [
        0, 1, 6, 0x0b, 0x37, 0x94, 0x56, 0x61, 0xe6, 0x97, 0xa5, 0xe6, 0x9c, 0xac,
    ];

    #[test]
    fn strings_and_their_checksum_are_decoded() {
        let decoded = decode(&WORDS, 3, ByteOrder::Little).expect("they are whole");
        assert_eq!(decoded.strings, ["".as_bytes(), b"a", "日本".as_bytes()]);
        assert_eq!(decoded.crc32c, unmasked(0x99d5_850b));
    }

    #[test]
    fn lengths_that_do_not_add_up_are_refused() {
        assert!(
            decode(&WORDS[..13], 3, ByteOrder::Little)
                .is_err_and(|text| text.contains("7 bytes together"))
        );
        assert!(decode(&WORDS, 2, ByteOrder::Little).is_err_and(|text| text.contains("crc32c")));
        assert!(
            decode(&[0xff; 20], 3, ByteOrder::Little).is_err_and(|text| text.contains("cut off"))
        );
        let long = [&[0xff; 9][..], &[1, 0, 0, 0, 0]].concat();
        assert!(
            decode(&long, 1, ByteOrder::Little)
                .is_err_and(|text| text.contains("18446744073709551615 bytes"))
        );
    }
}
