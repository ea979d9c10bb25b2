//! Gradients of penalties.

use trainyard_run_config::Regularizer;

/// Adds the gradient of a penalty, `l1 sign(w) + 2 l2 w`, to that of the loss. A parameter of 0 has no sign.
pub fn add_penalty(regularizer: Option<Regularizer>, values: &[f32], gradient: &mut [f32]) {
    let Some(Regularizer { l1, l2 }) = regularizer else {
        return;
    };
    for (sum, value) in gradient.iter_mut().zip(values) {
        let sign = if *value == 0.0 { 0.0 } else { value.signum() };
        *sum += l1 * sign + 2.0 * l2 * value;
    }
}
