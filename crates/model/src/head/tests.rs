//! Gradients of every head.

use super::*;

fn head(kind: HeadKind, size: usize) -> Head {
    Head {
        kind,
        size,
        names: None,
        positive: None,
        separator: b'|',
        label_column: "label".to_owned(),
        thresholds: Vec::new(),
        classes: Vec::new(),
        reduction: LossReduction::SumOverBatchSize,
        interpolate: true,
    }
}

/// Central differences of the loss, at some logits.
#[test]
fn gradients_of_all_heads_agree_with_finite_differences() {
    let heads = [
        (HeadKind::Binary, 2),
        (HeadKind::MultiClass, 3),
        (HeadKind::MultiLabel, 3),
        (HeadKind::Regression, 2),
        (HeadKind::Poisson, 1),
        (HeadKind::LogisticRegression, 1),
    ];
    for (kind, size) in heads {
        let head = head(kind, size);
        let units = head.units();
        let logits: Vec<f32> = (0..4 * units).map(|index| (index as f32 * 0.37).sin() * 2.0).collect();
        let labels: Vec<f32> = (0..4 * head.label_width()).map(|place| (place % 2) as f32).collect();
        let weights = [1.0, 0.5, 2.0, 0.0];
        let (mut delta, mut scratch) = (Vec::new(), Vec::new());
        head.loss(&logits, &labels, Some(&weights), &mut delta);
        for place in 0..logits.len() {
            let mut at = |step: f32| {
                let mut moved = logits.clone();
                moved[place] += step;
                head.loss(&moved, &labels, Some(&weights), &mut scratch)
            };
            let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!(
                (numeric - f64::from(delta[place])).abs() < 1e-3,
                "{kind:?} logit {place}: {numeric} {}",
                delta[place]
            );
        }
    }
}
