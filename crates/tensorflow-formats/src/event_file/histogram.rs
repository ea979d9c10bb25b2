//! Histograms with the buckets of TensorFlow (`tensorflow/core/lib/histogram/histogram.cc`).

use crate::generated::HistogramProto;

/// Upper end of the first bucket above 0.
const SMALLEST: f64 = 1e-12;
/// Bound of the upper ends of buckets. One more bucket holds all larger values.
const LARGEST: f64 = 1e20;
/// Ratio of the upper ends of successive buckets.
const GROWTH: f64 = 1.1;

/// A histogram of finite values. Other values are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper ends of the buckets, ascending. A value equal to an end belongs to the next bucket.
    limits: Vec<f64>,
    counts: Vec<f64>,
    min: f64,
    max: f64,
    sum: f64,
    sum_squares: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        let mut positive = vec![SMALLEST];
        let mut limit = SMALLEST * GROWTH;
        while limit < LARGEST {
            positive.push(limit);
            limit *= GROWTH;
        }
        positive.push(f64::MAX);
        let negative = positive.iter().rev().map(|limit| -limit);
        let limits: Vec<f64> = negative
            .chain([0.0])
            .chain(positive.iter().copied())
            .collect();
        let counts = vec![0.0; limits.len()];
        Self {
            limits,
            counts,
            min: f64::MAX,
            max: f64::MIN,
            sum: 0.0,
            sum_squares: 0.0,
        }
    }
}

impl Histogram {
    /// Adds the finite values.
    pub fn add(&mut self, values: impl IntoIterator<Item = f32>) {
        for value in values
            .into_iter()
            .filter(|value| value.is_finite())
            .map(f64::from)
        {
            let place = self.limits.partition_point(|limit| *limit <= value);
            // The last limit is larger than any f32.
            self.counts[place.min(self.limits.len() - 1)] += 1.0;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            self.sum += value;
            self.sum_squares += value * value;
        }
    }

    /// Returns the message. It merges consecutive empty buckets.
    pub(crate) fn to_proto(&self) -> HistogramProto {
        let num: f64 = self.counts.iter().sum();
        let (min, max) = if num > 0.0 {
            (self.min, self.max)
        } else {
            (0.0, 0.0)
        };
        let mut bucket_limit = Vec::new();
        let mut bucket = Vec::<f64>::new();
        for (&limit, &count) in self.limits.iter().zip(&self.counts) {
            if count == 0.0 && bucket.last() == Some(&0.0) {
                bucket_limit.pop();
                bucket.pop();
            }
            bucket_limit.push(limit);
            bucket.push(count);
        }
        HistogramProto {
            min,
            max,
            num,
            sum: self.sum,
            sum_squares: self.sum_squares,
            bucket_limit,
            bucket,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_in_the_buckets_of_tensorflow_and_empty_ones_are_joined() {
        let mut histogram = Histogram::default();
        histogram.add([0.5, 0.5, -1.0, 0.0, f32::NAN, f32::INFINITY]);
        let proto = histogram.to_proto();
        assert_eq!(
            (proto.num, proto.min, proto.max, proto.sum),
            (4.0, -1.0, 0.5, 0.0)
        );
        assert_eq!(proto.sum_squares, 1.5);
        // No two neighbouring buckets are empty, and each value lies below the end of its bucket, but not below the end
        // before.
        assert!(proto.bucket.windows(2).all(|pair| pair != [0.0, 0.0]));
        for value in [0.5, -1.0, 0.0] {
            let place = proto.bucket_limit.partition_point(|limit| *limit <= value);
            assert!(proto.bucket[place] > 0.0, "{value}");
            let low = proto.bucket_limit[place - 1];
            let high = proto.bucket_limit[place];
            assert!(low <= value && value < high, "{low} {value} {high}");
            assert!(
                value == 0.0 || (high - low) / value.abs() < 0.11,
                "{low} {value} {high}"
            );
        }
    }

    #[test]
    fn nothing_at_all_is_a_histogram_too() {
        let proto = Histogram::default().to_proto();
        assert_eq!((proto.num, proto.min, proto.max), (0.0, 0.0, 0.0));
        assert_eq!(
            (proto.bucket, proto.bucket_limit),
            (vec![0.0], vec![f64::MAX])
        );
    }
}
