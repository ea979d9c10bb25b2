//! Exact area under the ROC curve, without thresholds.

use super::confusion::Class;

/// Most examples of the exact area. With more examples, it is not reported.
const EXAMPLES_MAX: usize = 20_000_000;

/// Probability that a positive example scores above a negative one, with ties counted half (Mann and Whitney 1947).
#[derive(Debug, Clone, Default)]
pub struct ExactAuc {
    examples: Vec<(f32, Class, f32)>,
    overflow: bool,
}

impl ExactAuc {
    /// Adds an example: a score, its class and a weight.
    pub fn add(&mut self, score: f32, class: Class, weight: f32) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push((score, class, weight));
        } else {
            self.overflow = true;
        }
    }

    /// Returns the truths and weights of the examples, highest score first. Equal scores keep their order of arrival.
    pub(crate) fn highest_first(&self) -> impl Iterator<Item = (bool, f64)> {
        let mut sorted: Vec<&(f32, Class, f32)> = self.examples.iter().collect();
        sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
        sorted
            .into_iter()
            .map(|(_, class, weight)| (*class == Class::Positive, f64::from(*weight)))
    }

    /// Returns the sum of the weights.
    pub fn weight(&self) -> f64 {
        self.examples
            .iter()
            .map(|(.., weight)| f64::from(*weight))
            .sum()
    }

    /// Returns the area, or `None` if a class has no weight or there were more than 20 million examples.
    pub fn value(&self) -> Option<f64> {
        let mut sorted = self.examples.clone();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0.0;
        let mut all_positive = 0.0;
        let mut area = 0.0;
        for tied in sorted.chunk_by(|a, b| a.0 == b.0) {
            let mut positive = 0.0;
            let mut negative = 0.0;
            for (_, class, weight) in tied {
                let sum = match class {
                    Class::Positive => &mut positive,
                    Class::Negative => &mut negative,
                };
                *sum += f64::from(*weight);
            }
            area += positive * (below + negative / 2.0);
            below += negative;
            all_positive += positive;
        }
        let pairs = below * all_positive;
        (pairs > 0.0 && !self.overflow).then(|| area / pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_area_counts_pairs_and_halves_ties() {
        let mut auc = ExactAuc::default();
        for (score, label) in [(0.1, 0.0), (0.4, 1.0), (0.4, 0.0), (0.8, 1.0)] {
            auc.add(score, Class::of_label(label), 1.0);
        }
        assert_eq!(auc.value(), Some(3.5 / 4.0));
        assert_eq!(ExactAuc::default().value(), None);
    }
}
