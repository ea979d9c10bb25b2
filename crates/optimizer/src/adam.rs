//! Adam: `m += (1-β1)(g-m); v += (1-β2)(g²-v); x -= α m / (√v + ε)` (`ApplyAdam`; Kingma and Ba 2015).

/// Returns `lr √(1-β2ᵗ) / (1-β1ᵗ)` at step `t`, from 1.
pub(crate) fn corrected_rate(learning_rate: f32, beta1: f32, beta2: f32, step: u64) -> f32 {
    let t = step.max(1) as f64;
    let (one, two) = (1.0 - f64::from(beta1).powf(t), 1.0 - f64::from(beta2).powf(t));
    (f64::from(learning_rate) * two.sqrt() / one) as f32
}

pub(crate) fn apply(
    rate: f32,
    [beta1, beta2, epsilon]: [f32; 3],
    values: &mut [f32],
    m: &mut [f32],
    v: &mut [f32],
    gradient: &[f32],
) {
    for (((value, m), v), g) in values.iter_mut().zip(m).zip(v).zip(gradient) {
        *m += (1.0 - beta1) * (g - *m);
        *v += (1.0 - beta2) * (g * g - *v);
        *value -= rate * *m / (v.sqrt() + epsilon);
    }
}
