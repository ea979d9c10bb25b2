//! Adagrad (Duchi, Hazan and Singer 2011).

use serde::{Deserialize, Serialize};

use crate::error::{not_negative, positive};
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `a += g²; v -= lr g / (√a + ε)` (`tf.compat.v1.train.AdagradOptimizer` without ε; `tf.keras.optimizers.Adagrad`
/// with 1e-7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adagrad {
    /// Above 0.
    pub learning_rate: LearningRate,
    /// Initial value of `a`, above 0 (with an ε, 0 is allowed, too); 0.1 by default.
    #[serde(default = "default_accumulator")]
    pub initial_accumulator_value: f32,
    /// `ε`, at least 0; 0 by default.
    #[serde(default)]
    pub epsilon: f32,
}

pub(crate) fn default_accumulator() -> f32 {
    0.1
}

impl Rule<1> for Adagrad {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        not_negative("epsilon", self.epsilon)?;
        let first = self.initial_accumulator_value;
        let check = if self.epsilon > 0.0 {
            not_negative
        } else {
            positive
        };
        check("initial_accumulator_value", first)
    }

    fn slots(&self) -> [Slot; 1] {
        [Slot::new("accumulator", self.initial_accumulator_value)]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 1], &[f32]) {
        let rate = self.learning_rate.at(step);
        let epsilon = self.epsilon;
        #[inline(always)]
        move |values, [accumulator], gradient| {
            for ((value, a), g) in values.iter_mut().zip(accumulator).zip(gradient) {
                *a += g * g;
                *value -= rate * g / (a.sqrt() + epsilon);
            }
        }
    }
}
