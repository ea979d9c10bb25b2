//! The choice of a rule and its hyper-parameters.

use serde::{Deserialize, Serialize};

/// An update rule with its hyper-parameters, under TensorFlow's v1 names and defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OptimizerConfig {
    /// `tf.compat.v1.train.GradientDescentOptimizer`.
    Sgd {
        /// Step length.
        learning_rate: f32,
    },
    /// `tf.compat.v1.train.AdagradOptimizer`.
    Adagrad {
        /// Step length.
        learning_rate: f32,
        /// First value of the accumulator, above 0; 0.1 by default.
        initial_accumulator_value: f32,
    },
    /// `tf.compat.v1.train.AdamOptimizer`.
    Adam {
        /// Step length; 0.001 by default.
        learning_rate: f32,
        /// Decay of the first moment; 0.9 by default.
        beta1: f32,
        /// Decay of the second moment; 0.999 by default.
        beta2: f32,
        /// Added to the root ("epsilon hat"); 1e-8 by default.
        epsilon: f32,
    },
    /// `tf.compat.v1.train.FtrlOptimizer`.
    Ftrl {
        /// Step length.
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
    },
}
