//! Heads: what logits mean. Loss, predictions and metrics of binary and multi-class classification and regression
//! (`tf.estimator.BinaryClassHead`, `MultiClassHead`, `RegressionHead`).
//!
//! The training loss is the weighted sum over the batch divided by the number of examples (`SUM_OVER_BATCH_SIZE`);
//! `average_loss` is the mean weighted by the weights; `loss` of an evaluation is the plain mean of the batches'.

mod metrics;

use std::collections::BTreeMap;

use trainyard_input::{Batch, Column, FieldKind, Schema};
use trainyard_run_config::{LabelConfig, ModelConfig};
use trainyard_tensor::{sigmoid, sigmoid_cross_entropy, softmax_in_place};

use crate::{Error, Prediction};
pub use metrics::HeadMetrics;

/// What the logits of a model mean.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// One logit: the log-odds of the positive class. Holds the text that is positive, if labels are texts.
    Binary(Option<String>),
    /// A logit a class. Holds the names of the classes, if labels are texts, and their number.
    MultiClass(Option<Vec<String>>, usize),
    /// One number.
    Regression,
}

impl Head {
    /// Returns the head that a job's model and label call for.
    pub fn new(model: &ModelConfig, label: &LabelConfig) -> Self {
        if !model.kind.is_classifier() {
            return Self::Regression;
        }
        match &label.vocabulary {
            Some(classes) if classes.len() == 2 => Self::Binary(Some(classes[1].clone())),
            Some(classes) => Self::MultiClass(Some(classes.clone()), classes.len()),
            None if model.n_classes == 2 => Self::Binary(label.positive.clone()),
            None => Self::MultiClass(None, model.n_classes),
        }
    }

    /// Returns the number of logits.
    pub fn units(&self) -> usize {
        match self {
            Self::Binary(_) | Self::Regression => 1,
            Self::MultiClass(_, classes) => *classes,
        }
    }

    /// Adds the label to the wanted columns, and returns its place.
    pub fn want(&self, label: &LabelConfig, schema: &mut Schema) -> usize {
        let texts = matches!(self, Self::Binary(Some(_)) | Self::MultiClass(Some(_), _));
        schema.want(&label.column, if texts { FieldKind::Bytes } else { FieldKind::Float { default: None } })
    }

    /// Reads the labels of a batch: 0 or 1, a class number, or the number to predict.
    ///
    /// # Errors
    /// A label that the head does not know.
    pub fn labels(&self, batch: &Batch, field: usize, label: &LabelConfig) -> Result<Vec<f32>, Error> {
        let wrong = |message: String| Error::Value { column: label.column.clone(), message };
        match (&batch.columns[field], self) {
            (Column::Float(values), Self::Regression) => Ok(values.clone()),
            (Column::Float(values), head) => {
                let classes = head.units().max(2);
                let bad = values
                    .iter()
                    .find(|value| value.fract() != 0.0 || **value < 0.0 || **value >= classes as f32);
                match bad {
                    Some(value) => {
                        Err(wrong(format!("label must be a class, 0 to {}, given {value}", classes - 1)))
                    }
                    None => Ok(values.clone()),
                }
            }
            (Column::Bytes(texts), Self::Binary(positive)) => {
                let positive = positive.as_deref().unwrap_or("1").as_bytes();
                let vocabulary = label.vocabulary.as_deref();
                (0..texts.len())
                    .map(|row| {
                        let text = texts.get(row);
                        match vocabulary {
                            _ if matches_text(positive, text) => Ok(1.0),
                            Some(classes) if classes[0].as_bytes() != text => {
                                Err(wrong(unknown(text, classes)))
                            }
                            _ if text.is_empty() => Err(wrong("the label is missing".to_owned())),
                            _ => Ok(0.0),
                        }
                    })
                    .collect()
            }
            (Column::Bytes(texts), Self::MultiClass(Some(classes), _)) => (0..texts.len())
                .map(|row| {
                    let text = texts.get(row);
                    let class = classes.iter().position(|class| class.as_bytes() == text);
                    class.map(|class| class as f32).ok_or_else(|| wrong(unknown(text, classes)))
                })
                .collect(),
            _ => Err(Error::NoLabel),
        }
    }

    /// Writes the gradient of the loss with respect to each logit, and returns the loss.
    pub fn loss(&self, logits: &[f32], labels: &[f32], weights: Option<&[f32]>, delta: &mut Vec<f32>) -> f64 {
        let units = self.units();
        delta.clear();
        delta.extend_from_slice(logits);
        let (mut sum, share) = (0.0, 1.0 / labels.len().max(1) as f32);
        for (row, delta) in delta.chunks_exact_mut(units).enumerate() {
            let weight = weights.map_or(1.0, |weights| weights[row]);
            sum += f64::from(weight * self.example(delta, labels[row]));
            delta.iter_mut().for_each(|value| *value *= weight * share);
        }
        sum * f64::from(share)
    }

    /// Replaces an example's logits by their gradient, and returns its loss.
    fn example(&self, logits: &mut [f32], label: f32) -> f32 {
        match self {
            Self::Binary(_) => {
                let loss = sigmoid_cross_entropy(logits[0], label);
                logits[0] = sigmoid(logits[0]) - label;
                loss
            }
            Self::MultiClass(..) => {
                let logit = logits[label as usize];
                let log_sum = softmax_in_place(logits);
                logits[label as usize] -= 1.0;
                log_sum - logit
            }
            Self::Regression => {
                let difference = logits[0] - label;
                logits[0] = 2.0 * difference;
                difference * difference
            }
        }
    }

    /// Returns an example's predictions, by TensorFlow's keys.
    pub fn predict(&self, logits: &[f32]) -> BTreeMap<String, Prediction> {
        let (probabilities, class) = match self {
            Self::Regression => {
                return BTreeMap::from([("predictions".to_owned(), Prediction::Floats(logits.to_vec()))]);
            }
            Self::Binary(_) => {
                let positive = sigmoid(logits[0]);
                (vec![1.0 - positive, positive], usize::from(logits[0] > 0.0))
            }
            Self::MultiClass(..) => {
                let mut probabilities = logits.to_vec();
                softmax_in_place(&mut probabilities);
                let best =
                    (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap_or(0);
                (probabilities, best)
            }
        };
        let count = probabilities.len();
        let names: Vec<String> = (0..count).map(|class| self.class_name(class)).collect();
        let mut out = BTreeMap::from([
            ("logits".to_owned(), Prediction::Floats(logits.to_vec())),
            ("class_ids".to_owned(), Prediction::Ints(vec![class as i64])),
            ("classes".to_owned(), Prediction::Texts(vec![names[class].clone()])),
            ("all_class_ids".to_owned(), Prediction::Ints((0..count as i64).collect())),
            ("all_classes".to_owned(), Prediction::Texts(names)),
        ]);
        if let Self::Binary(_) = self {
            out.insert("logistic".to_owned(), Prediction::Floats(vec![probabilities[1]]));
        }
        out.insert("probabilities".to_owned(), Prediction::Floats(probabilities));
        out
    }

    fn class_name(&self, class: usize) -> String {
        match self {
            Self::MultiClass(Some(classes), _) => classes[class].clone(),
            _ => class.to_string(),
        }
    }
}

fn matches_text(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.strip_suffix(b"*") {
        Some(prefix) => text.starts_with(prefix),
        None => pattern == text,
    }
}

fn unknown(text: &[u8], classes: &[String]) -> String {
    format!("label \"{}\" is not in the vocabulary {}", text.escape_ascii(), classes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central differences of the loss, at some logits.
    #[test]
    fn gradients_of_all_heads_agree_with_finite_differences() {
        for head in [Head::Binary(None), Head::MultiClass(None, 3), Head::Regression] {
            let units = head.units();
            let logits: Vec<f32> = (0..4 * units).map(|index| (index as f32 * 0.37).sin() * 2.0).collect();
            let labels = [1.0, 0.0, 1.0, 0.0];
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
                    "{head:?} logit {place}: {numeric} {}",
                    delta[place]
                );
            }
        }
    }
}
