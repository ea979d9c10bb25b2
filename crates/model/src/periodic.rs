//! Periodic embeddings of numbers (Gorishniy et al. 2022, "On Embeddings for Numerical Features in Tabular Deep Learning", section 3.3).
//!
//! A number `x` becomes `[sin v, cos v]` with `v = 2π c x`, where `c` are learned coefficients. A dense layer under ReLU may follow, of
//! its own for each number.

use std::f32::consts::TAU;

use trainyard_run_config::PeriodicConfig;
use trainyard_tensor::relu;
use trainyard_variable::{Access, Gradients, Initializer, Values, VariableSpec};

use crate::VariableScope;

/// The periodic embedding of the numbers of a feature.
#[derive(Debug, Clone)]
pub(crate) struct Periodic {
    /// First column in a row of the numbers.
    pub(crate) begin: usize,
    /// Numbers in a row.
    pub(crate) numbers: usize,
    /// Coefficients of each number.
    pub(crate) frequencies: usize,
    /// Variable of the coefficients, `numbers x frequencies`.
    pub(crate) coefficients: usize,
    pub(crate) layer: Option<NumberLayer>,
}

/// A dense layer for each number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberLayer {
    /// Variable `(numbers · 2 frequencies) x units`.
    pub(crate) kernel: usize,
    /// Variable `numbers · units`.
    pub(crate) bias: usize,
    /// Outputs for each number.
    pub(crate) units: usize,
}

impl Periodic {
    /// Makes the embedding of a feature, and adds its variables.
    pub(crate) fn new(
        feature: &str,
        [begin, numbers]: [usize; 2],
        config: PeriodicConfig,
        scope: VariableScope<'_>,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let PeriodicConfig {
            frequencies,
            sigma,
            units,
        } = config;
        let mut add = |name: &str, shape: Vec<usize>, initializer| {
            variables.push(VariableSpec {
                name: format!("{}/{feature}_periodic/{name}", scope.name),
                shape,
                access: Access::Whole,
                initializer,
                optimizer_group: scope.optimizer_group.to_owned(),
            });
            variables.len() - 1
        };
        let normal = Initializer::Normal { stddev: sigma };
        let coefficients = add("coefficients", vec![numbers, frequencies], normal);
        let layer = units.map(|units| NumberLayer {
            kernel: add(
                "kernel",
                vec![numbers * 2 * frequencies, units],
                Initializer::GlorotUniform,
            ),
            bias: add("bias", vec![numbers * units], Initializer::Zeros),
            units,
        });
        Self {
            begin,
            numbers,
            frequencies,
            coefficients,
            layer,
        }
    }

    /// Returns the number of values in a row.
    pub(crate) fn size(&self) -> usize {
        self.numbers * self.layer.map_or(2 * self.frequencies, |layer| layer.units)
    }

    /// Writes the embedding of a row of numbers.
    pub(crate) fn forward(&self, numbers: &[f32], values: &Values, out: &mut [f32]) {
        let mut waves = vec![0.0; 2 * self.frequencies];
        let size = self.size() / self.numbers;
        let places = out.chunks_exact_mut(size).zip(numbers).enumerate();
        for (number, (out, x)) in places {
            let Some(layer) = &self.layer else {
                self.waves(number, *x, values, out);
                continue;
            };
            self.waves(number, *x, values, &mut waves);
            layer.forward(number, &waves, values, out);
            out.iter_mut().for_each(|value| *value = relu(*value));
        }
    }

    /// Adds the gradients of the variables, given a row of numbers and the gradient of its embedding.
    pub(crate) fn backward(
        &self,
        numbers: &[f32],
        values: &Values,
        delta: &[f32],
        gradients: &mut Gradients,
    ) {
        let width = 2 * self.frequencies;
        let mut waves = vec![0.0; width];
        let mut of_waves = vec![0.0; width];
        let size = self.size() / self.numbers;
        for (number, (delta, x)) in delta.chunks_exact(size).zip(numbers).enumerate() {
            self.waves(number, *x, values, &mut waves);
            match &self.layer {
                Some(layer) => {
                    layer.backward(number, &waves, values, delta, gradients, &mut of_waves);
                }
                None => of_waves.copy_from_slice(delta),
            }
            let (sin, cos) = waves.split_at(self.frequencies);
            let (of_sin, of_cos) = of_waves.split_at(self.frequencies);
            let begin = number * self.frequencies;
            let gradient = &mut gradients[self.coefficients][begin..][..self.frequencies];
            for (index, gradient) in gradient.iter_mut().enumerate() {
                // d sin v / d c = cos v · 2π x, and d cos v / d c = -sin v · 2π x.
                *gradient += TAU * x * (of_sin[index] * cos[index] - of_cos[index] * sin[index]);
            }
        }
    }

    /// Writes `[sin v, cos v]` of a number.
    fn waves(&self, number: usize, x: f32, values: &Values, out: &mut [f32]) {
        let coefficients = &values[self.coefficients][number * self.frequencies..];
        let (sin, cos) = out.split_at_mut(self.frequencies);
        for ((sin, cos), coefficient) in sin.iter_mut().zip(cos).zip(coefficients) {
            (*sin, *cos) = (TAU * coefficient * x).sin_cos();
        }
    }
}

impl NumberLayer {
    /// Writes the outputs of a number before ReLU.
    fn forward(&self, number: usize, waves: &[f32], values: &Values, out: &mut [f32]) {
        out.copy_from_slice(&values[self.bias][number * self.units..][..self.units]);
        let kernel = &values[self.kernel][number * waves.len() * self.units..];
        for (wave, weights) in waves.iter().zip(kernel.chunks_exact(self.units)) {
            out.iter_mut()
                .zip(weights)
                .for_each(|(out, weight)| *out += wave * weight);
        }
    }

    /// Adds the gradients of kernel and bias, and writes that of the waves.
    fn backward(
        &self,
        number: usize,
        waves: &[f32],
        values: &Values,
        delta: &[f32],
        gradients: &mut Gradients,
        of_waves: &mut [f32],
    ) {
        let mut outputs = vec![0.0; self.units];
        self.forward(number, waves, values, &mut outputs);
        let passed = outputs.iter().zip(delta);
        let delta: Vec<f32> = passed
            .map(|(output, delta)| if *output > 0.0 { *delta } else { 0.0 })
            .collect();
        let bias = &mut gradients[self.bias][number * self.units..];
        bias.iter_mut()
            .zip(&delta)
            .for_each(|(bias, delta)| *bias += delta);
        let begin = number * waves.len() * self.units;
        let weights = values[self.kernel][begin..].chunks_exact(self.units);
        let kernel = gradients[self.kernel][begin..].chunks_exact_mut(self.units);
        let all = waves
            .iter()
            .zip(of_waves.iter_mut())
            .zip(weights)
            .zip(kernel);
        for (((wave, of_wave), weights), gradients) in all {
            *of_wave = weights.iter().zip(&delta).map(|(w, d)| w * d).sum();
            gradients
                .iter_mut()
                .zip(&delta)
                .for_each(|(gradient, delta)| *gradient += wave * delta);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two numbers with three frequencies each, the embedding of which is read with these weights.
    fn embedding(units: Option<usize>) -> (Periodic, Vec<VariableSpec>) {
        let mut variables = Vec::new();
        let config = PeriodicConfig {
            frequencies: 3,
            sigma: 0.3,
            units,
        };
        let scope = VariableScope {
            name: "deep",
            optimizer_group: "dnn",
        };
        let periodic = Periodic::new("x", [0, 2], config, scope, &mut variables);
        (periodic, variables)
    }

    fn values(variables: &[VariableSpec]) -> Values {
        let value = |place: usize| 0.4 * ((place as f32 + 1.0) * 1.7).sin() + 0.05;
        let sized = variables.iter().enumerate().map(|(index, variable)| {
            let count: usize = variable.shape.iter().product();
            (0..count).map(|place| value(place + 100 * index)).collect()
        });
        sized.collect()
    }

    #[test]
    fn a_number_becomes_the_sines_and_the_cosines_of_its_phases() {
        let (periodic, variables) = embedding(None);
        let mut values = values(&variables);
        values[0] = vec![0.25, 0.5, 1.0, 0.0, 0.125, -0.25];
        let mut out = vec![0.0; periodic.size()];
        periodic.forward(&[1.0, 2.0], &values, &mut out);
        let expected = [
            1.0, 0.0, 0.0, 0.0, -1.0,
            1.0, // sin and cos of a quarter, a half and a whole turn
            0.0, 1.0, 0.0, 1.0, 0.0, -1.0, // of none, a quarter and a half backwards
        ];
        for (found, expected) in out.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{out:?}");
        }
    }

    #[test]
    fn phases_beyond_32_bits_are_not_hidden_by_the_layer() {
        for units in [None, Some(4)] {
            let (periodic, variables) = embedding(units);
            let mut out = vec![0.0; periodic.size()];
            periodic.forward(&[3e38, 1.0], &values(&variables), &mut out);
            let (beyond, within) = out.split_at(periodic.size() / 2);
            assert!(beyond.iter().any(|value| value.is_nan()), "{out:?}");
            assert!(within.iter().all(|value| value.is_finite()), "{out:?}");
        }
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        for units in [None, Some(4)] {
            let (periodic, variables) = embedding(units);
            let values = values(&variables);
            let numbers = [0.7, -1.3];
            let weights: Vec<f32> = (0..periodic.size())
                .map(|place| (place as f32).cos())
                .collect();
            let loss = |values: &Values| {
                let mut out = vec![0.0; periodic.size()];
                periodic.forward(&numbers, values, &mut out);
                let weighted = out.iter().zip(&weights);
                weighted
                    .map(|(out, weight)| f64::from(out * weight))
                    .sum::<f64>()
            };
            let mut gradients: Gradients = values
                .iter()
                .map(|values| vec![0.0; values.len()])
                .collect();
            periodic.backward(&numbers, &values, &weights, &mut gradients);
            for (variable, gradient) in gradients.iter().enumerate() {
                for (place, gradient) in gradient.iter().enumerate() {
                    let step = 1e-3;
                    let moved = |step: f32| {
                        let mut values = values.clone();
                        values[variable][place] += step;
                        loss(&values)
                    };
                    let slope = (moved(step) - moved(-step)) / f64::from(2.0 * step);
                    let difference = (slope - f64::from(*gradient)).abs();
                    let name = &variables[variable].name;
                    assert!(
                        difference < 2e-3 * slope.abs().max(1.0),
                        "{name} {place}: {slope} {gradient}"
                    );
                }
            }
        }
    }
}
