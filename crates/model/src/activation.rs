//! Activation functions between dense layers, and their derivatives.

use trainyard_run_config::Activation;
use trainyard_tensor::{relu, sigmoid};

pub(crate) const SELU_SCALE: f32 = 1.050_701;
pub(crate) const SELU_ALPHA: f32 = 1.673_263_2;
/// Slope of `leaky_relu` below 0.
pub(crate) const LEAK: f32 = 0.2;

/// Returns whether the derivative is computed from the input of the function. Otherwise it is computed from the output.
pub(crate) fn needs_input(activation: Activation) -> bool {
    activation == Activation::Swish
}

/// Applies the function to each value.
pub(crate) fn apply(activation: Activation, values: &mut [f32]) {
    let each = |function: fn(f32) -> f32, values: &mut [f32]| {
        values
            .iter_mut()
            .for_each(|value| *value = function(*value));
    };
    match activation {
        Activation::Linear => {}
        Activation::Relu => each(relu, values),
        Activation::Relu6 => each(|x| x.clamp(0.0, 6.0), values),
        Activation::LeakyRelu => each(|x| x.max(LEAK * x), values),
        Activation::Elu => each(|x| if x > 0.0 { x } else { x.exp_m1() }, values),
        Activation::Selu => {
            each(
                |x| SELU_SCALE * if x > 0.0 { x } else { SELU_ALPHA * x.exp_m1() },
                values,
            );
        }
        Activation::Tanh => each(f32::tanh, values),
        Activation::Sigmoid => each(sigmoid, values),
        Activation::Softplus => each(|x| x.max(0.0) + (-x.abs()).exp().ln_1p(), values),
        Activation::Softsign => each(|x| x / (1.0 + x.abs()), values),
        Activation::Swish => each(|x| x * sigmoid(x), values),
    }
}

/// Multiplies each gradient by the derivative. `kept` is the input of the function if [`needs_input`], otherwise its
/// output.
pub(crate) fn backward(activation: Activation, kept: &[f32], gradient: &mut [f32]) {
    let each = |derivative: fn(f32) -> f32, gradient: &mut [f32]| {
        gradient
            .iter_mut()
            .zip(kept)
            .for_each(|(gradient, kept)| *gradient *= derivative(*kept));
    };
    match activation {
        Activation::Linear => {}
        Activation::Relu => trainyard_tensor::relu_backward(kept, gradient),
        Activation::Relu6 => each(|y| if y > 0.0 && y < 6.0 { 1.0 } else { 0.0 }, gradient),
        Activation::LeakyRelu => each(|y| if y > 0.0 { 1.0 } else { LEAK }, gradient),
        Activation::Elu => each(|y| if y > 0.0 { 1.0 } else { y + 1.0 }, gradient),
        Activation::Selu => {
            each(
                |y| {
                    if y > 0.0 {
                        SELU_SCALE
                    } else {
                        y + SELU_SCALE * SELU_ALPHA
                    }
                },
                gradient,
            );
        }
        Activation::Tanh => each(|y| 1.0 - y * y, gradient),
        Activation::Sigmoid => each(|y| y * (1.0 - y), gradient),
        Activation::Softplus => each(|y| -(-y).exp_m1(), gradient),
        Activation::Softsign => each(|y| (1.0 - y.abs()) * (1.0 - y.abs()), gradient),
        Activation::Swish => each(
            |x| {
                let gate = sigmoid(x);
                gate + x * gate * (1.0 - gate)
            },
            gradient,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_makes_a_number_of_none() {
        for (name, activation) in Activation::NAMES {
            let mut value = [f32::NAN];
            apply(activation, &mut value);
            assert!(value[0].is_nan(), "{name}: {}", value[0]);
        }
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        for (name, activation) in Activation::NAMES {
            for x in [-3.1_f32, -0.7, -0.05, 0.05, 0.7, 3.1] {
                let at = |x: f32| {
                    let mut value = [x];
                    apply(activation, &mut value);
                    value[0]
                };
                let kept = if needs_input(activation) { x } else { at(x) };
                let mut gradient = [1.0];
                backward(activation, &[kept], &mut gradient);
                let numeric = (at(x + 1e-2) - at(x - 1e-2)) / 2e-2;
                assert!(
                    (gradient[0] - numeric).abs() < 2e-3,
                    "{name} at {x}: {} {numeric}",
                    gradient[0]
                );
            }
        }
    }
}
