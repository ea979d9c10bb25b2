//! Batch normalisation (Ioffe and Szegedy 2015; `tf.keras.layers.BatchNormalization` with momentum 0.999).
//!
//! The moving mean and variance are ordinary variables. Their "gradient" is `(1 - momentum) (moving - batch)`, and
//! their optimizer group applies gradient descent with rate 1, so that parameter servers and workers update them alike.

use trainyard_variable::{Access, Gradients, Initializer, MOVING_AVERAGE, Values, VariableSpec};

/// Share of a moving value that remains at each step.
const MOMENTUM: f32 = 0.999;
/// Constant that is added to the variance.
pub(crate) const EPSILON: f32 = 1e-3;

/// Indices of the variables of one layer.
#[derive(Debug, Clone)]
pub(crate) struct BatchNorm {
    pub(crate) gamma: usize,
    pub(crate) beta: usize,
    pub(crate) mean: usize,
    pub(crate) variance: usize,
    units: usize,
}

/// Values that the backward pass needs, with buffers for the mean and variance of the batch.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    mean: Vec<f32>,
    variance: Vec<f32>,
    normalized: Vec<f32>,
    inverse: Vec<f32>,
}

impl BatchNorm {
    pub(crate) fn new(
        scope: &str,
        units: usize,
        group: &str,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let mut add = |name: &str, value: f32, group: &str| {
            variables.push(VariableSpec {
                name: format!("{scope}/{name}"),
                shape: vec![units],
                access: Access::Whole,
                initializer: Initializer::Constant { value },
                optimizer_group: group.to_owned(),
            });
            variables.len() - 1
        };
        Self {
            gamma: add("gamma", 1.0, group),
            beta: add("beta", 0.0, group),
            mean: add("moving_mean", 0.0, MOVING_AVERAGE),
            variance: add("moving_variance", 1.0, MOVING_AVERAGE),
            units,
        }
    }

    /// Normalises by the moving mean and variance.
    pub(crate) fn infer(&self, values: &Values, rows: &mut [f32]) {
        let gamma = &values[self.gamma];
        let beta = &values[self.beta];
        let mean = &values[self.mean];
        let variance = &values[self.variance];
        for row in rows.chunks_exact_mut(self.units) {
            for (unit, value) in row.iter_mut().enumerate() {
                let scale = gamma[unit] / (variance[unit] + EPSILON).sqrt();
                *value = (*value - mean[unit]) * scale + beta[unit];
            }
        }
    }

    /// Normalises by the mean and variance of the batch, and writes the "gradients" of the moving values.
    pub(crate) fn train(
        &self,
        values: &Values,
        rows: &mut [f32],
        gradients: &mut Gradients,
        kept: &mut Kept,
    ) {
        let count = (rows.len() / self.units).max(1) as f32;
        let Kept {
            mean,
            variance,
            normalized,
            inverse,
        } = kept;
        mean.clear();
        mean.resize(self.units, 0.0);
        for row in rows.chunks_exact(self.units) {
            mean.iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += value / count);
        }
        variance.clear();
        variance.resize(self.units, 0.0);
        for row in rows.chunks_exact(self.units) {
            for ((sum, value), mean) in variance.iter_mut().zip(row).zip(mean.iter()) {
                *sum += (value - mean) * (value - mean) / count;
            }
        }
        inverse.clear();
        inverse.extend(
            variance
                .iter()
                .map(|variance| 1.0 / (variance + EPSILON).sqrt()),
        );
        normalized.clear();
        let gamma = &values[self.gamma];
        let beta = &values[self.beta];
        for row in rows.chunks_exact_mut(self.units) {
            for (unit, value) in row.iter_mut().enumerate() {
                let scaled = (*value - mean[unit]) * inverse[unit];
                normalized.push(scaled);
                *value = gamma[unit] * scaled + beta[unit];
            }
        }
        for (place, batch) in [(self.mean, mean), (self.variance, variance)] {
            let moving = values[place].iter().zip(batch.iter());
            for (gradient, (moving, batch)) in gradients[place].iter_mut().zip(moving) {
                *gradient = (1.0 - MOMENTUM) * (moving - batch);
            }
        }
    }

    /// Replaces the gradient of the output by the gradient of the input, and writes the gradients of gamma and beta.
    pub(crate) fn backward(
        &self,
        values: &Values,
        delta: &mut [f32],
        gradients: &mut Gradients,
        kept: &Kept,
    ) {
        let count = (delta.len() / self.units).max(1) as f32;
        // These gradients are zero so far.
        let mut by_gamma = std::mem::take(&mut gradients[self.gamma]);
        let mut by_beta = std::mem::take(&mut gradients[self.beta]);
        let rows = delta
            .chunks_exact(self.units)
            .zip(kept.normalized.chunks_exact(self.units));
        for (delta, normalized) in rows {
            for unit in 0..self.units {
                by_gamma[unit] += delta[unit] * normalized[unit];
                by_beta[unit] += delta[unit];
            }
        }
        let gamma = &values[self.gamma];
        let rows = delta
            .chunks_exact_mut(self.units)
            .zip(kept.normalized.chunks_exact(self.units));
        for (delta, normalized) in rows {
            for unit in 0..self.units {
                let centered =
                    delta[unit] - (by_beta[unit] + normalized[unit] * by_gamma[unit]) / count;
                delta[unit] = gamma[unit] * kept.inverse[unit] * centered;
            }
        }
        (gradients[self.gamma], gradients[self.beta]) = (by_gamma, by_beta);
    }
}
