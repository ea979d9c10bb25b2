//! `categorical_column_with_hash_bucket`: `Fingerprint64(text) mod buckets`; an empty text has no id.

/// Returns the bucket of a text.
#[inline]
pub(crate) fn bucket(text: &[u8], buckets: u32) -> Option<u32> {
    (!text.is_empty()).then(|| (farmhash::fingerprint64(text) % u64::from(buckets)) as u32)
}
