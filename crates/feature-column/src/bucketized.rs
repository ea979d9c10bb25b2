//! `bucketized_column`: bucket `i` holds `boundaries[i-1] <= x < boundaries[i]`. The buckets of the second number of a
//! field follow those of the first.

use trainyard_input::Batch;

use crate::Error;
use crate::ids::Raw;
use crate::numeric::Source;

/// A numeric column that is divided into buckets.
#[derive(Debug, Clone)]
pub(crate) struct Bucketized {
    pub(crate) source: Source,
    pub(crate) boundaries: Vec<f32>,
}

impl Bucketized {
    /// Returns the number of ids.
    pub(crate) fn buckets(&self) -> u32 {
        (self.boundaries.len() as u32 + 1) * self.source.width as u32
    }

    pub(crate) fn ids(&self, batch: &Batch, out: &mut Raw) -> Result<(), Error> {
        let values = self.source.values(batch)?;
        let width = self.source.width;
        for row in values.chunks_exact(width) {
            for (place, value) in row.iter().enumerate() {
                let bucket = bucket(&self.boundaries, self.source.normalize(*value));
                out.push(place as u32 * (self.boundaries.len() as u32 + 1) + bucket);
            }
            out.end_row();
        }
        Ok(())
    }
}

/// Returns the bucket of a number.
#[inline]
fn bucket(boundaries: &[f32], value: f32) -> u32 {
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
