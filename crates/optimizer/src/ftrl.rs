//! FTRL-Proximal (`ApplyFtrlV2`; McMahan et al. 2013):
//! `g' = g + 2 s v; n = a + g²; z += g' - (n^-p - a^-p)/lr v; v = |z| > l1 ? (sign(z) l1 - z)/(n^-p/lr + 2 l2) : 0; a = n`.
//!
//! The first update of a row rebuilds its value from `z`: a first value other than 0 does not survive it.

use crate::OptimizerConfig;

/// The hyper-parameters, unpacked once per call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    inverse_rate: f32,
    power: f32,
    l1: f32,
    l2: f32,
    shrinkage: f32,
}

impl Rule {
    /// # Panics
    /// The configuration is another rule's.
    pub(crate) fn new(config: &OptimizerConfig) -> Self {
        match *config {
            OptimizerConfig::Ftrl {
                learning_rate,
                learning_rate_power,
                l1_regularization_strength,
                l2_regularization_strength,
                l2_shrinkage_regularization_strength,
                beta,
                ..
            } => Self {
                inverse_rate: 1.0 / learning_rate,
                power: -learning_rate_power,
                l1: l1_regularization_strength,
                l2: l2_regularization_strength + beta / (2.0 * learning_rate),
                shrinkage: l2_shrinkage_regularization_strength,
            },
            _ => panic!("{config:?} is not ftrl"),
        }
    }

    pub(crate) fn apply(&self, values: &mut [f32], accum: &mut [f32], linear: &mut [f32], gradient: &[f32]) {
        if self.power == 0.5 {
            // The default power, as a root: a tenth of the cost of powf, and it vectorises.
            self.apply_with(f32::sqrt, values, accum, linear, gradient);
        } else {
            self.apply_with(|x: f32| x.powf(self.power), values, accum, linear, gradient);
        }
    }

    #[inline]
    fn apply_with(
        &self,
        power: impl Fn(f32) -> f32,
        values: &mut [f32],
        accum: &mut [f32],
        linear: &mut [f32],
        gradient: &[f32],
    ) {
        for (((value, a), z), g) in values.iter_mut().zip(accum).zip(linear).zip(gradient) {
            let shrunk = g + 2.0 * self.shrinkage * *value;
            let next = *a + g * g;
            let root = power(next);
            *z += shrunk - (root - power(*a)) * self.inverse_rate * *value;
            let quadratic = root * self.inverse_rate + 2.0 * self.l2;
            let clipped = z.clamp(-self.l1, self.l1) - *z;
            *value = if z.abs() > self.l1 { clipped / quadratic } else { 0.0 };
            *a = next;
        }
    }
}
