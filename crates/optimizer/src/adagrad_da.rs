//! Adagrad by dual averaging (Duchi, Hazan and Singer 2011).

use serde::{Deserialize, Serialize};

use crate::adagrad::default_accumulator;
use crate::error::{not_negative, positive};
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `s += g; q += g²; v = -lr sign(s) max(|s| - l1 t, 0) / (l2 t lr + √q)` at step `t`
/// (`tf.compat.v1.train.AdagradDAOptimizer`, `ApplyAdagradDA`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdagradDa {
    /// Above 0.
    pub learning_rate: LearningRate,
    /// Initial value of `q`, above 0; 0.1 by default.
    #[serde(default = "default_accumulator")]
    pub initial_gradient_squared_accumulator_value: f32,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l1_regularization_strength: f32,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l2_regularization_strength: f32,
}

impl Rule<2> for AdagradDa {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        let first = self.initial_gradient_squared_accumulator_value;
        positive("initial_gradient_squared_accumulator_value", first)?;
        not_negative(
            "l1_regularization_strength",
            self.l1_regularization_strength,
        )?;
        not_negative(
            "l2_regularization_strength",
            self.l2_regularization_strength,
        )
    }

    fn slots(&self) -> [Slot; 2] {
        let first = self.initial_gradient_squared_accumulator_value;
        [
            Slot::new("gradient_accumulator", 0.0),
            Slot::new("gradient_squared_accumulator", first),
        ]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 2], &[f32]) {
        let rate = self.learning_rate.at(step);
        let t = step as f32;
        let l1 = self.l1_regularization_strength * t;
        let l2 = self.l2_regularization_strength * t * rate;
        #[inline(always)]
        move |values, [sums, squares], gradient| {
            for (((value, s), q), g) in values.iter_mut().zip(sums).zip(squares).zip(gradient) {
                *s += g;
                *q += g * g;
                let shrunk = (s.abs() - l1).max(0.0);
                *value = -rate * shrunk.copysign(*s) / (l2 + q.sqrt());
            }
        }
    }
}
