//! `numeric_column`: a number, normalised.

use trainyard_run_config::Normalizer;

/// Returns the normalised number.
#[inline]
pub(crate) fn normalize(normalizer: Normalizer, value: f32) -> f32 {
    match normalizer {
        Normalizer::None => value,
        Normalizer::Log1p => value.max(0.0).ln_1p(),
        Normalizer::Standardize { mean, stddev } => (value - mean) / stddev,
    }
}
