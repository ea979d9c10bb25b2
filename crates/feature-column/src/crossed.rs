//! `crossed_column`: one id for each combination of values (`sparse_cross_hashed`).

/// TensorFlow's hash key where a column names none.
pub const CROSS_HASH_KEY: u64 = 0x00DE_CAFC_AFFE;

/// Joins two fingerprints into one (`FingerprintCat64`, `tensorflow/core/platform/fingerprint.h`).
#[inline]
pub fn fingerprint_concatenate(first: u64, second: u64) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    let shift_mix = |x: u64| x ^ (x >> 47);
    let mut result = first ^ MULTIPLIER;
    result ^= shift_mix(second.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    result = result.wrapping_mul(MULTIPLIER);
    result = shift_mix(result).wrapping_mul(MULTIPLIER);
    shift_mix(result)
}

/// Returns the bucket of one combination.
#[inline]
pub(crate) fn bucket(values: impl Iterator<Item = u64>, buckets: u32) -> u32 {
    (values.fold(CROSS_HASH_KEY, fingerprint_concatenate) % u64::from(buckets)) as u32
}
