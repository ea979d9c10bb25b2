//! Accuracy by class.

use super::Mean;

/// The plain mean of the accuracies of all classes (`tf.compat.v1.metrics.mean_per_class_accuracy`).
#[derive(Debug, Clone, PartialEq)]
pub struct MeanPerClassAccuracy {
    classes: Vec<Mean>,
}

impl MeanPerClassAccuracy {
    /// Returns the empty metric over a number of classes.
    pub fn new(classes: usize) -> Self {
        Self {
            classes: vec![Mean::default(); classes],
        }
    }

    /// Adds an example: the predicted class, the true class, and a weight. Classes beyond the last are not counted.
    pub fn add(&mut self, said: usize, is: usize, weight: f32) {
        if let Some(class) = self.classes.get_mut(is) {
            class.add(f64::from(u8::from(said == is)), f64::from(weight));
        }
    }

    /// Returns the mean over all classes. Classes without examples count as 0.
    pub fn value(&self) -> f64 {
        self.classes.iter().map(Mean::value).sum::<f64>() / self.classes.len().max(1) as f64
    }
}
