//! `bucketized_column`: bucket `i` holds `boundaries[i-1] <= x < boundaries[i]`.

/// Returns the bucket of a number.
#[inline]
pub(crate) fn bucket(boundaries: &[f32], value: f32) -> u32 {
    boundaries.partition_point(|boundary| *boundary <= value) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_belongs_to_the_bucket_above() {
        let buckets = [-1.0, 0.0, 0.5, 1.0, 2.0].map(|value| bucket(&[0.0, 1.0], value));
        assert_eq!(buckets, [0, 1, 1, 2, 2]);
    }
}
