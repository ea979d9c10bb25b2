//! Gradients and metrics of every head.

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
        top_k: Vec::new(),
        calibration_buckets: 0,
        loss: LossConfig::CrossEntropy,
        class_weights: Vec::new(),
        reduction: LossReduction::SumOverBatchSize,
        scale: None,
        interpolate: true,
    }
}

/// Compares gradients with central differences of the loss, at several logits and labels.
fn check_gradients(head: &Head, labels: &[f32]) {
    let units = head.units();
    let logits: Vec<f32> = (0..4 * units)
        .map(|index| (index as f32 * 0.37).sin() * 2.0)
        .collect();
    let weights = [1.0, 0.5, 2.0, 0.0];
    let mut delta = Vec::new();
    let mut scratch = Vec::new();
    head.loss(&logits, labels, Some(&weights), &mut delta);
    for place in 0..logits.len() {
        let mut at = |step: f32| {
            let mut moved = logits.clone();
            moved[place] += step;
            head.loss(&moved, labels, Some(&weights), &mut scratch)
        };
        let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
        assert!(
            (numeric - f64::from(delta[place])).abs() < 1e-3,
            "{:?} {:?} logit {place}: {numeric} {}",
            head.kind,
            head.loss,
            delta[place]
        );
    }
}

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
        let labels: Vec<f32> = (0..4 * head.label_width())
            .map(|place| (place % 2) as f32)
            .collect();
        check_gradients(&head, &labels);
    }
}

#[test]
fn gradients_of_other_losses_and_of_weighted_classes_agree_with_finite_differences() {
    let focal = |gamma, alpha| LossConfig::Focal { gamma, alpha };
    let heads = [
        (HeadKind::Binary, 2, focal(2.0, Some(0.25)), vec![1.0, 3.0]),
        (HeadKind::Binary, 2, focal(0.5, None), Vec::new()),
        (HeadKind::Binary, 2, LossConfig::Hinge, vec![0.5, 2.0]),
        (
            HeadKind::MultiClass,
            3,
            focal(2.0, None),
            vec![1.0, 2.0, 4.0],
        ),
        (HeadKind::MultiLabel, 3, focal(1.5, Some(0.4)), Vec::new()),
    ];
    for (kind, size, loss, class_weights) in heads {
        let head = Head {
            loss,
            class_weights,
            ..head(kind, size)
        };
        let count = 4 * head.label_width();
        check_gradients(
            &head,
            &(0..count)
                .map(|place| (place % 2) as f32)
                .collect::<Vec<f32>>(),
        );
        if kind == HeadKind::Binary && loss != LossConfig::Hinge {
            check_gradients(&head, &[0.25, 0.5, 0.75, 1.0]);
        }
    }
}

#[test]
fn an_example_counts_what_its_class_counts() {
    let loss = |class_weights: Vec<f32>, labels: &[f32]| {
        let head = Head {
            class_weights,
            ..head(HeadKind::Binary, 2)
        };
        head.loss(&[0.5, 0.5], labels, None, &mut Vec::new())
    };
    let negative = loss(Vec::new(), &[0.0, 0.0]);
    let positive = loss(Vec::new(), &[1.0, 1.0]);
    let weighted = loss(vec![1.0, 3.0], &[0.0, 1.0]);
    assert!((weighted - (negative + 3.0 * positive) / 2.0).abs() < 1e-6);
}

/// Returns the metrics of records: logits, labels, groups.
fn scores(head: &Head, records: &[(&[f32], &[f32], u64)]) -> crate::Scores {
    let mut metrics = HeadMetrics::default();
    let logits: Vec<f32> = records
        .iter()
        .flat_map(|(logits, ..)| logits.iter().copied())
        .collect();
    let labels: Vec<f32> = records
        .iter()
        .flat_map(|(_, labels, _)| labels.iter().copied())
        .collect();
    let groups: Vec<u64> = records.iter().map(|(.., group)| *group).collect();
    metrics.add(head, &logits, &labels, None, Some(&groups));
    metrics.scores(head)
}

#[test]
fn records_without_a_group_are_no_group() {
    let head = Head {
        top_k: vec![1],
        ..head(HeadKind::Binary, 1)
    };
    let missing = trainyard_feature_column::fingerprint64(b"");
    let grouped: [(&[f32], &[f32], u64); 3] = [
        (&[1.0], &[1.0], 7),
        (&[0.5], &[0.0], 7),
        (&[2.0], &[1.0], 8),
    ];
    let anonymous: [(&[f32], &[f32], u64); 2] =
        [(&[3.0], &[0.0], missing), (&[-1.0], &[1.0], missing)];
    let without = scores(&head, &grouped);
    let with = scores(&head, &[&grouped[..], &anonymous[..]].concat());
    for name in ["auc_group", "precision_at_k/1", "recall_at_k/1"] {
        assert_eq!(with[name], without[name], "{name}");
    }
}

#[test]
fn the_highest_k_count_among_classes_among_labels_and_in_each_group() {
    let of_classes = Head {
        top_k: vec![1, 2],
        ..head(HeadKind::MultiClass, 3)
    };
    let got = scores(
        &of_classes,
        &[
            (&[1.0, 2.0, 0.0], &[1.0], 0),
            (&[1.0, 2.0, 0.0], &[0.0], 0),
            (&[1.0, 2.0, 0.0], &[2.0], 0),
        ],
    );
    assert_eq!(
        (got["recall_at_k/1"], got["recall_at_k/2"]),
        (1.0 / 3.0, 2.0 / 3.0)
    );
    assert_eq!(
        (got["precision_at_k/1"], got["precision_at_k/2"]),
        (1.0 / 3.0, 1.0 / 3.0)
    );
    let of_labels = Head {
        top_k: vec![2],
        ..head(HeadKind::MultiLabel, 3)
    };
    let got = scores(
        &of_labels,
        &[
            (&[3.0, 2.0, 1.0], &[1.0, 0.0, 1.0], 0),
            (&[3.0, 2.0, 1.0], &[0.0, 1.0, 0.0], 0),
        ],
    );
    assert_eq!(
        (got["precision_at_k/2"], got["recall_at_k/2"]),
        (0.5, 2.0 / 3.0)
    );
    let of_groups = Head {
        top_k: vec![1, 3],
        ..head(HeadKind::Binary, 2)
    };
    let one: [(&[f32], &[f32], u64); 5] = [
        (&[0.9], &[1.0], 1),
        (&[0.8], &[1.0], 1),
        (&[0.1], &[0.0], 1),
        (&[0.5], &[0.0], 2),
        (&[0.4], &[1.0], 2),
    ];
    let got = scores(&of_groups, &one);
    assert_eq!(
        (got["precision_at_k/1"], got["recall_at_k/1"]),
        (0.5, 1.0 / 3.0)
    );
    // The second group has only two records.
    assert_eq!(
        (got["precision_at_k/3"], got["recall_at_k/3"]),
        (3.0 / 5.0, 1.0)
    );
}

#[test]
fn buckets_say_how_often_what_was_predicted_came_true() {
    let head = Head {
        calibration_buckets: 2,
        ..head(HeadKind::Binary, 2)
    };
    // Probabilities 0.25, 0.25, 0.75, and 1.
    let third = 3.0_f32.ln();
    let got = scores(
        &head,
        &[
            (&[-third], &[0.0], 0),
            (&[-third], &[1.0], 0),
            (&[third], &[1.0], 0),
            (&[50.0], &[1.0], 0),
        ],
    );
    let near =
        |name: &str, value: f64| assert!((got[name] - value).abs() < 1e-6, "{name} {}", got[name]);
    near("calibration/0_to_0.5/label_mean", 0.5);
    near("calibration/0_to_0.5/prediction_mean", 0.25);
    near("calibration/0_to_0.5/share", 0.5);
    near("calibration/0.5_to_1/label_mean", 1.0);
    near("calibration/0.5_to_1/prediction_mean", 0.875);
    near("calibration_error", 0.5 * 0.25 + 0.5 * 0.125);
}

#[test]
fn metrics_of_classes_that_are_named_as_other_metrics_are_metrics_of_their_own() {
    let names = ["x/positive_threshold_0.5", "loss", "positive_threshold_0.5"];
    let head = Head {
        names: Some(names.map(str::to_owned).to_vec()),
        classes: vec![0, 1, 2],
        thresholds: vec![0.5],
        top_k: vec![1],
        ..head(HeadKind::MultiLabel, 3)
    };
    let mut metrics = HeadMetrics::default();
    let labels = [1.0, 0.0, 1.0];
    metrics.add(&head, &[0.5, -0.5, 1.0], &labels, None, None);
    let of_all = ["average_loss", "loss", "auc", "auc_precision_recall"].len();
    let of_classes = 3 * names.len();
    let of_threshold = ["accuracy", "f1_score", "precision", "recall"].len();
    let of_top_k = ["precision_at_k", "recall_at_k"].len();
    assert_eq!(
        metrics.scores(&head).len(),
        of_all + of_classes + of_threshold + of_top_k
    );
}

#[test]
fn a_regression_with_a_scale_learns_the_standardized_label_and_tells_all_in_the_unit_of_the_label()
{
    let plain = head(HeadKind::Regression, 1);
    let scaled = Head {
        scale: Some((200_000.0, 50_000.0)),
        ..plain.clone()
    };
    let logits = [0.5, -1.0];
    let labels = [230_000.0, 150_000.0];
    let standardized = [0.6, -1.0];
    let [mut gradient, mut of_standardized] = [Vec::new(), Vec::new()];
    let loss = scaled.loss(&logits, &labels, None, &mut gradient);
    let of_plain = plain.loss(&logits, &standardized, None, &mut of_standardized);
    for (one, other) in gradient.iter().zip(&of_standardized) {
        assert!((one - other).abs() < 1e-6, "{one} {other}");
    }
    assert!(
        (loss / of_plain / 2.5e9 - 1.0).abs() < 1e-5,
        "{loss} {of_plain}"
    );
    let predicted = scaled.predict(&logits[..1]);
    assert_eq!(
        predicted["predictions"],
        Prediction::Floats(vec![225_000.0])
    );
    let mut metrics = HeadMetrics::default();
    metrics.add(&scaled, &logits, &labels, None, None);
    let scores = metrics.scores(&scaled);
    assert_eq!(scores["prediction/mean"], 187_500.0);
    assert_eq!(scores["average_loss"], 12.5e6);
}
