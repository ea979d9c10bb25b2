//! Proximal descent: a step, then towards zero (Duchi and Singer 2009).

use serde::{Deserialize, Serialize};

use crate::adagrad::default_accumulator;
use crate::error::{not_negative, positive};
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `w = v - lr g; v = sign(w) max(|w| - lr l1, 0) / (1 + lr l2)`
/// (`tf.compat.v1.train.ProximalGradientDescentOptimizer`, `ApplyProximalGradientDescent`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProximalSgd {
    /// Above 0.
    pub learning_rate: LearningRate,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l1_regularization_strength: f32,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l2_regularization_strength: f32,
}

/// As [`ProximalSgd`] with `lr / √a` for `lr`, `a += g²` (`tf.compat.v1.train.ProximalAdagradOptimizer`,
/// `ApplyProximalAdagrad`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProximalAdagrad {
    /// Above 0.
    pub learning_rate: LearningRate,
    /// Initial value of `a`, above 0; 0.1 by default.
    #[serde(default = "default_accumulator")]
    pub initial_accumulator_value: f32,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l1_regularization_strength: f32,
    /// At least 0; 0 by default.
    #[serde(default)]
    pub l2_regularization_strength: f32,
}

#[inline(always)]
fn shrink(moved: f32, rate: f32, l1: f32, l2: f32) -> f32 {
    (moved.abs() - rate * l1).max(0.0).copysign(moved) / (1.0 + rate * l2)
}

impl Rule<0> for ProximalSgd {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        not_negative(
            "l1_regularization_strength",
            self.l1_regularization_strength,
        )?;
        not_negative(
            "l2_regularization_strength",
            self.l2_regularization_strength,
        )
    }

    fn slots(&self) -> [Slot; 0] {
        []
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 0], &[f32]) {
        let rate = self.learning_rate.at(step);
        let l1 = self.l1_regularization_strength;
        let l2 = self.l2_regularization_strength;
        #[inline(always)]
        move |values, [], gradient| {
            for (value, g) in values.iter_mut().zip(gradient) {
                *value = shrink(*value - rate * g, rate, l1, l2);
            }
        }
    }
}

impl Rule<1> for ProximalAdagrad {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        positive("initial_accumulator_value", self.initial_accumulator_value)?;
        not_negative(
            "l1_regularization_strength",
            self.l1_regularization_strength,
        )?;
        not_negative(
            "l2_regularization_strength",
            self.l2_regularization_strength,
        )
    }

    fn slots(&self) -> [Slot; 1] {
        [Slot::new("accumulator", self.initial_accumulator_value)]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 1], &[f32]) {
        let rate = self.learning_rate.at(step);
        let l1 = self.l1_regularization_strength;
        let l2 = self.l2_regularization_strength;
        #[inline(always)]
        move |values, [accumulator], gradient| {
            for ((value, a), g) in values.iter_mut().zip(accumulator).zip(gradient) {
                *a += g * g;
                let rate = rate / a.sqrt();
                *value = shrink(*value - rate * g, rate, l1, l2);
            }
        }
    }
}
