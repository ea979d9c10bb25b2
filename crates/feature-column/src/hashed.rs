//! `categorical_column_with_hash_bucket`: `Fingerprint64(text) mod buckets`. An integer is hashed as its decimal text.

use std::io::Write as _;

use crate::fingerprint::fingerprint64;

/// Returns the bucket of a text.
#[inline]
pub(crate) fn bucket(text: &[u8], buckets: u32) -> u32 {
    (fingerprint64(text) % u64::from(buckets)) as u32
}

/// Returns the bucket of an integer.
pub(crate) fn bucket_of_int(number: i64, buckets: u32) -> u32 {
    (fingerprint_of_int(number) % u64::from(buckets)) as u32
}

/// Returns the fingerprint of an integer's decimal text.
pub(crate) fn fingerprint_of_int(number: i64) -> u64 {
    let mut text = [0_u8; 20];
    let mut rest = text.as_mut_slice();
    // Every i64 fits into 20 characters.
    let _ = write!(rest, "{number}");
    let length = 20 - rest.len();
    fingerprint64(&text[..length])
}
