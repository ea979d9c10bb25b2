//! Gradient descent: `v -= lr g` (`ApplyGradientDescent`).

pub(crate) fn apply(learning_rate: f32, values: &mut [f32], gradient: &[f32]) {
    for (value, g) in values.iter_mut().zip(gradient) {
        *value -= learning_rate * g;
    }
}
