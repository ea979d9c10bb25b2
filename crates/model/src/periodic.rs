//! Periodic embeddings of numbers (Gorishniy et al. 2022, "On Embeddings for Numerical Features in Tabular Deep Learning", section 3.3).
//!
//! A number `x` becomes `[sin v, cos v]` with `v = 2π c x`, where `c` are learned coefficients. A dense layer under ReLU may follow, of
//! its own for each number.

use std::f32::consts::TAU;

use trainyard_run_config::PeriodicConfig;
use trainyard_tensor::{join, relu, threads, vectorize};
use trainyard_variable::{Access, Gradients, Initializer, Values, VariableSpec};

use crate::VariableScope;

/// Fewest phases for which another thread is used: some 50 µs of sines and cosines.
const PART_PHASES_MIN: usize = 4096;

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

/// Rows of numbers, and the gradients of their embeddings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// Numbers, row-major; those of the feature are at the columns of [`Periodic::begin`].
    pub(crate) numbers: &'a [f32],
    /// Gradients, row-major.
    pub(crate) delta: &'a [f32],
    /// Values in a row of each.
    pub(crate) widths: [usize; 2],
    /// First column of each.
    pub(crate) begins: [usize; 2],
}

impl<'a> Rows<'a> {
    fn count(&self) -> usize {
        self.delta.len().checked_div(self.widths[1]).unwrap_or(0)
    }

    /// Returns the numbers and the gradients of each row, from their first columns on.
    fn each(self) -> impl Iterator<Item = (&'a [f32], &'a [f32])> {
        let [of_numbers, of_delta] = self.widths;
        let [number, delta] = self.begins;
        let rows = self
            .numbers
            .chunks_exact(of_numbers)
            .zip(self.delta.chunks_exact(of_delta));
        rows.map(move |(numbers, gradients)| (&numbers[number..], &gradients[delta..]))
    }
}

/// Where the gradients of a number go.
struct OfNumber<'a> {
    number: usize,
    coefficients: &'a mut [f32],
    /// Kernel and bias.
    layer: Option<(&'a mut [f32], &'a mut [f32])>,
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

    /// Adds the gradients of the variables, given rows of numbers and the gradients of their embeddings. The threads of the
    /// step divide the numbers of a row among them.
    pub(crate) fn backward(&self, rows: Rows<'_>, values: &Values, gradients: &mut Gradients) {
        let mut coefficients = std::mem::take(&mut gradients[self.coefficients]);
        let [mut kernel, mut bias] = self.layer.map_or_else(Default::default, |layer| {
            [layer.kernel, layer.bias].map(|variable| std::mem::take(&mut gradients[variable]))
        });
        let units = self.layer.map_or(0, |layer| layer.units);
        let mut of_kernel = kernel.chunks_exact_mut((2 * self.frequencies * units).max(1));
        let mut of_bias = bias.chunks_exact_mut(units.max(1));
        let numbers = coefficients
            .chunks_exact_mut(self.frequencies)
            .enumerate()
            .map(|(number, coefficients)| OfNumber {
                number,
                coefficients,
                layer: of_kernel.next().zip(of_bias.next()),
            });
        let mut numbers: Vec<OfNumber<'_>> = numbers.collect();
        self.backward_of(&mut numbers, rows, values, threads());
        drop(numbers);
        gradients[self.coefficients] = coefficients;
        if let Some(layer) = &self.layer {
            gradients[layer.kernel] = kernel;
            gradients[layer.bias] = bias;
        }
    }

    fn backward_of(
        &self,
        numbers: &mut [OfNumber<'_>],
        rows: Rows<'_>,
        values: &Values,
        parts: usize,
    ) {
        let phases = numbers.len() * rows.count() * self.frequencies;
        if parts > 1 && numbers.len() > 1 && phases >= 2 * PART_PHASES_MIN {
            let left = parts / 2;
            let (one, other) = numbers.split_at_mut(numbers.len() * left / parts);
            join(
                || self.backward_of(one, rows, values, left),
                || self.backward_of(other, rows, values, parts - left),
            );
            return;
        }
        for number in numbers {
            vectorize(
                #[inline(always)]
                || self.backward_number(number, rows, values),
            );
        }
    }

    #[inline(always)]
    fn backward_number(&self, of: &mut OfNumber<'_>, rows: Rows<'_>, values: &Values) {
        let width = 2 * self.frequencies;
        let size = self.size() / self.numbers;
        let mut waves = vec![0.0; width];
        let mut of_waves = vec![0.0; width];
        let mut outputs = vec![0.0; size];
        for (numbers, delta) in rows.each() {
            let x = numbers[of.number];
            let delta = &delta[of.number * size..][..size];
            self.waves(of.number, x, values, &mut waves);
            match (&self.layer, &mut of.layer) {
                (Some(layer), Some(gradients)) => {
                    layer.forward(of.number, &waves, values, &mut outputs);
                    for (output, delta) in outputs.iter_mut().zip(delta) {
                        *output = if *output > 0.0 { *delta } else { 0.0 };
                    }
                    let ends = [waves.as_slice(), outputs.as_slice()];
                    layer.backward(of.number, ends, values, gradients, &mut of_waves);
                }
                _ => of_waves.copy_from_slice(delta),
            }
            let (sin, cos) = waves.split_at(self.frequencies);
            let (of_sin, of_cos) = of_waves.split_at(self.frequencies);
            let waves = sin.iter().zip(cos).zip(of_sin.iter().zip(of_cos));
            for (gradient, ((sin, cos), (of_sin, of_cos))) in of.coefficients.iter_mut().zip(waves)
            {
                // d sin v / d c = cos v · 2π x, and d cos v / d c = -sin v · 2π x.
                *gradient += TAU * x * (of_sin * cos - of_cos * sin);
            }
        }
    }

    /// Writes `[sin v, cos v]` of a number.
    #[inline(always)]
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
    #[inline(always)]
    fn forward(&self, number: usize, waves: &[f32], values: &Values, out: &mut [f32]) {
        out.copy_from_slice(&values[self.bias][number * self.units..][..self.units]);
        let kernel = &values[self.kernel][number * waves.len() * self.units..];
        for (wave, weights) in waves.iter().zip(kernel.chunks_exact(self.units)) {
            out.iter_mut()
                .zip(weights)
                .for_each(|(out, weight)| *out += wave * weight);
        }
    }

    /// Adds the gradients of kernel and bias, given the gradient of the outputs before ReLU, and writes that of the waves.
    #[inline(always)]
    fn backward(
        &self,
        number: usize,
        [waves, delta]: [&[f32]; 2],
        values: &Values,
        (of_kernel, of_bias): &mut (&mut [f32], &mut [f32]),
        of_waves: &mut [f32],
    ) {
        of_bias
            .iter_mut()
            .zip(delta)
            .for_each(|(bias, delta)| *bias += delta);
        let weights = &values[self.kernel][number * waves.len() * self.units..];
        let all = waves
            .iter()
            .zip(of_waves.iter_mut())
            .zip(weights.chunks_exact(self.units))
            .zip(of_kernel.chunks_exact_mut(self.units));
        for (((wave, of_wave), weights), gradients) in all {
            *of_wave = weights.iter().zip(delta).map(|(w, d)| w * d).sum();
            gradients
                .iter_mut()
                .zip(delta)
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
            let rows = Rows {
                numbers: &numbers,
                delta: &weights,
                widths: [numbers.len(), weights.len()],
                begins: [0, 0],
            };
            periodic.backward(rows, &values, &mut gradients);
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

    #[test]
    fn gradients_are_the_same_bits_with_any_number_of_threads() {
        for units in [None, Some(4)] {
            let (periodic, variables) = embedding(units);
            let values = values(&variables);
            let count = 2000;
            let numbers: Vec<f32> = (0..3 * count).map(|place| (place as f32).sin()).collect();
            let width = periodic.size() + 1;
            let delta: Vec<f32> = (0..width * count)
                .map(|place| (place as f32).cos())
                .collect();
            let rows = Rows {
                numbers: &numbers,
                delta: &delta,
                widths: [3, width],
                begins: [1, 1],
            };
            let of = |threads: usize| {
                let mut gradients: Gradients = values
                    .iter()
                    .map(|values| vec![0.0; values.len()])
                    .collect();
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .expect("threads start");
                pool.install(|| periodic.backward(rows, &values, &mut gradients));
                gradients
            };
            assert!(periodic.frequencies * count >= PART_PHASES_MIN);
            let alone = of(1);
            assert!(alone.iter().flatten().all(|value| *value != 0.0));
            assert!(alone == of(2) && alone == of(3), "{units:?}");
        }
    }
}
