//! The choice of a rule and its hyper-parameters.

use serde::{Deserialize, Serialize};

use crate::{adagrad, adam, ftrl, sgd};

/// An update rule with its hyper-parameters, under TensorFlow's v1 names and defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OptimizerConfig {
    /// `tf.compat.v1.train.GradientDescentOptimizer`.
    Sgd {
        /// Step length, above 0.
        learning_rate: f32,
    },
    /// `tf.compat.v1.train.AdagradOptimizer`.
    Adagrad {
        /// Step length, above 0.
        learning_rate: f32,
        /// First value of the accumulator, above 0; 0.1 by default.
        initial_accumulator_value: f32,
    },
    /// `tf.compat.v1.train.AdamOptimizer`. On rows it is the lazy form: moments of rows outside the batch rest.
    Adam {
        /// Step length, above 0; 0.001 by default.
        learning_rate: f32,
        /// Decay of the first moment, in [0, 1); 0.9 by default.
        beta1: f32,
        /// Decay of the second moment, in [0, 1); 0.999 by default.
        beta2: f32,
        /// Added to the root ("epsilon hat"), above 0; 1e-8 by default.
        epsilon: f32,
    },
    /// `tf.compat.v1.train.FtrlOptimizer`.
    Ftrl {
        /// Step length, above 0.
        learning_rate: f32,
        /// At most 0; -0.5 by default.
        learning_rate_power: f32,
        /// At least 0; 0.1 by default.
        initial_accumulator_value: f32,
        /// At least 0; 0 by default.
        l1_regularization_strength: f32,
        /// At least 0; 0 by default.
        l2_regularization_strength: f32,
        /// At least 0; 0 by default.
        l2_shrinkage_regularization_strength: f32,
        /// At least 0; 0 by default. Adds `beta / lr` to the divisor (McMahan et al. 2013).
        beta: f32,
    },
}

/// A value that an optimizer keeps beside each value of a variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// TensorFlow's name of the slot.
    pub name: &'static str,
    /// What it starts from.
    pub initial: f32,
}

/// A hyper-parameter out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name} must be {rule}, given {given}")]
pub struct Error {
    /// The hyper-parameter.
    pub name: &'static str,
    /// Its range.
    pub rule: &'static str,
    /// The value.
    pub given: f32,
}

fn require(holds: bool, name: &'static str, rule: &'static str, given: f32) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error { name, rule, given }) }
}

impl OptimizerConfig {
    /// Checks the hyper-parameters.
    ///
    /// # Errors
    /// The first that is out of range.
    pub fn validate(&self) -> Result<(), Error> {
        let rate = |value: f32| require(value > 0.0 && value.is_finite(), "learning_rate", "> 0", value);
        match *self {
            Self::Sgd { learning_rate } => rate(learning_rate),
            Self::Adagrad { learning_rate, initial_accumulator_value: first } => {
                rate(learning_rate)?;
                require(first > 0.0, "initial_accumulator_value", "> 0", first)
            }
            Self::Adam { learning_rate, beta1, beta2, epsilon } => {
                rate(learning_rate)?;
                require((0.0..1.0).contains(&beta1), "beta1", "in [0, 1)", beta1)?;
                require((0.0..1.0).contains(&beta2), "beta2", "in [0, 1)", beta2)?;
                require(epsilon > 0.0, "epsilon", "> 0", epsilon)
            }
            Self::Ftrl {
                learning_rate,
                learning_rate_power,
                initial_accumulator_value,
                l1_regularization_strength: l1,
                l2_regularization_strength: l2,
                l2_shrinkage_regularization_strength: shrinkage,
                beta,
            } => {
                require(beta >= 0.0, "beta", ">= 0", beta)?;
                rate(learning_rate)?;
                require(learning_rate_power <= 0.0, "learning_rate_power", "<= 0", learning_rate_power)?;
                let first = initial_accumulator_value;
                require(first >= 0.0, "initial_accumulator_value", ">= 0", first)?;
                require(l1 >= 0.0, "l1_regularization_strength", ">= 0", l1)?;
                require(l2 >= 0.0, "l2_regularization_strength", ">= 0", l2)?;
                require(shrinkage >= 0.0, "l2_shrinkage_regularization_strength", ">= 0", shrinkage)
            }
        }
    }

    /// Returns the slots, in the order in which [`OptimizerConfig::apply_dense`] takes them.
    pub fn slots(&self) -> Vec<Slot> {
        match *self {
            Self::Sgd { .. } => Vec::new(),
            Self::Adagrad { initial_accumulator_value: initial, .. } => {
                vec![Slot { name: "accumulator", initial }]
            }
            Self::Adam { .. } => vec![Slot { name: "m", initial: 0.0 }, Slot { name: "v", initial: 0.0 }],
            Self::Ftrl { initial_accumulator_value: initial, .. } => {
                vec![Slot { name: "accum", initial }, Slot { name: "linear", initial: 0.0 }]
            }
        }
    }

    /// Updates values and slots by a gradient, all of the same length. `step` counts updates from 1.
    ///
    /// # Panics
    /// There are fewer slots than [`OptimizerConfig::slots`] names.
    pub fn apply_dense(&self, step: u64, values: &mut [f32], slots: &mut [&mut [f32]], gradient: &[f32]) {
        match (self, slots) {
            (Self::Sgd { learning_rate }, _) => sgd::apply(*learning_rate, values, gradient),
            (Self::Adagrad { learning_rate, .. }, [accumulator, ..]) => {
                adagrad::apply(*learning_rate, values, accumulator, gradient);
            }
            (&Self::Adam { learning_rate, beta1, beta2, epsilon }, [m, v, ..]) => {
                let rate = adam::corrected_rate(learning_rate, beta1, beta2, step);
                adam::apply(rate, [beta1, beta2, epsilon], values, m, v, gradient);
            }
            (Self::Ftrl { .. }, [accum, linear, ..]) => {
                ftrl::Rule::new(self).apply(values, accum, linear, gradient);
            }
            (rule, slots) => panic!("{rule:?} needs {} slots, given {}", rule.slots().len(), slots.len()),
        }
    }

    /// Updates `rows` of a table of rows of `width` values. `gradient` holds `rows.len() x width` values; `rows` are
    /// places in the slices, each once.
    ///
    /// # Panics
    /// A row lies outside, or there are fewer slots than [`OptimizerConfig::slots`] names.
    pub fn apply_rows(
        &self,
        step: u64,
        width: usize,
        rows: &[u32],
        values: &mut [f32],
        slots: &mut [&mut [f32]],
        gradient: &[f32],
    ) {
        if width == 0 {
            return;
        }
        let row_gradients = rows.iter().map(|&row| row as usize * width).zip(gradient.chunks_exact(width));
        match (self, slots) {
            (Self::Sgd { learning_rate }, _) => {
                for (begin, gradient) in row_gradients {
                    sgd::apply(*learning_rate, &mut values[begin..begin + width], gradient);
                }
            }
            (Self::Adagrad { learning_rate, .. }, [accumulator, ..]) => {
                for (begin, gradient) in row_gradients {
                    let place = begin..begin + width;
                    adagrad::apply(
                        *learning_rate,
                        &mut values[place.clone()],
                        &mut accumulator[place],
                        gradient,
                    );
                }
            }
            (&Self::Adam { learning_rate, beta1, beta2, epsilon }, [m, v, ..]) => {
                let rate = adam::corrected_rate(learning_rate, beta1, beta2, step);
                for (begin, gradient) in row_gradients {
                    let place = begin..begin + width;
                    let (m, v) = (&mut m[place.clone()], &mut v[place.clone()]);
                    adam::apply(rate, [beta1, beta2, epsilon], &mut values[place], m, v, gradient);
                }
            }
            (Self::Ftrl { .. }, [accum, linear, ..]) => {
                let rule = ftrl::Rule::new(self);
                for (begin, gradient) in row_gradients {
                    let place = begin..begin + width;
                    let (accum, linear) = (&mut accum[place.clone()], &mut linear[place.clone()]);
                    rule.apply(&mut values[place], accum, linear, gradient);
                }
            }
            (rule, slots) => panic!("{rule:?} needs {} slots, given {}", rule.slots().len(), slots.len()),
        }
    }
}
