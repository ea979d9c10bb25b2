//! Adam (Kingma and Ba 2015), AMSGrad (Reddi, Kale and Kumar 2018), and AdamW (Loshchilov and Hutter 2019).

use serde::{Deserialize, Serialize};

use crate::error::{fraction, not_negative, positive};
use crate::rule::Rule;
use crate::{Error, LearningRate, Slot};

/// `m += (1-β1)(g-m); s += (1-β2)(g²-s); v -= α m / (√s + ε)` with `α = lr √(1-β2ᵗ) / (1-β1ᵗ)`
/// (`tf.compat.v1.train.AdamOptimizer`, `ApplyAdam`). With `amsgrad` the divisor is the largest `s` so far. With
/// `weight_decay` w, `v` is multiplied by `1 - lr w` first, as in `tf.keras.optimizers.AdamW` and `torch.optim.AdamW`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Above 0; 0.001 by default.
    #[serde(default = "LearningRate::thousandth")]
    pub learning_rate: LearningRate,
    /// Decay of the first moment, in [0, 1); 0.9 by default.
    #[serde(default = "default_beta1")]
    pub beta1: f32,
    /// Decay of the second moment, in [0, 1); 0.999 by default.
    #[serde(default = "default_beta2")]
    pub beta2: f32,
    /// Added to the root ("epsilon hat"), above 0; 1e-8 by default (1e-7 in Keras).
    #[serde(default = "default_epsilon")]
    pub epsilon: f32,
    /// False by default.
    #[serde(default)]
    pub amsgrad: bool,
    /// Rows outside the batch stay unchanged. False by default: as in TensorFlow, each step decays the moments
    /// of the whole table and changes all of its rows.
    #[serde(default)]
    pub lazy: bool,
    /// Share of each value that the learning rate takes away at each step, at least 0; 0 by default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight_decay: f32,
}

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

fn default_beta1() -> f32 {
    0.9
}

fn default_beta2() -> f32 {
    0.999
}

fn default_epsilon() -> f32 {
    1e-8
}

/// Adam without AMSGrad, which needs one slot less.
pub(crate) struct Plain<'a>(pub(crate) &'a Adam);

impl Adam {
    /// Returns `lr √(1-β2ᵗ) / (1-β1ᵗ)` at step `t`, from 1.
    fn corrected_rate(&self, step: u64) -> f32 {
        let t = step.max(1) as f64;
        let one = 1.0 - f64::from(self.beta1).powf(t);
        let two = 1.0 - f64::from(self.beta2).powf(t);
        (f64::from(self.learning_rate.at(step)) * two.sqrt() / one) as f32
    }

    /// Returns the share of a value that weight decay leaves at step `t`, from 1.
    fn kept(&self, step: u64) -> f32 {
        1.0 - self.learning_rate.at(step) * self.weight_decay
    }
}

impl Rule<3> for Adam {
    fn validate(&self) -> Result<(), Error> {
        self.learning_rate.validate()?;
        fraction("beta1", self.beta1)?;
        fraction("beta2", self.beta2)?;
        positive("epsilon", self.epsilon)?;
        not_negative("weight_decay", self.weight_decay)
    }

    fn slots(&self) -> [Slot; 3] {
        [
            Slot::new("m", 0.0),
            Slot::new("v", 0.0),
            Slot::new("vhat", 0.0),
        ]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 3], &[f32]) {
        let rate = self.corrected_rate(step);
        let epsilon = self.epsilon;
        let kept = self.kept(step);
        let one = 1.0 - self.beta1;
        let two = 1.0 - self.beta2;
        #[inline(always)]
        move |values, [m, v, most], gradient| {
            let moments = m.iter_mut().zip(v).zip(most);
            for ((value, ((m, s), most)), g) in values.iter_mut().zip(moments).zip(gradient) {
                *m += one * (g - *m);
                *s += two * (g * g - *s);
                *most = most.max(*s);
                *value = kept * *value - rate * *m / (most.sqrt() + epsilon);
            }
        }
    }
}

impl Rule<2> for Plain<'_> {
    fn validate(&self) -> Result<(), Error> {
        self.0.validate()
    }

    fn slots(&self) -> [Slot; 2] {
        [Slot::new("m", 0.0), Slot::new("v", 0.0)]
    }

    fn kernel(&self, step: u64) -> impl Fn(&mut [f32], [&mut [f32]; 2], &[f32]) {
        let rate = self.0.corrected_rate(step);
        let epsilon = self.0.epsilon;
        let kept = self.0.kept(step);
        let one = 1.0 - self.0.beta1;
        let two = 1.0 - self.0.beta2;
        #[inline(always)]
        move |values, [m, v], gradient| {
            for (((value, m), s), g) in values.iter_mut().zip(m).zip(v).zip(gradient) {
                *m += one * (g - *m);
                *s += two * (g * g - *s);
                *value = kept * *value - rate * *m / (s.sqrt() + epsilon);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::OptimizerConfig;

    /// Returns what a value of 2 becomes in two steps with the gradients 1 and -0.5.
    fn stepped(text: &str) -> f32 {
        let config: OptimizerConfig = serde_json::from_str(text).expect("a rule");
        let mut value = [2.0_f32];
        let mut slots: Vec<Vec<f32>> = config
            .slots()
            .iter()
            .map(|slot| vec![slot.initial; 1])
            .collect();
        for (step, gradient) in [(1, 1.0), (2, -0.5)] {
            let mut slots: Vec<&mut [f32]> = slots.iter_mut().map(Vec::as_mut_slice).collect();
            config.apply_dense(step, &mut value, &mut slots, &[gradient]);
        }
        value[0]
    }

    #[test]
    fn weight_decay_takes_its_share_of_the_value_before_each_step() {
        let plain = r#"{"kind": "adam", "learning_rate": 0.1}"#;
        // The expected values follow the formula, in double precision.
        let decayed = r#"{"kind": "adam", "learning_rate": 0.1, "weight_decay": 0.5}"#;
        let first = 0.1;
        let second =
            0.1 * ((0.9 * 0.1 - 0.05) / 0.19) / ((0.999 * 0.001 + 0.000_25_f64) / 0.001_999).sqrt();
        let expected = (2.0 * 0.95 - first) * 0.95 - second;
        assert!(
            (f64::from(stepped(decayed)) - expected).abs() < 1e-6,
            "{} {expected}",
            stepped(decayed)
        );
        let expected = 2.0 - first - second;
        assert!(
            (f64::from(stepped(plain)) - expected).abs() < 1e-6,
            "{} {expected}",
            stepped(plain)
        );
        assert_eq!(
            stepped(r#"{"kind": "adam", "learning_rate": 0.1, "weight_decay": 0.0}"#),
            stepped(plain)
        );
        let negative: OptimizerConfig =
            serde_json::from_str(r#"{"kind": "adam", "weight_decay": -1.0}"#).expect("it is read");
        assert!(negative.validate().is_err());
    }
}
