//! The format of the header of a segment's file.
//!
//! ```text
//!  0  magic    8 bytes
//!  8  version  u32   of this layout
//! 12  member   u32
//! 16  owner    u128
//! 32  prepared_epoch u64
//! 40  number   u64
//! 48  boot     u128
//! 64  part     u32
//! 68  zero     u32
//! 72  previous u64
//! 80  digest   u32   CRC-32C of the 80 bytes above
//! 84  zero     u32
//! ```

/// Size of the header of a segment's file in bytes.
pub const SEGMENT_HEADER_BYTES: usize = 88;

const MAGIC: [u8; 8] = *b"TYsegmnt";
const VERSION: u32 = 2;
/// Position of the digest.
const DIGEST: usize = 80;
/// Bits of a record's salt that tell the parts of a segment apart.
const PART_BITS: u32 = 20;

/// Fate of the segments before a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierSegments {
    /// They stay part of the log.
    Kept,
    /// They are obsolete, and are removed first.
    Obsolete,
}

/// The origin of a log: cluster, member and prepared epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// Cluster of the log.
    pub owner: u128,
    /// Member of the cluster.
    pub member: u32,
    /// Term in which the member's values were made or restored. Another number means other values.
    pub prepared_epoch: u64,
}

/// The header of a segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Origin of the log.
    pub origin: Origin,
    /// Number of the segment, from 1; segments are numbered in order.
    pub number: u64,
    /// Boot id of the machine when the file was begun; 0 = unknown.
    pub boot: u128,
    /// Number of the file among those of the segment, from 0.
    pub part: u32,
    /// Bytes in use of the segment's file before this one; 0 for the first file.
    pub previous_bytes: u64,
}

impl SegmentHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.origin.member.to_le_bytes());
        out[16..32].copy_from_slice(&self.origin.owner.to_le_bytes());
        out[32..40].copy_from_slice(&self.origin.prepared_epoch.to_le_bytes());
        out[40..48].copy_from_slice(&self.number.to_le_bytes());
        out[48..64].copy_from_slice(&self.boot.to_le_bytes());
        out[64..68].copy_from_slice(&self.part.to_le_bytes());
        out[72..80].copy_from_slice(&self.previous_bytes.to_le_bytes());
        let digest = crc32c::crc32c(&out[..DIGEST]);
        out[DIGEST..DIGEST + 4].copy_from_slice(&digest.to_le_bytes());
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// The header is invalid. The message says why.
    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<Self, String> {
        if bytes[..8] != MAGIC {
            return Err(format!(
                "a segment begins with {MAGIC:02x?}, given {:02x?}",
                &bytes[..8]
            ));
        }
        let version = u32::from_le_bytes(part(bytes, 8));
        if version != VERSION {
            return Err(format!(
                "the layout of a segment must be {VERSION}, given {version}: another release has written it"
            ));
        }
        let expected = crc32c::crc32c(&bytes[..DIGEST]);
        let found = u32::from_le_bytes(part(bytes, DIGEST));
        if expected != found || bytes[68..72] != [0; 4] || bytes[DIGEST + 4..] != [0; 4] {
            return Err(format!("head: crc32c {found:08x}, expected {expected:08x}"));
        }
        let origin = Origin {
            owner: u128::from_le_bytes(part(bytes, 16)),
            member: u32::from_le_bytes(part(bytes, 12)),
            prepared_epoch: u64::from_le_bytes(part(bytes, 32)),
        };
        Ok(Self {
            origin,
            number: u64::from_le_bytes(part(bytes, 40)),
            boot: u128::from_le_bytes(part(bytes, 48)),
            part: u32::from_le_bytes(part(bytes, 64)),
            previous_bytes: u64::from_le_bytes(part(bytes, 72)),
        })
    }

    /// Returns the salt of the file.
    pub(crate) fn salt(&self) -> u64 {
        salt(self.number, self.part)
    }
}

/// Returns the number that the digest of each record in a file covers. A file is used again for later segments, whose
/// records are thereby told from those that it had before.
pub(crate) fn salt(segment: u64, part: u32) -> u64 {
    segment << PART_BITS | u64::from(part)
}

fn part<const N: usize>(bytes: &[u8; SEGMENT_HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|place| bytes[at + place])
}

/// Returns the boot id of the machine; 0 if the system does not provide one.
pub fn boot() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_head_says_what_it_was_told_and_shows_a_flipped_bit(
            owner: u128, member: u32, prepared_epoch: u64, number: u64, boot: u128,
            part: u32, previous_bytes: u64, bit in 0..SEGMENT_HEADER_BYTES * 8,
        ) {
            let header = SegmentHeader {
                origin: Origin { owner, member, prepared_epoch }, number, boot, part, previous_bytes,
            };
            let mut bytes = header.encode();
            prop_assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(SegmentHeader::decode(&bytes).is_err());
        }
    }
}
