//! Adagrad: `a += g²; v -= lr g / √a`, without epsilon (`ApplyAdagrad`; Duchi, Hazan and Singer 2011).

pub(crate) fn apply(learning_rate: f32, values: &mut [f32], accumulator: &mut [f32], gradient: &[f32]) {
    for ((value, a), g) in values.iter_mut().zip(accumulator).zip(gradient) {
        *a += g * g;
        *value -= learning_rate * g / a.sqrt();
    }
}
