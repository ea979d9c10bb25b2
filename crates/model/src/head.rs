//! Heads: loss, predictions and metrics of classification and regression (`tf.estimator.*Head`).
//!
//! The training loss is the weighted sum over the batch, divided by its number of labels unless the job says otherwise.
//! Of the evaluation metrics, `average_loss` is the mean weighted by the weights, and `loss` is the plain mean over the
//! batches.

mod labels;
mod loss;
mod metrics;
mod tasks;

use std::collections::BTreeMap;

use trainyard_run_config::{
    Defaults, HeadKind, LabelConfig, LossConfig, LossReduction, ModelConfig,
};
use trainyard_tensor::{sigmoid, softmax_in_place};

use crate::Prediction;
pub use metrics::HeadMetrics;
pub(crate) use tasks::NamedHead;
pub use tasks::{Heads, LabelFields, Task};

/// A head: it turns logits into loss, predictions and metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    kind: HeadKind,
    /// Number of classes, or of numbers in a label.
    size: usize,
    /// Names of the classes, if labels are texts.
    names: Option<Vec<String>>,
    /// Text of the positive class, if labels are texts.
    positive: Option<String>,
    separator: u8,
    label_column: String,
    thresholds: Vec<f32>,
    /// Classes with metrics of their own.
    classes: Vec<usize>,
    /// Values of k for which the head reports precision and recall of the k highest predictions.
    top_k: Vec<usize>,
    calibration_buckets: usize,
    loss: LossConfig,
    /// Training weight of an example, by its class; empty if all are equal.
    class_weights: Vec<f32>,
    reduction: LossReduction,
    /// Mean and deviation of the label of a regression; absent = 0 and 1.
    scale: Option<(f32, f32)>,
    /// The area under the precision-recall curve is interpolated. TensorFlow 1 uses trapezoids instead.
    interpolate: bool,
}

impl Head {
    /// Returns the head for a job's model and label.
    pub fn new(model: &ModelConfig, label: &LabelConfig) -> Self {
        let names = label.vocabulary.clone();
        let positive = match (&names, model.head) {
            (Some(names), HeadKind::Binary) => names.get(1).cloned(),
            _ => label.positive.clone(),
        };
        Self {
            kind: model.head,
            size: if model.head.has_classes() {
                model.n_classes
            } else {
                model.label_dimension
            },
            names,
            positive,
            separator: label.separator,
            label_column: label.column.clone(),
            thresholds: model.thresholds.clone(),
            classes: model.classes_for_class_based_metrics.clone(),
            top_k: model.top_k.clone(),
            calibration_buckets: model.calibration_buckets,
            loss: model.loss,
            class_weights: model.class_weights.clone(),
            reduction: model.loss_reduction,
            scale: model
                .has_label_scale()
                .then_some((model.label_mean, model.label_stddev)),
            interpolate: model.defaults != Defaults::Tensorflow1,
        }
    }

    /// Returns the number of logits per record.
    pub fn units(&self) -> usize {
        if self.kind == HeadKind::Binary {
            1
        } else {
            self.size
        }
    }

    /// Returns the number of labels per record: one per class of a multi-label head, one per number of a regression, 1
    /// otherwise.
    pub(crate) fn label_width(&self) -> usize {
        match self.kind {
            HeadKind::Binary | HeadKind::MultiClass => 1,
            _ => self.size,
        }
    }

    /// Returns the kind of the head.
    pub fn kind(&self) -> HeadKind {
        self.kind
    }

    /// Returns mean and deviation of the label of a regression, if they are not 0 and 1.
    pub(crate) fn scale(&self) -> Option<(f32, f32)> {
        self.scale
    }

    /// Returns the number of losses per record that the reduction counts.
    fn losses(&self) -> usize {
        if self.kind.has_classes() {
            1
        } else {
            self.size
        }
    }

    /// Returns the factor of each loss in the loss of the batch.
    fn share(&self, labels: &[f32]) -> f32 {
        let rows = labels.len() / self.label_width();
        match self.reduction {
            LossReduction::Sum => 1.0,
            LossReduction::SumOverBatchSize => 1.0 / (rows * self.losses()).max(1) as f32,
        }
    }

    /// Writes the gradient of the loss with respect to each logit, and returns the loss. `labels` holds
    /// `Head::label_width` numbers per record.
    pub fn loss(
        &self,
        logits: &[f32],
        labels: &[f32],
        weights: Option<&[f32]>,
        delta: &mut Vec<f32>,
    ) -> f64 {
        delta.clear();
        delta.extend_from_slice(logits);
        let width = self.label_width();
        let share = self.share(labels);
        let mut sum = 0.0;
        for (row, delta) in delta.chunks_exact_mut(self.units()).enumerate() {
            let labels = &labels[row * width..][..width];
            let weight = weights.map_or(1.0, |weights| weights[row]) * self.class_weight(labels[0]);
            sum += f64::from(weight * self.example(delta, labels));
            delta.iter_mut().for_each(|value| *value *= weight * share);
        }
        sum * f64::from(share)
    }

    /// Returns the training weight of an example with this label. A label between two classes interpolates their
    /// weights.
    fn class_weight(&self, label: f32) -> f32 {
        match (self.class_weights.as_slice(), self.kind) {
            ([], _) => 1.0,
            ([negative, positive], HeadKind::Binary) => label * positive + (1.0 - label) * negative,
            (weights, _) => weights.get(label as usize).copied().unwrap_or(1.0),
        }
    }

    /// Replaces an example's logits by their gradient, and returns its loss. The loss is a sum over the numbers of a
    /// label, and a mean over the classes of a multi-label head. The gradient of a regression with a scale is that of the
    /// squared error of the standardized label, while its loss is in the unit of the label.
    fn example(&self, logits: &mut [f32], labels: &[f32]) -> f32 {
        fn each(logits: &mut [f32], labels: &[f32], loss: impl Fn(f32, f32) -> (f32, f32)) -> f32 {
            let mut sum = 0.0;
            for (logit, label) in logits.iter_mut().zip(labels) {
                let (loss, gradient) = loss(*logit, *label);
                sum += loss;
                *logit = gradient;
            }
            sum
        }
        let of_class = |logit: f32, label: f32| loss::of_binary(self.loss, logit, label);
        match self.kind {
            HeadKind::Binary | HeadKind::LogisticRegression => each(logits, labels, of_class),
            HeadKind::MultiLabel => {
                let sum = each(logits, labels, of_class);
                let count = labels.len() as f32;
                logits.iter_mut().for_each(|gradient| *gradient /= count);
                sum / count
            }
            HeadKind::MultiClass => loss::of_classes(self.loss, logits, labels[0] as usize),
            HeadKind::Regression => each(logits, labels, |logit, label| {
                let difference = self.mean(logit) - label;
                let deviation = self.scale.map_or(1.0, |(_, deviation)| deviation);
                (difference * difference, 2.0 * difference / deviation)
            }),
            HeadKind::Poisson => each(logits, labels, |logit, label| {
                (
                    logit.exp() - label * logit + stirling(label),
                    logit.exp() - label,
                )
            }),
        }
    }

    /// Returns the prediction of a logit.
    fn mean(&self, logit: f32) -> f32 {
        match self.kind {
            HeadKind::Poisson => logit.exp(),
            HeadKind::Regression => match self.scale {
                Some((mean, deviation)) => mean + deviation * logit,
                None => logit,
            },
            _ => sigmoid(logit),
        }
    }

    /// Returns an example's predictions, by TensorFlow's keys.
    pub fn predict(&self, logits: &[f32]) -> BTreeMap<String, Prediction> {
        let mut out = BTreeMap::new();
        let mut put = |key: &str, value: Prediction| {
            out.insert(key.to_owned(), value);
        };
        let names = |count: usize| {
            Prediction::Texts((0..count).map(|class| self.class_name(class)).collect())
        };
        let means: Vec<f32> = logits.iter().map(|logit| self.mean(*logit)).collect();
        let (probabilities, class) = match self.kind {
            HeadKind::Regression => {
                put("predictions", Prediction::Floats(means));
                return out;
            }
            HeadKind::Poisson | HeadKind::LogisticRegression => {
                put("predictions", Prediction::Floats(means));
                put("logits", Prediction::Floats(logits.to_vec()));
                return out;
            }
            HeadKind::MultiLabel => {
                put("logits", Prediction::Floats(logits.to_vec()));
                put("probabilities", Prediction::Floats(means));
                put("classes", names(self.size));
                return out;
            }
            HeadKind::Binary => {
                put("logistic", Prediction::Floats(means.clone()));
                (vec![1.0 - means[0], means[0]], usize::from(logits[0] > 0.0))
            }
            HeadKind::MultiClass => {
                let mut probabilities = logits.to_vec();
                softmax_in_place(&mut probabilities);
                (probabilities, largest(logits))
            }
        };
        let count = probabilities.len();
        put("logits", Prediction::Floats(logits.to_vec()));
        put("class_ids", Prediction::Ints(vec![class as i64]));
        put("classes", Prediction::Texts(vec![self.class_name(class)]));
        put(
            "all_class_ids",
            Prediction::Ints((0..count as i64).collect()),
        );
        put("all_classes", names(count));
        put("probabilities", Prediction::Floats(probabilities));
        out
    }

    /// Returns the names of the classes, in class order.
    pub(crate) fn class_names(&self) -> Vec<String> {
        (0..self.size).map(|class| self.class_name(class)).collect()
    }

    fn class_name(&self, class: usize) -> String {
        match &self.names {
            Some(names) => names.get(class).cloned().unwrap_or_default(),
            None => class.to_string(),
        }
    }
}

/// Returns the first of the largest logits.
fn largest(logits: &[f32]) -> usize {
    (0..logits.len())
        .rev()
        .max_by(|a, b| logits[*a].total_cmp(&logits[*b]))
        .unwrap_or(0)
}

/// Returns Stirling's approximation of `ln z!`, or 0 up to 1 (`tf.nn.log_poisson_loss` with the full loss).
fn stirling(label: f32) -> f32 {
    if label > 1.0 {
        label * label.ln() - label + 0.5 * (std::f32::consts::TAU * label).ln()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests;
