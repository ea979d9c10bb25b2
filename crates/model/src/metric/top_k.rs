//! Precision and recall of the highest predictions.

/// Number of correct predictions among the `k` highest of each record, or group of records
/// (`tf.compat.v1.metrics.precision_at_k`, `recall_at_k`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TopK {
    right: f64,
    shown: f64,
    positives: f64,
}

impl TopK {
    /// Adds the predictions of a record or group, highest first, each with its correctness and weight.
    pub fn add(&mut self, k: usize, highest_first: impl Iterator<Item = (bool, f64)>) {
        for (place, (right, weight)) in highest_first.enumerate() {
            let right = if right { weight } else { 0.0 };
            if place < k {
                self.right += right;
                self.shown += weight;
            }
            self.positives += right;
        }
    }

    /// Returns the share of correct predictions among the `k` highest, or 0 without predictions.
    pub fn precision(&self) -> f64 {
        if self.shown == 0.0 {
            0.0
        } else {
            self.right / self.shown
        }
    }

    /// Returns the share of the correct predictions that are among the `k` highest, or 0 without correct predictions.
    pub fn recall(&self) -> f64 {
        if self.positives == 0.0 {
            0.0
        } else {
            self.right / self.positives
        }
    }
}
