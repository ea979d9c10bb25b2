//! First values of a variable.

use serde::{Deserialize, Serialize};

/// How a variable gets its first values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Initializer {
    /// All zero.
    Zeros,
    /// All `value`.
    Constant {
        /// The value.
        value: f32,
    },
    /// Uniform in ±√(6 / (fan_in + fan_out)), fans from the first and last dimension (`tf.keras.initializers.GlorotUniform`).
    GlorotUniform,
    /// Normal, redrawn beyond two standard deviations (`tf.keras.initializers.TruncatedNormal`).
    TruncatedNormal {
        /// Standard deviation before truncation.
        stddev: f32,
    },
    /// Uniform in `[low, high)`.
    Uniform {
        /// Lower bound, included.
        low: f32,
        /// Upper bound, excluded.
        high: f32,
    },
}
