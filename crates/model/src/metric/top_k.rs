//! Whether what is predicted highest is right.

/// Of the `k` highest predictions of each record, or group of records, how many are right
/// (`tf.compat.v1.metrics.precision_at_k`, `recall_at_k`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TopK {
    right: f64,
    shown: f64,
    positives: f64,
}

impl TopK {
    /// Adds the predictions of a record or group, highest first: whether each is right, and what it counts.
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

    /// Returns the share of those shown that are right; 0 without any.
    pub fn precision(&self) -> f64 {
        if self.shown == 0.0 {
            0.0
        } else {
            self.right / self.shown
        }
    }

    /// Returns the share of those which are right that were shown; 0 without any.
    pub fn recall(&self) -> f64 {
        if self.positives == 0.0 {
            0.0
        } else {
            self.right / self.positives
        }
    }
}
