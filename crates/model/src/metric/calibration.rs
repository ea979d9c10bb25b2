//! Calibration of predicted probabilities.

use super::Mean;

/// Means of predictions and labels in buckets of equal width, from 0 to 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    buckets: Vec<(Mean, Mean)>,
}

/// A bucket with examples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationBucket {
    /// Lower bound of the probabilities.
    pub from: f64,
    /// Upper bound of the probabilities.
    pub to: f64,
    /// Weighted mean of the predictions in the bucket.
    pub prediction: f64,
    /// Weighted mean of the labels in the bucket.
    pub label: f64,
    /// Share of the bucket in the total weight.
    pub share: f64,
}

impl Calibration {
    /// Returns the empty metric with this number of buckets.
    pub fn new(buckets: usize) -> Self {
        Self {
            buckets: vec![Default::default(); buckets],
        }
    }

    /// Adds an example: a probability, its label and a weight.
    pub fn add(&mut self, probability: f32, label: f32, weight: f32) {
        let count = self.buckets.len();
        let place = ((probability * count as f32) as usize).min(count.saturating_sub(1));
        if let Some((predictions, labels)) = self.buckets.get_mut(place) {
            predictions.add(probability.into(), weight.into());
            labels.add(label.into(), weight.into());
        }
    }

    /// Returns the buckets that have examples.
    pub fn buckets(&self) -> Vec<CalibrationBucket> {
        let all: f64 = self
            .buckets
            .iter()
            .map(|(predictions, _)| predictions.weight())
            .sum();
        let count = self.buckets.len() as f64;
        let told = self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, (predictions, _))| predictions.weight() > 0.0);
        let told = told.map(|(place, (predictions, labels))| CalibrationBucket {
            from: place as f64 / count,
            to: (place + 1) as f64 / count,
            prediction: predictions.value(),
            label: labels.value(),
            share: predictions.weight() / all,
        });
        told.collect()
    }

    /// Returns the expected calibration error (Guo et al. 2017): the mean distance between prediction and label, by
    /// bucket.
    pub fn error(&self) -> f64 {
        self.buckets()
            .iter()
            .map(|bucket| bucket.share * (bucket.prediction - bucket.label).abs())
            .sum()
    }
}
