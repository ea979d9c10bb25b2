//! RMSProp (Tieleman and Hinton 2012), in TensorFlow 1's form and in Keras's.

use serde::{Deserialize, Serialize};

use crate::error::{fraction, positive};
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `s += (1-ρ)(g²-s); a = μ a + lr g / √(s + ε); v -= a`, with `√(s - c² + ε)`, `c += (1-ρ)(g-c)` when centered
/// (`tf.compat.v1.train.RMSPropOptimizer`, `ApplyRMSProp`, `ApplyCenteredRMSProp`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RmsProp {
    /// Above 0; 0.001 by default.
    #[serde(default = "LearningRate::thousandth")]
    pub learning_rate: LearningRate,
    /// `ρ`, in [0, 1); 0.9 by default.
    #[serde(default = "default_decay")]
    pub decay: f32,
    /// `μ`, in [0, 1); 0 by default.
    #[serde(default)]
    pub momentum: f32,
    /// `ε`, above 0; 1e-10 by default.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
    /// The variance divides instead of the second moment; false by default.
    #[serde(default)]
    pub centered: bool,
}

/// `tf.keras.optimizers.legacy.RMSprop`: `s` starts at 0. Without momentum, the update is `v -= lr g / (√s + ε)`, and
/// every row of a table decays at each step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KerasRmsProp {
    /// Above 0; 0.001 by default.
    #[serde(default = "LearningRate::thousandth")]
    pub learning_rate: LearningRate,
    /// `ρ`, in [0, 1); 0.9 by default.
    #[serde(default = "default_decay")]
    pub decay: f32,
    /// `μ`, in [0, 1); 0 by default.
    #[serde(default)]
    pub momentum: f32,
    /// `ε`, above 0; 1e-7 by default.
    #[serde(default = "default_keras_epsilon")]
    pub epsilon: f32,
    /// The variance divides instead of the second moment; false by default.
    #[serde(default)]
    pub centered: bool,
}

fn default_decay() -> f32 {
    0.9
}

fn default_epsilon() -> f32 {
    1e-10
}

fn default_keras_epsilon() -> f32 {
    1e-7
}

impl Rule<3> for RmsProp {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        fraction("decay", self.decay)?;
        fraction("momentum", self.momentum)?;
        positive("epsilon", self.epsilon)
    }

    fn slots(&self) -> [Slot; 3] {
        [
            Slot::new("rms", 1.0),
            Slot::new("momentum", 0.0),
            Slot::new("mg", 0.0),
        ]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 3], &[f32]) {
        let rate = self.learning_rate.at(step);
        let rho = self.decay;
        let mu = self.momentum;
        let epsilon = self.epsilon;
        #[inline(always)]
        move |values, [rms, momentum, mean], gradient| {
            let slots = rms.iter_mut().zip(momentum).zip(mean);
            for ((value, ((s, a), c)), g) in values.iter_mut().zip(slots).zip(gradient) {
                *s += (1.0 - rho) * (g * g - *s);
                *c += (1.0 - rho) * (g - *c);
                *a = mu * *a + rate * g / (*s - *c * *c + epsilon).sqrt();
                *value -= *a;
            }
        }
    }
}

/// RMSProp without centering, which needs one slot less.
pub(crate) struct Plain<'a>(pub(crate) &'a RmsProp);

impl Rule<2> for Plain<'_> {
    fn validate(&self) -> Result<(), Error> {
        self.0.validate()
    }

    fn slots(&self) -> [Slot; 2] {
        [Slot::new("rms", 1.0), Slot::new("momentum", 0.0)]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 2], &[f32]) {
        let RmsProp {
            decay: rho,
            momentum: mu,
            epsilon,
            ..
        } = *self.0;
        let rate = self.0.learning_rate.at(step);
        #[inline(always)]
        move |values, [rms, momentum], gradient| {
            for (((value, s), a), g) in values.iter_mut().zip(rms).zip(momentum).zip(gradient) {
                *s += (1.0 - rho) * (g * g - *s);
                *a = mu * *a + rate * g / (*s + epsilon).sqrt();
                *value -= *a;
            }
        }
    }
}

impl Rule<3> for KerasRmsProp {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        fraction("decay", self.decay)?;
        fraction("momentum", self.momentum)?;
        positive("epsilon", self.epsilon)
    }

    fn slots(&self) -> [Slot; 3] {
        [
            Slot::new("rms", 0.0),
            Slot::new("momentum", 0.0),
            Slot::new("mg", 0.0),
        ]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 3], &[f32]) {
        let rate = self.learning_rate.at(step);
        let rho = self.decay;
        let mu = self.momentum;
        let epsilon = self.epsilon;
        let centered = if self.centered { 1.0 } else { 0.0 };
        #[inline(always)]
        move |values, [rms, momentum, mean], gradient| {
            let slots = rms.iter_mut().zip(momentum).zip(mean);
            for ((value, ((s, a), c)), g) in values.iter_mut().zip(slots).zip(gradient) {
                *s = rho * *s + (1.0 - rho) * g * g;
                *c = centered * (rho * *c + (1.0 - rho) * g);
                let variance = *s - *c * *c;
                if mu > 0.0 {
                    *a = mu * *a + rate * g / (variance + epsilon).sqrt();
                    *value -= *a;
                } else {
                    *value -= rate * g / (variance.sqrt() + epsilon);
                }
            }
        }
    }
}
