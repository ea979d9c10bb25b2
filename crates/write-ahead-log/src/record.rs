//! The format of a record: a header of 32 bytes, and a body that is padded to a multiple of 8.
//!
//! ```text
//!  0  magic      4 bytes
//!  4  kind       u16
//!  6  version    u16   of this layout: 2 with a digest of the body, 3 without
//!  8  length     u32   bytes of the body
//! 12  digest     u32   CRC-32C of the body, or 0
//! 16  number     u64   the writer's
//! 24  digest     u32   CRC-32C of the 24 bytes above, the record's place and its file's salt
//! 28  zero       u32
//! ```
//!
//! The digest covers the position and the file, so that a record that the file had in an earlier use, or a stray copy,
//! is invalid. 32 zeros follow the last record. The header of a record is written after its body and after those zeros.

use bytes::Bytes;

/// Size of a record's header in bytes.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;
/// Most bytes of a record's body.
pub const BODY_BYTES_MAX: usize = 1 << 30;
/// Records begin at multiples of this number of bytes.
pub(crate) const ALIGNMENT: u64 = 8;

const MAGIC: [u8; 4] = *b"TYwr";
const VERSION: u16 = 2;
/// Version of a header without a digest of the body.
const UNCHECKED_VERSION: u16 = 3;

/// A record to be written.
#[derive(Debug, Clone)]
pub struct Entry {
    kind: u16,
    number: u64,
    parts: Vec<Bytes>,
    length: usize,
    /// Digest of the body; `None` if it is not checked.
    digest: Option<u32>,
}

impl Entry {
    /// Returns a record whose body is the concatenation of `parts`, which are not copied. The digest is computed
    /// here, before any thread waits for the record.
    ///
    /// # Panics
    /// The body is longer than [`BODY_BYTES_MAX`].
    pub fn new(kind: u16, parts: Vec<Bytes>) -> Self {
        let digest = parts
            .iter()
            .fold(0, |digest, part| crc32c::crc32c_append(digest, part));
        Self {
            digest: Some(digest),
            ..Self::unchecked(kind, parts)
        }
    }

    /// As [`Entry::new`], without a digest of the body. It suits a record that lies in memory until it is read: the header is
    /// written last, so that a record with a header is whole, and memory is trusted, as that of the process is.
    ///
    /// # Panics
    /// The body is longer than [`BODY_BYTES_MAX`].
    pub fn unchecked(kind: u16, parts: Vec<Bytes>) -> Self {
        let length = parts.iter().map(Bytes::len).sum();
        assert!(
            length <= BODY_BYTES_MAX,
            "a record of {length} bytes, at most {BODY_BYTES_MAX} may be"
        );
        Self {
            kind,
            number: 0,
            parts,
            length,
            digest: None,
        }
    }

    /// Returns the record with a number.
    pub fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Returns the size of the record in a file, in bytes.
    pub fn bytes(&self) -> u64 {
        RECORD_HEADER_BYTES as u64 + (self.length as u64).next_multiple_of(ALIGNMENT)
    }

    /// Returns the kind that the writer gave the record.
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// Returns the number that the writer gave the record.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the parts of the body.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// Returns the number of zeros after the body.
    pub(crate) fn filling(&self) -> usize {
        self.length.next_multiple_of(ALIGNMENT as usize) - self.length
    }

    pub(crate) fn header(&self, place: u64, salt: u64) -> [u8; RECORD_HEADER_BYTES] {
        let length = self.length as u32;
        let header = Header {
            kind: self.kind,
            length,
            digest: self.digest,
            number: self.number,
        };
        header.encode(place, salt)
    }
}

/// A record that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Position of the record in its segment.
    pub place: u64,
    /// Kind that the writer gave the record.
    pub kind: u16,
    /// Number that the writer gave the record.
    pub number: u64,
    /// Body of the record.
    pub body: Bytes,
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u16,
    pub(crate) length: u32,
    /// Digest of the body; `None` if it is not checked.
    pub(crate) digest: Option<u32>,
    pub(crate) number: u64,
}

impl Header {
    pub(crate) fn encode(&self, place: u64, salt: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = [0; RECORD_HEADER_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&self.kind.to_le_bytes());
        let version = self.digest.map_or(UNCHECKED_VERSION, |_| VERSION);
        out[6..8].copy_from_slice(&version.to_le_bytes());
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[12..16].copy_from_slice(&self.digest.unwrap_or(0).to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        let digest = digest(&out, place, salt);
        out[24..28].copy_from_slice(&digest.to_le_bytes());
        out
    }

    /// Decodes the header at `place` of a file.
    ///
    /// # Errors
    /// The header is invalid. The error has the expected digest and the found one.
    pub(crate) fn decode(
        bytes: &[u8; RECORD_HEADER_BYTES],
        place: u64,
        salt: u64,
    ) -> Result<Self, (u32, u32)> {
        let expected = digest(bytes, place, salt);
        let found = u32::from_le_bytes(part(bytes, 24));
        let version = u16::from_le_bytes(part(bytes, 6));
        let known = bytes[..4] == MAGIC
            && matches!(version, VERSION | UNCHECKED_VERSION)
            && bytes[28..] == [0; 4];
        if expected != found || !known {
            return Err((expected, found));
        }
        Ok(Self {
            kind: u16::from_le_bytes(part(bytes, 4)),
            length: u32::from_le_bytes(part(bytes, 8)),
            digest: (version == VERSION).then(|| u32::from_le_bytes(part(bytes, 12))),
            number: u64::from_le_bytes(part(bytes, 16)),
        })
    }

    /// Returns whether the bytes begin like a header.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }
}

fn digest(bytes: &[u8; RECORD_HEADER_BYTES], place: u64, salt: u64) -> u32 {
    let digest = crc32c::crc32c(&bytes[..24]);
    let digest = crc32c::crc32c_append(digest, &place.to_le_bytes());
    crc32c::crc32c_append(digest, &salt.to_le_bytes())
}

fn part<const N: usize>(bytes: &[u8; RECORD_HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|place| bytes[at + place])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_says_what_it_was_told(
            kind: u16, length: u32, digest: Option<u32>, number: u64, place: u64, segment: u64,
        ) {
            let header = Header { kind, length, digest, number };
            prop_assert_eq!(Header::decode(&header.encode(place, segment), place, segment), Ok(header));
            prop_assert!(Header::decode(&header.encode(place, segment), place ^ 8, segment).is_err());
            prop_assert!(Header::decode(&header.encode(place, segment), place, segment ^ 1).is_err());
        }

        #[test]
        fn a_flipped_bit_of_a_header_is_found(number: u64, bit in 0..RECORD_HEADER_BYTES * 8) {
            let header = Header { kind: 3, length: 5, digest: Some(9), number };
            let mut bytes = header.encode(72, 4);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&bytes, 72, 4).is_err());
        }
    }
}
