//! Gradient descent.

use serde::{Deserialize, Serialize};

use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `v -= lr g` (`tf.compat.v1.train.GradientDescentOptimizer`, `ApplyGradientDescent`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sgd {
    /// Above 0.
    pub learning_rate: LearningRate,
}

impl Rule<0> for Sgd {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()
    }

    fn slots(&self) -> [Slot; 0] {
        []
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 0], &[f32]) {
        let rate = self.learning_rate.at(step);
        #[inline(always)]
        move |values, [], gradient| {
            for (value, g) in values.iter_mut().zip(gradient) {
                *value -= rate * g;
            }
        }
    }
}
