//! Checksums as TensorFlow stores them (`tensorflow/core/lib/hash/crc32c.h`).

/// Constant that is added to a rotated checksum (`kMaskDelta`).
const MASK_DELTA: u32 = 0xa282_ead8;

/// Returns the masked checksum of bytes, as it is stored. The checksum is rotated, because a CRC of data that contains
/// CRCs is weak.
#[inline]
#[must_use]
pub fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

/// Returns the masked form of a crc32c.
#[inline]
#[must_use]
pub(crate) fn mask(crc32c: u32) -> u32 {
    crc32c.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Returns the crc32c of its masked form.
#[inline]
#[must_use]
pub(crate) fn unmasked(stored: u32) -> u32 {
    stored.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_nothing_is_the_delta() {
        assert_eq!(masked(b""), MASK_DELTA);
        assert_eq!(unmasked(0xa282_ead8), crc32c::crc32c(b""));
    }

    #[test]
    fn a_masked_checksum_is_unmasked() {
        assert_eq!(unmasked(masked(b"foo")), crc32c::crc32c(b"foo"));
    }
}
