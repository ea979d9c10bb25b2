//! Records of a file that was read as a whole.

use crate::tfrecord::{FOOTER_BYTES, HEADER_BYTES, masked};

/// Bytes that are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record at byte {offset} {reason}")]
pub struct Damaged {
    /// Offset of the record, in bytes.
    pub offset: usize,
    /// Reason why it is not a record.
    pub reason: &'static str,
}

/// Iterates over the records of a file that was read as a whole. A truncated frame is an error: its writer was stopped,
/// or is still writing.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Records<'a> {
    /// Makes the iterator from the contents of a file.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    fn read(&self) -> Result<&'a [u8], &'static str> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let (length, rest) = rest.split_first_chunk::<8>().ok_or("is cut short")?;
        let (crc, rest) = rest.split_first_chunk::<4>().ok_or("is cut short")?;
        if masked(length) != u32::from_le_bytes(*crc) {
            return Err("has a length whose checksum is wrong");
        }
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| "is too long")?;
        let record = rest.get(..length).ok_or("is cut short")?;
        let (crc, _) = rest[length..]
            .split_first_chunk::<4>()
            .ok_or("is cut short")?;
        if masked(record) != u32::from_le_bytes(*crc) {
            return Err("has contents whose checksum is wrong");
        }
        Ok(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<&'a [u8], Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        let offset = self.offset;
        let read = self.read();
        // After a damaged record, the next record cannot be found.
        self.offset = read.map_or(self.bytes.len(), |record| {
            offset + HEADER_BYTES + record.len() + FOOTER_BYTES
        });
        Some(read.map_err(|reason| Damaged { offset, reason }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tfrecord::write_frame;

    fn frame(record: &[u8]) -> Vec<u8> {
        let mut framed = Vec::new();
        write_frame(&mut framed, record).expect("memory takes it");
        framed
    }

    #[test]
    fn a_record_is_read_as_it_was_framed_and_a_flipped_bit_or_a_cut_is_found() {
        let framed = [frame(b"first"), frame(b"")].concat();
        let read: Vec<&[u8]> = Records::new(&framed)
            .map(|record| record.expect("whole"))
            .collect();
        assert_eq!(read, [b"first".as_slice(), b""]);
        for bit in 0..framed.len() * 8 {
            let mut broken = framed.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Records::new(&broken).any(|record| record.is_err()),
                "bit {bit}"
            );
        }
        for length in (1..framed.len()).filter(|length| *length != frame(b"first").len()) {
            assert!(
                Records::new(&framed[..length]).any(|record| record.is_err()),
                "{length} bytes"
            );
        }
    }
}
