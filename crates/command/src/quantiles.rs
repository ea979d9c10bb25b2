//! Boundaries of buckets: quantiles of numbers, and of the distinct ones among them.

use trainyard_run_config::BoundaryPurpose;

/// Numbers that are kept. More of them are represented by a uniform sample.
const KEPT_MAX: usize = 1 << 20;

/// A uniform sample of numbers (Vitter 1985, algorithm R). It is the same for the same numbers in the same order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    kept: Vec<f32>,
    seen: u64,
    state: u64,
}

impl Sample {
    /// Adds a number. One that is not finite has no bucket between others.
    pub(crate) fn add(&mut self, number: f32) {
        if !number.is_finite() {
            return;
        }
        self.seen += 1;
        // -0 and 0 are in one bucket.
        let number = number + 0.0;
        if self.kept.len() < KEPT_MAX {
            self.kept.push(number);
            return;
        }
        let place = self.next() % self.seen;
        if let Some(kept) = self.kept.get_mut(place as usize) {
            *kept = number;
        }
    }

    /// Returns the first number.
    pub(crate) fn first(&self) -> Option<f32> {
        self.kept.first().copied()
    }

    /// Returns how many numbers were added.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the next number of SplitMix64 (Steele et al. 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Returns at most `most` boundaries, ascending: half of them are quantiles of the numbers, the others of the distinct ones. A
/// number that is 0 in most records has few quantiles of records, and its other values are told apart by theirs. The least
/// number is no boundary of buckets: nothing would be below it. It is one of bins, and so is the greatest number.
///
/// Of the purpose `Quantiles`, they are `most` quantiles of the numbers. There is none if all numbers are one.
pub(crate) fn boundaries(sample: &Sample, most: usize, purpose: BoundaryPurpose) -> Vec<f32> {
    let mut numbers = sample.kept.clone();
    numbers.sort_unstable_by(f32::total_cmp);
    let mut distinct = numbers.clone();
    distinct.dedup();
    let [least, .., greatest] = distinct[..] else {
        return Vec::new();
    };
    if purpose == BoundaryPurpose::Quantiles {
        // More of them than numbers would be between numbers (`n_quantiles_` of scikit-learn).
        return percentiles(&numbers, most.min(numbers.len()));
    }
    let mut found = if distinct.len() - 1 <= most {
        distinct[1..].to_vec()
    } else {
        let of_distinct = most / 2;
        let mut found = quantiles(&numbers, most - of_distinct);
        found.extend(quantiles(&distinct, of_distinct));
        found
    };
    found.retain(|boundary| *boundary > least);
    if purpose == BoundaryPurpose::Bins {
        found.extend([least, greatest]);
    }
    found.sort_unstable_by(f32::total_cmp);
    found.dedup();
    found
}

/// Returns `count` quantiles at equal steps from the least number to the greatest, linear between two numbers (method 7 of Hyndman and Fan
/// 1996, which NumPy and R use).
fn percentiles(sorted: &[f32], count: usize) -> Vec<f32> {
    let last = sorted.len() - 1;
    let quantile = |index: usize| {
        let scaled = index * last;
        let below = scaled / (count - 1);
        let part = (scaled % (count - 1)) as f64 / (count - 1) as f64;
        let [low, high] = [below, (below + 1).min(last)].map(|place| f64::from(sorted[place]));
        (low + part * (high - low)) as f32
    };
    (0..count).map(quantile).collect()
}

/// Returns the numbers that begin each of `count + 1` equal parts, but the first.
fn quantiles(sorted: &[f32], count: usize) -> Vec<f32> {
    let place = |part: usize| part * sorted.len() / (count + 1);
    (1..=count).map(|part| sorted[place(part)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: impl IntoIterator<Item = f32>, most: usize) -> Vec<f32> {
        let mut sample = Sample::default();
        numbers.into_iter().for_each(|number| sample.add(number));
        boundaries(&sample, most, BoundaryPurpose::Buckets)
    }

    #[test]
    fn the_edges_of_bins_begin_with_the_least_number_and_end_with_the_greatest() {
        let mut sample = Sample::default();
        (0..100).for_each(|number| sample.add(number as f32));
        assert_eq!(
            boundaries(&sample, 1, BoundaryPurpose::Bins),
            [0.0, 50.0, 99.0]
        );
        let mut sample = Sample::default();
        [3.0, 1.0].into_iter().for_each(|number| sample.add(number));
        assert_eq!(boundaries(&sample, 9, BoundaryPurpose::Bins), [1.0, 3.0]);
    }

    #[test]
    fn quantiles_of_the_records_go_from_the_least_number_to_the_greatest_with_equal_ones() {
        let mut sample = Sample::default();
        [3.0, 1.0, 2.0, 1.0, 1.0, 7.0]
            .into_iter()
            .for_each(|number| sample.add(number));
        let of = |count| boundaries(&sample, count, BoundaryPurpose::Quantiles);
        assert_eq!(of(2), [1.0, 7.0]);
        assert_eq!(of(3), [1.0, 1.5, 7.0]);
        assert_eq!(of(6), [1.0, 1.0, 1.0, 2.0, 3.0, 7.0]);
        assert_eq!(of(99), of(6), "no more than numbers");
    }

    #[test]
    fn few_distinct_numbers_have_a_bucket_each() {
        assert_eq!(of([3.0, 1.0, 2.0, 1.0, 3.0], 2), [2.0, 3.0]);
        assert_eq!(of([-0.0, 0.0, 5.0], 9), [5.0]);
        assert!(of([4.0; 7], 9).is_empty());
        assert!(of([f32::NAN, f32::INFINITY], 9).is_empty());
    }

    #[test]
    fn half_are_quantiles_of_the_numbers_and_half_of_the_distinct_ones() {
        // 900 zeros and 1 to 100: of the numbers, every quantile is 0.
        let skewed = (0..900)
            .map(|_| 0.0)
            .chain((1..=100).map(|number| number as f32));
        assert_eq!(of(skewed, 8), [20.0, 40.0, 60.0, 80.0]);
        let even = (0..1000).map(|number| number as f32);
        assert_eq!(of(even, 3), [333.0, 500.0, 666.0]);
    }

    #[test]
    fn many_numbers_are_represented_by_a_sample_that_is_the_same_each_time() {
        let many = || (0..4 * KEPT_MAX).map(|number| (number % 1000) as f32);
        let found = of(many(), 9);
        assert_eq!(found, of(many(), 9));
        let middle = found[found.len() / 2];
        assert!((490.0..=510.0).contains(&middle), "{found:?}");
    }
}
