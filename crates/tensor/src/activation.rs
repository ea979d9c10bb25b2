//! Elementwise functions, each in the form that does not overflow.

use pulp::Arch;

/// Returns `1 / (1 + e^-x)`.
pub fn sigmoid(x: f32) -> f32 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// Returns `max(x, 0) - x z + ln(1 + e^-|x|)` (`tf.nn.sigmoid_cross_entropy_with_logits`).
pub fn sigmoid_cross_entropy(logit: f32, label: f32) -> f32 {
    logit.max(0.0) - logit * label + (-logit.abs()).exp().ln_1p()
}

/// Replaces logits by `softmax(logits)` and returns `ln Σ e^logit` (`tf.nn.softmax`).
pub fn softmax_in_place(logits: &mut [f32]) -> f32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for logit in logits.iter_mut() {
        *logit = (*logit - most).exp();
        sum += *logit;
    }
    logits.iter_mut().for_each(|value| *value /= sum);
    most + sum.ln()
}

/// Returns `max(x, 0)`, and NaN for NaN as `tf.nn.relu` does, where `f32::max` would return 0 and hide an overflow.
#[inline(always)]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Sets the gradient to 0 where the layer's output was 0.
pub fn relu_backward(output: &[f32], gradient: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (gradient, output) in gradient.iter_mut().zip(output) {
                *gradient = if *output > 0.0 { *gradient } else { 0.0 };
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_stays_one_under_relu() {
        assert!(relu(f32::NAN).is_nan());
        assert_eq!(
            (relu(-2.0), relu(0.0), relu(f32::INFINITY)),
            (0.0, 0.0, f32::INFINITY)
        );
        let mut matrix = vec![f32::NAN; 37];
        crate::add_bias_relu(&mut matrix, &[1.0; 37]);
        assert!(matrix.iter().all(|value| value.is_nan()), "{matrix:?}");
    }

    #[test]
    fn large_logits_do_not_overflow() {
        assert_eq!((sigmoid(200.0), sigmoid(-200.0)), (1.0, 0.0));
        assert_eq!(sigmoid_cross_entropy(-200.0, 1.0), 200.0);
        let mut logits = [1000.0, 1000.0];
        assert_eq!(softmax_in_place(&mut logits), 1000.0 + 2.0_f32.ln());
        assert_eq!(logits, [0.5, 0.5]);
    }
}
