//! Confusion counts, and metrics derived from them.

use super::auc::{EPSILON, THRESHOLDS, thresholds};

/// One of two exclusive classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The class with label 0.
    Negative,
    /// The class with any other label.
    Positive,
}

impl Class {
    /// Returns the class of a label.
    pub fn of_label(label: f32) -> Self {
        if label != 0.0 {
            Self::Positive
        } else {
            Self::Negative
        }
    }

    /// Returns the class that a score predicts: positive if it exceeds the threshold.
    pub fn above(score: f32, threshold: f32) -> Self {
        if score > threshold {
            Self::Positive
        } else {
            Self::Negative
        }
    }
}

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
    pub fn add(&mut self, predicted: Class, class: Class, weight: f32) {
        let count = match (predicted, class) {
            (Class::Positive, Class::Positive) => &mut self.true_positives,
            (Class::Positive, Class::Negative) => &mut self.false_positives,
            (Class::Negative, Class::Negative) => &mut self.true_negatives,
            (Class::Negative, Class::Positive) => &mut self.false_negatives,
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
    pub(crate) fn f1(&self) -> f64 {
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

    /// Adds an example: a probability, its class and a weight.
    pub fn add(&mut self, probability: f32, class: Class, weight: f32) {
        for (counts, threshold) in self.counts.iter_mut().zip(thresholds(THRESHOLDS)) {
            counts.add(Class::above(probability, threshold), class, weight);
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
