//! Losses of classification and their gradients with respect to the logits.

use trainyard_run_config::LossConfig;
use trainyard_tensor::{sigmoid, sigmoid_cross_entropy, softmax_in_place};

/// Least distance of a probability from 1 for which a quotient with this distance is computed directly.
const NEAR_ONE: f32 = 1e-6;

/// Returns the loss of a logit whose label is 0, 1 or a probability between them, and the gradient of the loss.
pub(super) fn of_binary(loss: LossConfig, logit: f32, label: f32) -> (f32, f32) {
    match loss {
        LossConfig::CrossEntropy => (sigmoid_cross_entropy(logit, label), sigmoid(logit) - label),
        LossConfig::Focal { gamma, alpha } => {
            let (loss, gradient) = focal(gamma, logit, label);
            let share = alpha.map_or(1.0, |alpha| label * alpha + (1.0 - label) * (1.0 - alpha));
            (share * loss, share * gradient)
        }
        LossConfig::Hinge => {
            let side = 2.0 * label - 1.0;
            let missing = 1.0 - side * logit;
            if missing > 0.0 {
                (missing, -side)
            } else {
                (0.0, 0.0)
            }
        }
    }
}

/// Returns the cross entropy times `(1 - p)^gamma`. `p` is the predicted probability of the label (Lin et al. 2017,
/// equation 4).
fn focal(gamma: f32, logit: f32, label: f32) -> (f32, f32) {
    let positive = sigmoid(logit);
    let entropy = sigmoid_cross_entropy(logit, label);
    // 1 - p, without the cancellation of a subtraction from 1.
    let missing = label * sigmoid(-logit) + (1.0 - label) * positive;
    let factor = missing.powf(gamma);
    // p (1 - p) / missing, or its limit if the prediction is certain.
    let slope = positive * sigmoid(-logit);
    let quotient = if missing > 0.0 {
        slope / missing
    } else {
        positive.max(1.0 - positive)
    };
    let gradient = factor * (positive - label - gamma * entropy * (2.0 * label - 1.0) * quotient);
    (factor * entropy, gradient)
}

/// Replaces the logits of classes by the gradient of the loss, and returns the loss.
pub(super) fn of_classes(loss: LossConfig, logits: &mut [f32], class: usize) -> f32 {
    let logit = logits[class];
    let log_sum = softmax_in_place(logits);
    let entropy = log_sum - logit;
    let LossConfig::Focal { gamma, .. } = loss else {
        logits[class] -= 1.0;
        return entropy;
    };
    let missing: f32 = logits
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != class)
        .map(|(_, p)| p)
        .sum();
    let factor = missing.powf(gamma);
    // p ln p / (1 - p) approaches -1 as p approaches 1.
    let quotient = if missing > NEAR_ONE {
        -logits[class] * entropy / missing
    } else {
        -1.0
    };
    let scale = factor * (1.0 - gamma * quotient);
    logits[class] -= 1.0;
    logits.iter_mut().for_each(|gradient| *gradient *= scale);
    factor * entropy
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOCAL: LossConfig = LossConfig::Focal {
        gamma: 2.0,
        alpha: None,
    };

    #[test]
    fn the_focal_loss_is_that_of_keras() {
        // By the formula of tf.keras.losses.BinaryFocalCrossentropy(from_logits=True)([[1], [0]], [[2.0], [-1.0]]).
        let (loss, _) = of_binary(FOCAL, 2.0, 1.0);
        assert!(
            (loss - 0.119_203_f32.powi(2) * 0.126_928).abs() < 1e-6,
            "{loss}"
        );
        let (loss, _) = of_binary(
            LossConfig::Focal {
                gamma: 2.0,
                alpha: Some(0.25),
            },
            -1.0,
            0.0,
        );
        assert!(
            (loss - 0.75 * 0.268_941_f32.powi(2) * 0.313_262).abs() < 1e-6,
            "{loss}"
        );
        // CategoricalFocalCrossentropy without its alpha: (1 - p)^2 times the cross entropy.
        let mut logits = [1.0, 2.0, 3.0];
        let loss = of_classes(FOCAL, &mut logits, 1);
        assert!(
            (loss - (1.0 - 0.244_728_f32).powi(2) * 1.407_606).abs() < 1e-5,
            "{loss}"
        );
    }

    #[test]
    fn a_gamma_of_zero_is_the_cross_entropy() {
        for (logit, label) in [(0.3, 1.0), (-7.0, 1.0), (40.0, 0.0), (0.5, 0.25)] {
            let plain = of_binary(LossConfig::CrossEntropy, logit, label);
            let focal = of_binary(
                LossConfig::Focal {
                    gamma: 0.0,
                    alpha: None,
                },
                logit,
                label,
            );
            assert!(
                (plain.0 - focal.0).abs() < 1e-6 && (plain.1 - focal.1).abs() < 1e-6,
                "{plain:?} {focal:?}"
            );
        }
    }

    #[test]
    fn logits_beyond_all_bounds_give_finite_losses_and_gradients() {
        for loss in [
            FOCAL,
            LossConfig::Focal {
                gamma: 0.5,
                alpha: Some(0.1),
            },
            LossConfig::Hinge,
        ] {
            for logit in [-1e30, -200.0, 0.0, 200.0, 1e30] {
                for label in [0.0, 0.5, 1.0] {
                    let (value, gradient) = of_binary(loss, logit, label);
                    assert!(
                        value.is_finite() && gradient.is_finite(),
                        "{loss:?} {logit} {label}"
                    );
                }
            }
            for class in 0..2 {
                let mut logits = [-1e30, 1e30];
                let value = of_classes(loss, &mut logits, class);
                assert!(
                    value.is_finite() && logits.iter().all(|value| value.is_finite()),
                    "{loss:?} {class}"
                );
            }
        }
    }

    #[test]
    fn the_hinge_loss_counts_what_is_missing_to_the_margin() {
        let of = |logit, label| of_binary(LossConfig::Hinge, logit, label);
        assert_eq!(
            [of(0.5, 1.0), of(0.5, 0.0), of(1.5, 1.0)],
            [(0.5, -1.0), (1.5, 1.0), (0.0, 0.0)]
        );
    }
}
