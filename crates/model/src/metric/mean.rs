//! Weighted means, the form of most metrics.

/// A weighted mean (`tf.compat.v1.metrics.mean`) of losses, of squared errors (`mean_squared_error`; its root is
/// `root_mean_squared_error`), of absolute errors, or of a condition as 0 or 1 (`accuracy`, `percentage_below`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    /// Adds a value.
    pub fn add(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
    }

    /// Returns the mean, or 0 without weight.
    pub fn value(&self) -> f64 {
        if self.weight == 0.0 {
            0.0
        } else {
            self.sum / self.weight
        }
    }

    /// Returns the weighted sum.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Returns the sum of the weights.
    pub fn weight(&self) -> f64 {
        self.weight
    }
}
