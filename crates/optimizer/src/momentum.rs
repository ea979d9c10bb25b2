//! Gradient descent with momentum, in TensorFlow 1's form and in Keras's.

use serde::{Deserialize, Serialize};

use crate::error::fraction;
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `a = m a + g; v -= lr a`, or `v -= lr g + lr m a` with Nesterov (`tf.compat.v1.train.MomentumOptimizer`,
/// `ApplyMomentum`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Momentum {
    /// Above 0.
    pub learning_rate: LearningRate,
    /// `m`, in [0, 1); 0.9 by default.
    #[serde(default = "default_momentum")]
    pub momentum: f32,
    /// False by default.
    #[serde(default)]
    pub use_nesterov: bool,
}

fn default_momentum() -> f32 {
    0.9
}

impl Rule<1> for Momentum {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        fraction("momentum", self.momentum)
    }

    fn slots(&self) -> [Slot; 1] {
        [Slot::new("momentum", 0.0)]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 1], &[f32]) {
        let rate = self.learning_rate.at(step);
        let m = self.momentum;
        let nesterov = self.use_nesterov;
        #[inline(always)]
        move |values, [accumulator], gradient| {
            for ((value, a), g) in values.iter_mut().zip(accumulator).zip(gradient) {
                *a = m * *a + g;
                *value -= if nesterov {
                    rate * g + rate * m * *a
                } else {
                    rate * *a
                };
            }
        }
    }
}

/// `a = m a - lr g; v += a`, or `v += m a - lr g` with Nesterov (`tf.keras.optimizers.SGD`): the same as [`Momentum`]
/// while the learning rate is constant.
pub(crate) struct Keras<'a>(pub(crate) &'a Momentum);

impl Rule<1> for Keras<'_> {
    fn validate(&self) -> Result<(), Error> {
        self.0.validate()
    }

    fn slots(&self) -> [Slot; 1] {
        self.0.slots()
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 1], &[f32]) {
        let rate = self.0.learning_rate.at(step);
        let m = self.0.momentum;
        let nesterov = self.0.use_nesterov;
        #[inline(always)]
        move |values, [accumulator], gradient| {
            for ((value, a), g) in values.iter_mut().zip(accumulator).zip(gradient) {
                *a = m * *a - rate * g;
                *value += if nesterov { m * *a - rate * g } else { *a };
            }
        }
    }
}
