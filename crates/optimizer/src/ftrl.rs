//! FTRL-Proximal (McMahan et al. 2013).

use serde::{Deserialize, Serialize};

use crate::adagrad::default_accumulator;
use crate::error::{not_negative, require};
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `g' = g + 2 s v; n = a + g²; z += g' - (n^-p - a^-p)/lr v; v = |z| > l1 ? (sign(z) l1 - z)/(n^-p/lr + 2 l2) : 0;
/// a = n` (`tf.compat.v1.train.FtrlOptimizer`, `ApplyFtrlV2`).
///
/// The first update of a row rebuilds its value from `z`, so that an initial value other than 0 is lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ftrl {
    /// Above 0.
    pub learning_rate: LearningRate,
    /// `p`, at most 0; -0.5 by default.
    #[serde(default = "default_power")]
    pub learning_rate_power: f32,
    /// Initial value of `a`, at least 0; 0.1 by default.
    #[serde(default = "default_accumulator")]
    pub initial_accumulator_value: f32,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l1_regularization_strength: f32,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l2_regularization_strength: f32,
    /// `s`, at least 0; 0 by default.
    #[serde(default)]
    pub l2_shrinkage_regularization_strength: f32,
    /// At least 0; 0 by default. Adds `beta / (2 lr)` to `l2`.
    #[serde(default)]
    pub beta: f32,
}

fn default_power() -> f32 {
    -0.5
}

impl Rule<2> for Ftrl {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        let power = self.learning_rate_power;
        require(
            power <= 0.0 && power.is_finite(),
            "learning_rate_power",
            "<= 0",
            power,
        )?;
        not_negative("initial_accumulator_value", self.initial_accumulator_value)?;
        not_negative(
            "l1_regularization_strength",
            self.l1_regularization_strength,
        )?;
        not_negative(
            "l2_regularization_strength",
            self.l2_regularization_strength,
        )?;
        not_negative(
            "l2_shrinkage_regularization_strength",
            self.l2_shrinkage_regularization_strength,
        )?;
        not_negative("beta", self.beta)
    }

    fn slots(&self) -> [Slot; 2] {
        [
            Slot::new("accum", self.initial_accumulator_value),
            Slot::new("linear", 0.0),
        ]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 2], &[f32]) {
        let rate = self.learning_rate.at(step);
        let terms = Terms {
            inverse_rate: 1.0 / rate,
            l1: self.l1_regularization_strength,
            l2: self.l2_regularization_strength + self.beta / (2.0 * rate),
            shrinkage: self.l2_shrinkage_regularization_strength,
        };
        let power = -self.learning_rate_power;
        #[inline(always)]
        move |values, slots, gradient| {
            if power == 0.5 {
                // The default power is a root, which costs a tenth of powf and vectorises.
                terms.apply(|x: f32| x.sqrt(), values, slots, gradient);
            } else {
                terms.apply(|x: f32| x.powf(power), values, slots, gradient);
            }
        }
    }
}

/// The hyper-parameters, prepared for the kernel.
#[derive(Debug, Clone, Copy)]
struct Terms {
    inverse_rate: f32,
    l1: f32,
    l2: f32,
    shrinkage: f32,
}

impl Terms {
    #[inline(always)]
    fn apply(
        &self,
        power: impl Fn(f32) -> f32,
        values: &mut [f32],
        [accum, linear]: [&mut [f32]; 2],
        gradient: &[f32],
    ) {
        for (((value, a), z), g) in values.iter_mut().zip(accum).zip(linear).zip(gradient) {
            let shrunk = g + 2.0 * self.shrinkage * *value;
            let next = *a + g * g;
            let root = power(next);
            *z += shrunk - (root - power(*a)) * self.inverse_rate * *value;
            let quadratic = root * self.inverse_rate + 2.0 * self.l2;
            let clipped = z.clamp(-self.l1, self.l1) - *z;
            *value = if z.abs() > self.l1 {
                clipped / quadratic
            } else {
                0.0
            };
            *a = next;
        }
    }
}
