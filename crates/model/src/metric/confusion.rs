//! Confusion counts, and metrics derived from them.

use super::auc::{EPSILON, THRESHOLDS, thresholds};

/// Weighted counts of decisions by their truth (`tf.compat.v1.metrics.true_positives` and so on).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Confusion {
    /// Positive, predicted as positive.
    pub true_positives: f64,
    /// Negative, predicted as positive.
    pub false_positives: f64,
    /// Negative, predicted as negative.
    pub true_negatives: f64,
    /// Positive, predicted as negative.
    pub false_negatives: f64,
}

impl Confusion {
    /// Adds a decision.
    pub fn add(&mut self, said: bool, is: bool, weight: f32) {
        let count = match (said, is) {
            (true, true) => &mut self.true_positives,
            (true, false) => &mut self.false_positives,
            (false, false) => &mut self.true_negatives,
            (false, true) => &mut self.false_negatives,
        };
        *count += f64::from(weight);
    }

    /// Returns the share of positives among the predicted positives, or 0 if there are no predicted positives.
    pub fn precision(&self) -> f64 {
        divide(
            self.true_positives,
            self.true_positives + self.false_positives,
        )
    }

    /// Returns the share of predicted positives among the positives, or 0 if there are no positives.
    pub fn recall(&self) -> f64 {
        divide(
            self.true_positives,
            self.true_positives + self.false_negatives,
        )
    }

    /// Returns the harmonic mean of precision and recall (`tf.keras.metrics.F1Score`), or 0 if there are neither
    /// positives nor predicted positives.
    pub fn f1(&self) -> f64 {
        let wrong = self.false_positives + self.false_negatives;
        divide(2.0 * self.true_positives, 2.0 * self.true_positives + wrong)
    }
}

fn divide(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// Sensitivity at the threshold, one of 200, whose specificity is nearest to a given specificity
/// (`tf.compat.v1.metrics.sensitivity_at_specificity`).
#[derive(Debug, Clone, PartialEq)]
pub struct SensitivityAtSpecificity {
    specificity: f64,
    counts: Vec<Confusion>,
}

impl SensitivityAtSpecificity {
    /// Returns the empty metric for a specificity between 0 and 1.
    pub fn new(specificity: f64) -> Self {
        Self {
            specificity,
            counts: vec![Confusion::default(); THRESHOLDS],
        }
    }

    /// Adds an example: a probability, its truth and a weight.
    pub fn add(&mut self, probability: f32, is: bool, weight: f32) {
        for (counts, threshold) in self.counts.iter_mut().zip(thresholds(THRESHOLDS)) {
            counts.add(probability > threshold, is, weight);
        }
    }

    /// Returns the sensitivity, or 0 without examples.
    pub fn value(&self) -> f64 {
        let away = |counts: &Confusion| {
            let specificity =
                counts.true_negatives / (counts.true_negatives + counts.false_positives + EPSILON);
            (specificity - self.specificity).abs()
        };
        let nearest = self
            .counts
            .iter()
            .min_by(|a, b| away(a).total_cmp(&away(b)));
        nearest.map_or(0.0, |counts| {
            counts.true_positives / (counts.true_positives + counts.false_negatives + EPSILON)
        })
    }
}
