//! The metrics of an evaluation, by TensorFlow's names.

use trainyard_tensor::sigmoid;

use super::Head;
use crate::{Auc, ExactAuc, Scores};

/// Running sums over the batches of an evaluation.
#[derive(Debug, Clone, Default)]
pub struct HeadMetrics {
    /// Sum and number of the batches' losses.
    batch_losses: (f64, f64),
    /// Weighted sums over the examples.
    weight: f64,
    loss: f64,
    label: f64,
    prediction: f64,
    correct: f64,
    true_positive: f64,
    predicted_positive: f64,
    auc: Auc,
    exact_auc: ExactAuc,
}

impl HeadMetrics {
    /// Adds a batch.
    pub fn add(&mut self, head: &Head, logits: &[f32], labels: &[f32], weights: Option<&[f32]>) {
        let mut scratch = Vec::new();
        self.batch_losses.0 += head.loss(logits, labels, weights, &mut scratch);
        self.batch_losses.1 += 1.0;
        for (row, logits) in logits.chunks_exact(head.units()).enumerate() {
            let (label, weight) = (labels[row], weights.map_or(1.0, |weights| weights[row]));
            scratch.clear();
            scratch.extend_from_slice(logits);
            let wide = f64::from(weight);
            self.weight += wide;
            self.loss += wide * f64::from(head.example(&mut scratch, label));
            self.label += wide * f64::from(label);
            self.example(head, logits, label, weight);
        }
    }

    fn example(&mut self, head: &Head, logits: &[f32], label: f32, weight: f32) {
        let wide = f64::from(weight);
        match head {
            Head::Regression => self.prediction += wide * f64::from(logits[0]),
            Head::MultiClass(..) => {
                let best =
                    (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap_or(0);
                self.correct += if best == label as usize { wide } else { 0.0 };
            }
            Head::Binary(_) => {
                let probability = sigmoid(logits[0]);
                let positive = logits[0] > 0.0;
                self.prediction += wide * f64::from(probability);
                self.correct += if label == f32::from(u8::from(positive)) { wide } else { 0.0 };
                self.predicted_positive += if positive { wide } else { 0.0 };
                self.true_positive += if positive && label > 0.5 { wide } else { 0.0 };
                self.auc.add(probability, label, weight);
                self.exact_auc.add(logits[0], label, weight);
            }
        }
    }

    /// Returns the values so far.
    pub fn scores(&self, head: &Head) -> Scores {
        let divide = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        let mean = |sum: f64| divide(sum, self.weight);
        let mut scores = Scores::from([
            ("average_loss".to_owned(), mean(self.loss)),
            ("loss".to_owned(), divide(self.batch_losses.0, self.batch_losses.1)),
        ]);
        let mut put = |name: &str, value: f64| {
            scores.insert(name.to_owned(), value);
        };
        match head {
            Head::Regression => {
                put("label/mean", mean(self.label));
                put("prediction/mean", mean(self.prediction));
            }
            Head::MultiClass(..) => put("accuracy", mean(self.correct)),
            Head::Binary(_) => {
                let label = mean(self.label);
                put("accuracy", mean(self.correct));
                put("accuracy_baseline", if self.weight == 0.0 { 0.0 } else { label.max(1.0 - label) });
                put("auc", self.auc.roc());
                put("auc_precision_recall", self.auc.precision_recall());
                put("label/mean", label);
                put("precision", divide(self.true_positive, self.predicted_positive));
                put("prediction/mean", mean(self.prediction));
                put("recall", divide(self.true_positive, self.label));
                if let Some(exact) = self.exact_auc.value() {
                    put("auc_exact", exact);
                }
            }
        }
        scores
    }
}
