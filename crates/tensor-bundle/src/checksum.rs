//! Checksums as TensorFlow stores them.

/// Added to a rotated checksum (`kMaskDelta` in `tensorflow/core/lib/hash/crc32c.h`).
const MASK_DELTA: u32 = 0xa282_ead8;

/// Returns the crc32c behind its stored, masked form.
pub(crate) fn unmask(stored: u32) -> u32 {
    stored.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_nothing_is_the_delta() {
        assert_eq!(unmask(0xa282_ead8), crc32c::crc32c(b""));
    }

    #[test]
    fn a_masked_checksum_is_unmasked() {
        let sum = crc32c::crc32c(b"foo");
        assert_eq!(unmask(sum.rotate_right(15).wrapping_add(MASK_DELTA)), sum);
    }
}
