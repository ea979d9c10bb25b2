//! The head of a segment: whose it is.
//!
//! ```text
//!  0  magic    8 bytes
//!  8  version  u32   of this layout
//! 12  member   u32
//! 16  owner    u128
//! 32  prepared_epoch u64
//! 40  number   u64
//! 48  boot     u128
//! 64  digest   u32   CRC-32C of the 64 bytes above
//! 68  zero     u32
//! ```

/// Bytes before a segment's first record.
pub const SEGMENT_HEADER_BYTES: usize = 72;

const MAGIC: [u8; 8] = *b"TYsegmnt";
const VERSION: u32 = 1;

/// What a log is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// The cluster.
    pub owner: u128,
    /// The member of it.
    pub member: u32,
    /// What the member remembers: another number, another beginning.
    pub prepared_epoch: u64,
}

/// The head of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// What the log is of.
    pub origin: Origin,
    /// Place in the order of segments, from 1.
    pub number: u64,
    /// The start of the machine during which the segment was begun; 0 = not known.
    pub boot: u128,
}

impl SegmentHeader {
    /// Returns it as bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.origin.member.to_le_bytes());
        out[16..32].copy_from_slice(&self.origin.owner.to_le_bytes());
        out[32..40].copy_from_slice(&self.origin.prepared_epoch.to_le_bytes());
        out[40..48].copy_from_slice(&self.number.to_le_bytes());
        out[48..64].copy_from_slice(&self.boot.to_le_bytes());
        let digest = crc32c::crc32c(&out[..64]);
        out[64..68].copy_from_slice(&digest.to_le_bytes());
        out
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong.
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
                "the layout of a segment must be {VERSION}, given {version}"
            ));
        }
        let expected = crc32c::crc32c(&bytes[..64]);
        let found = u32::from_le_bytes(part(bytes, 64));
        if expected != found || bytes[68..] != [0; 4] {
            return Err(format!("head: crc32c {found:08x}, expected {expected:08x}"));
        }
        let origin = Origin {
            owner: u128::from_le_bytes(part(bytes, 16)),
            member: u32::from_le_bytes(part(bytes, 12)),
            prepared_epoch: u64::from_le_bytes(part(bytes, 32)),
        };
        let number = u64::from_le_bytes(part(bytes, 40));
        let boot = u128::from_le_bytes(part(bytes, 48));
        Ok(Self {
            origin,
            number,
            boot,
        })
    }
}

fn part<const N: usize>(bytes: &[u8; SEGMENT_HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|place| bytes[at + place])
}

/// Returns the id of this start of the machine; 0 where the system does not tell.
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
            owner: u128, member: u32, prepared_epoch: u64, number: u64, boot: u128, bit in 0..SEGMENT_HEADER_BYTES * 8,
        ) {
            let header = SegmentHeader { origin: Origin { owner, member, prepared_epoch }, number, boot };
            let mut bytes = header.encode();
            prop_assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(SegmentHeader::decode(&bytes).is_err());
        }
    }
}
