//! Metrics of an evaluation, by TensorFlow's names.

use std::collections::HashMap;

use trainyard_feature_column::fingerprint64;
use trainyard_run_config::HeadKind;
use trainyard_tensor::sigmoid;

use super::{Head, largest};
use crate::Scores;
use crate::metric::{Auc, Calibration, Class, Confusion, ExactAuc, Mean, Summation, TopK};

/// Running sums over the batches of an evaluation.
#[derive(Debug, Clone, Default)]
pub struct HeadMetrics {
    /// Plain mean of the losses of the batches.
    batches: Mean,
    /// Weighted means over the examples.
    loss: Mean,
    label: Mean,
    prediction: Mean,
    accuracy: Mean,
    half: Confusion,
    auc: Auc,
    exact_auc: ExactAuc,
    /// One entry per threshold of the head.
    thresholds: Vec<(Mean, Confusion)>,
    /// One entry per class that the head reports.
    classes: Vec<(Auc, Mean)>,
    groups: HashMap<u64, ExactAuc>,
    /// One entry per k that the head reports.
    top_k: Vec<TopK>,
    calibration: Calibration,
    /// Examples with a prediction that is not finite.
    nonfinite: u64,
}

/// Metrics of the labels alone.
const OF_LABELS: [&str; 2] = ["label/mean", "accuracy_baseline"];

impl HeadMetrics {
    /// Adds a batch. `groups` holds the group of each record. Records whose group is the fingerprint of the empty text have
    /// none, and do not count in the metrics of groups.
    pub fn add(
        &mut self,
        head: &Head,
        logits: &[f32],
        labels: &[f32],
        weights: Option<&[f32]>,
        groups: Option<&[u64]>,
    ) {
        // The sum of `Head::loss`, without its gradients.
        let mut scratch = Vec::new();
        let mut batch = 0.0;
        let share = f64::from(head.share(labels));
        let missing = fingerprint64(b"");
        let rows = logits
            .chunks_exact(head.units())
            .zip(labels.chunks_exact(head.label_width()));
        for (row, (logits, labels)) in rows.enumerate() {
            let weight = weights.map_or(1.0, |weights| weights[row]);
            self.nonfinite += u64::from(logits.iter().any(|logit| !logit.is_finite()));
            scratch.clear();
            scratch.extend_from_slice(logits);
            let loss = head.example(&mut scratch, labels);
            let losses = head.losses() as f64;
            batch += f64::from(weight * loss);
            self.loss
                .add(f64::from(loss) / losses, f64::from(weight) * losses);
            self.example(head, logits, labels, weight);
            if let (Some(groups), HeadKind::Binary) = (groups, head.kind)
                && groups[row] != missing
            {
                self.groups.entry(groups[row]).or_default().add(
                    logits[0],
                    Class::of_label(labels[0]),
                    weight,
                );
            }
        }
        self.batches.add(batch * share, 1.0);
    }

    fn example(&mut self, head: &Head, logits: &[f32], labels: &[f32], weight: f32) {
        let wide = f64::from(weight);
        match head.kind {
            HeadKind::Regression | HeadKind::Poisson | HeadKind::LogisticRegression => {
                for (logit, label) in logits.iter().zip(labels) {
                    self.label.add(f64::from(*label), wide);
                    self.prediction.add(f64::from(head.mean(*logit)), wide);
                }
            }
            HeadKind::MultiClass => {
                let correct = largest(logits) == labels[0] as usize;
                self.accuracy.add(f64::from(u8::from(correct)), wide);
                self.highest(head, logits, |class| class == labels[0] as usize, wide);
            }
            HeadKind::Binary => {
                let probability = sigmoid(logits[0]);
                let positive = logits[0] > 0.0;
                self.label.add(f64::from(labels[0]), wide);
                self.prediction.add(f64::from(probability), wide);
                let correct = labels[0] == f32::from(u8::from(positive));
                self.accuracy.add(f64::from(u8::from(correct)), wide);
                let class = Class::of_label(labels[0]);
                self.half.add(Class::above(logits[0], 0.0), class, weight);
                self.exact_auc.add(logits[0], class, weight);
                self.probability(head, probability, labels[0], weight);
                if self.calibration == Calibration::default() {
                    self.calibration = Calibration::new(head.calibration_buckets);
                }
                self.calibration.add(probability, labels[0], weight);
            }
            HeadKind::MultiLabel => {
                self.highest(head, logits, |class| labels[class] != 0.0, wide);
                for (logit, label) in logits.iter().zip(labels) {
                    self.probability(head, sigmoid(*logit), *label, weight);
                }
                self.classes
                    .resize_with(head.classes.len(), Default::default);
                for ((auc, mean), class) in self.classes.iter_mut().zip(&head.classes) {
                    let probability = sigmoid(logits[*class]);
                    auc.add(probability, Class::of_label(labels[*class]), weight);
                    mean.add(f64::from(probability), wide);
                }
            }
        }
    }

    /// Counts the correct classes among an example's highest predictions.
    fn highest(&mut self, head: &Head, logits: &[f32], right: impl Fn(usize) -> bool, weight: f64) {
        if head.top_k.is_empty() {
            return;
        }
        let mut classes: Vec<usize> = (0..logits.len()).collect();
        classes.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        self.top_k.resize(head.top_k.len(), TopK::default());
        for (counts, k) in self.top_k.iter_mut().zip(&head.top_k) {
            counts.add(*k, classes.iter().map(|class| (right(*class), weight)));
        }
    }

    fn probability(&mut self, head: &Head, probability: f32, label: f32, weight: f32) {
        let class = Class::of_label(label);
        self.auc.add(probability, class, weight);
        self.thresholds
            .resize_with(head.thresholds.len(), Default::default);
        for ((accuracy, confusion), threshold) in self.thresholds.iter_mut().zip(&head.thresholds) {
            let positive = probability > *threshold;
            let correct = label == f32::from(u8::from(positive));
            accuracy.add(f64::from(u8::from(correct)), f64::from(weight));
            confusion.add(Class::above(probability, *threshold), class, weight);
        }
    }

    /// Returns whether records of a weight above 0 were added.
    pub(super) fn has_records(&self) -> bool {
        self.loss.weight() > 0.0
    }

    /// Returns the values so far. Where a prediction is not finite, no metric of predictions is: an area under a curve and an
    /// accuracy would be numbers all the same, and such a model could be the best.
    pub fn scores(&self, head: &Head) -> Scores {
        let mut scores = self.finite_scores(head);
        if self.nonfinite > 0 {
            for (name, value) in &mut scores {
                if !OF_LABELS.contains(&name.as_str()) {
                    *value = f64::NAN;
                }
            }
        }
        scores
    }

    fn finite_scores(&self, head: &Head) -> Scores {
        let mut scores = Scores::new();
        let mut put = |name: &str, value: f64| {
            scores.insert(name.to_owned(), value);
        };
        put("average_loss", self.loss.value());
        put("loss", self.batches.value());
        match head.kind {
            HeadKind::Regression | HeadKind::Poisson | HeadKind::LogisticRegression => {
                put("label/mean", self.label.value());
                put("prediction/mean", self.prediction.value());
            }
            HeadKind::MultiClass => put("accuracy", self.accuracy.value()),
            HeadKind::MultiLabel => {
                put("auc", self.auc.roc());
                put("auc_precision_recall", self.auc.precision_recall());
                for ((auc, mean), class) in self.classes.iter().zip(&head.classes) {
                    // With a vocabulary, TensorFlow's metric contains the name of the class.
                    let name = if head.names.is_some() {
                        head.class_name(*class)
                    } else {
                        format!("class{class}")
                    };
                    put(&format!("auc/{name}"), auc.roc());
                    put(
                        &format!("auc_precision_recall/{name}"),
                        auc.precision_recall(),
                    );
                    put(&format!("probability_mean/{name}"), mean.value());
                }
            }
            HeadKind::Binary => {
                let label = self.label.value();
                put("accuracy", self.accuracy.value());
                let positive = self.label.sum();
                let all = self.label.weight();
                put(
                    "accuracy_baseline",
                    if all == 0.0 {
                        0.0
                    } else {
                        positive.max(all - positive) / all
                    },
                );
                put("auc", self.auc.roc());
                let area = if head.interpolate {
                    self.auc.precision_recall()
                } else {
                    self.auc.precision_recall_by(Summation::Trapezoidal)
                };
                put("auc_precision_recall", area);
                put("f1_score", self.half.f1());
                put("label/mean", label);
                put("precision", self.half.precision());
                put("prediction/mean", self.prediction.value());
                put("recall", self.half.recall());
                if let Some(exact) = self.exact_auc.value() {
                    put("auc_exact", exact);
                }
                if let Some(grouped) = self.group_auc() {
                    put("auc_group", grouped);
                }
                if head.calibration_buckets > 0 {
                    put("calibration_error", self.calibration.error());
                }
                for bucket in self.calibration.buckets() {
                    let name = format!("calibration/{}_to_{}", bucket.from, bucket.to);
                    put(&format!("{name}/label_mean"), bucket.label);
                    put(&format!("{name}/prediction_mean"), bucket.prediction);
                    put(&format!("{name}/share"), bucket.share);
                }
            }
        }
        let grouped = match head.kind {
            HeadKind::Binary => self.highest_of_groups(head),
            _ => self.top_k.clone(),
        };
        for (place, k) in head.top_k.iter().enumerate() {
            let counts = grouped.get(place).copied().unwrap_or_default();
            put(&format!("precision_at_k/{k}"), counts.precision());
            put(&format!("recall_at_k/{k}"), counts.recall());
        }
        for ((accuracy, confusion), threshold) in self.thresholds.iter().zip(&head.thresholds) {
            put(
                &format!("accuracy/positive_threshold_{threshold}"),
                accuracy.value(),
            );
            put(
                &format!("f1_score/positive_threshold_{threshold}"),
                confusion.f1(),
            );
            put(
                &format!("precision/positive_threshold_{threshold}"),
                confusion.precision(),
            );
            put(
                &format!("recall/positive_threshold_{threshold}"),
                confusion.recall(),
            );
        }
        scores
    }

    /// Counts the correct records among the highest predictions of each group.
    fn highest_of_groups(&self, head: &Head) -> Vec<TopK> {
        let mut counts = vec![TopK::default(); head.top_k.len()];
        for (counts, k) in counts.iter_mut().zip(&head.top_k) {
            let mut groups: Vec<(&u64, &ExactAuc)> = self.groups.iter().collect();
            // A fixed order keeps the sums reproducible.
            groups.sort_by_key(|(group, _)| **group);
            for (_, examples) in groups {
                counts.add(*k, examples.highest_first());
            }
        }
        counts
    }

    /// Returns the mean of the groups' exact areas, weighted by the weights of their examples (Zhu et al. 2017). Groups
    /// with a single class are left out.
    fn group_auc(&self) -> Option<f64> {
        let mut mean = Mean::default();
        let mut sorted: Vec<(&u64, &ExactAuc)> = self.groups.iter().collect();
        // A fixed order keeps the sum reproducible.
        sorted.sort_by_key(|(group, _)| **group);
        for (_, auc) in sorted {
            if let Some(area) = auc.value() {
                mean.add(area, auc.weight());
            }
        }
        (mean.weight() > 0.0).then(|| mean.value())
    }
}
