//! Adadelta (Zeiler 2012).

use serde::{Deserialize, Serialize};

use crate::error::{fraction, positive};
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `a = ρ a + (1-ρ) g²; u = √(d+ε)/√(a+ε) g; d = ρ d + (1-ρ) u²; v -= lr u`
/// (`tf.compat.v1.train.AdadeltaOptimizer`, `ApplyAdadelta`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adadelta {
    /// Above 0; 0.001 by default.
    #[serde(default = "LearningRate::thousandth")]
    pub learning_rate: LearningRate,
    /// `ρ`, in [0, 1); 0.95 by default.
    #[serde(default = "default_rho")]
    pub rho: f32,
    /// `ε`, above 0; 1e-8 by default.
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
}

fn default_rho() -> f32 {
    0.95
}

fn default_epsilon() -> f32 {
    1e-8
}

impl Rule<2> for Adadelta {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        fraction("rho", self.rho)?;
        positive("epsilon", self.epsilon)
    }

    fn slots(&self) -> [Slot; 2] {
        [Slot::new("accum", 0.0), Slot::new("accum_update", 0.0)]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 2], &[f32]) {
        let rate = self.learning_rate.at(step);
        let rho = self.rho;
        let epsilon = self.epsilon;
        #[inline(always)]
        move |values, [accum, updates], gradient| {
            for (((value, a), d), g) in values.iter_mut().zip(accum).zip(updates).zip(gradient) {
                *a = rho * *a + (1.0 - rho) * g * g;
                let update = (*d + epsilon).sqrt() / (*a + epsilon).sqrt() * g;
                *d = rho * *d + (1.0 - rho) * update * update;
                *value -= rate * update;
            }
        }
    }
}
