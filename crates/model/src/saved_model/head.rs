//! Outputs of a SavedModel: TensorFlow's prediction keys, and the signatures of an Estimator's export.

use std::collections::BTreeMap;

use trainyard_run_config::HeadKind;
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{
    Binary, Comparison, Edge, Method, Signature, Unary,
};

use super::Builder;
use super::inputs::Given;
use crate::Canned;

/// Predictions by key, with the number of values of a row.
pub(super) struct Outputs {
    keys: BTreeMap<&'static str, (Edge, usize)>,
    /// Names of all classes, for each row.
    class_names: Option<Edge>,
}

impl Builder<'_> {
    /// Adds the predictions.
    pub(super) fn outputs(&mut self) -> Outputs {
        let logits = self.logits();
        let kind = self.canned.head.kind();
        let units = self.canned.head.units();
        let scope = self.name("head");
        let name = |part: &str| format!("{scope}/{part}");
        let graph = &mut *self.graph;
        let mut keys = BTreeMap::new();
        let mut class_names = None;
        if kind != HeadKind::Regression {
            keys.insert("logits", (logits.clone(), units));
        }
        match kind {
            HeadKind::Regression => {
                let predictions = match self.canned.head.scale() {
                    Some((mean, deviation)) => {
                        let deviation = graph.float(deviation);
                        let mean = graph.float(mean);
                        let wide =
                            graph.binary(Binary::Multiply, &name("wide"), &logits, &deviation);
                        graph.binary(Binary::Add, &name("predictions"), &wide, &mean)
                    }
                    None => logits,
                };
                keys.insert("predictions", (predictions, units));
            }
            HeadKind::Poisson => {
                let mean = graph.unary(Unary::Exp, &name("predictions"), &logits);
                keys.insert("predictions", (mean, units));
            }
            HeadKind::LogisticRegression => {
                let mean = graph.unary(Unary::Sigmoid, &name("predictions"), &logits);
                keys.insert("predictions", (mean, units));
            }
            HeadKind::MultiLabel => {
                let means = graph.unary(Unary::Sigmoid, &name("probabilities"), &logits);
                keys.insert("probabilities", (means, units));
                let names = self.for_each_row(&Constant::Names);
                keys.insert("classes", (names.clone(), units));
                class_names = Some(names);
            }
            HeadKind::Binary | HeadKind::MultiClass => {
                let (probabilities, class) = if kind == HeadKind::Binary {
                    let logistic = graph.unary(Unary::Sigmoid, &name("logistic"), &logits);
                    let one = graph.float(1.0);
                    let other = graph.binary(Binary::Subtract, &name("other"), &one, &logistic);
                    let both = [other, logistic.clone()];
                    let both = graph.concatenate(&name("probabilities"), &both, 1);
                    let zero = graph.float(0.0);
                    let positive =
                        graph.compare(Comparison::Greater, &name("positive"), &logits, &zero);
                    keys.insert("logistic", (logistic, 1));
                    (
                        both,
                        graph.cast(&name("class_ids"), &positive, DataType::DtInt64),
                    )
                } else {
                    let softmax = graph.unary(Unary::Softmax, &name("probabilities"), &logits);
                    let class = graph.largest(&name("class"), &logits);
                    (softmax, graph.reshape(&name("class_ids"), &class, &[-1, 1]))
                };
                let classes = self.canned.head.class_names();
                let count = classes.len();
                let listed = graph.texts(&name("names"), &[count], &classes);
                let named = graph.gather(&name("classes"), &listed, &class);
                keys.insert("probabilities", (probabilities, count));
                keys.insert("class_ids", (class, 1));
                keys.insert("classes", (named, 1));
                keys.insert("all_class_ids", (self.for_each_row(&Constant::Ids), count));
                let names = self.for_each_row(&Constant::Names);
                keys.insert("all_classes", (names.clone(), count));
                class_names = Some(names);
            }
        }
        Outputs { keys, class_names }
    }

    /// Repeats what is known of all classes for each row.
    fn for_each_row(&mut self, constant: &Constant) -> Edge {
        let names = self.canned.head.class_names();
        let count = names.len();
        let scope = self.name("head/every_class");
        let batch = self.batch.clone();
        let graph = &mut *self.graph;
        let row = match constant {
            Constant::Names => graph.texts(&format!("{scope}/names"), &[1, count], &names),
            Constant::Ids => {
                let ids: Vec<i32> = (0..count as i32).collect();
                graph.short_integers(&format!("{scope}/ids"), &[1, count], &ids)
            }
        };
        let width = graph.integer(count as i64);
        let shape = graph.vector(&format!("{scope}/shape"), &[&batch, &width]);
        graph.broadcast(&scope, &row, &shape)
    }
}

/// What is known of all classes.
enum Constant {
    Names,
    Ids,
}

/// Returns the signatures of an Estimator's export.
pub(super) fn of_examples(
    canned: &Canned,
    serialized: &Edge,
    outputs: &Outputs,
) -> Vec<(String, Signature)> {
    let begin =
        |method: Method, name: &str| Signature::new(method).input(name, serialized, &[None]);
    let with = |signature: Signature, name: &str, key: &str| {
        let (edge, width) = &outputs.keys[key];
        signature.output(name, edge, &[None, Some(*width)])
    };
    let predict = outputs
        .keys
        .keys()
        .fold(begin(Method::Predict, "examples"), |known, key| {
            with(known, key, key)
        });
    let mut out = vec![("predict".to_owned(), predict)];
    if let Some(names) = &outputs.class_names {
        let count = canned.head.class_names().len();
        let classify = with(begin(Method::Classify, "inputs"), "scores", "probabilities");
        let classify = classify.output("classes", names, &[None, Some(count)]);
        out.push(("serving_default".to_owned(), classify.clone()));
        out.push(("classification".to_owned(), classify));
        if outputs.keys.contains_key("logistic") {
            let regress = with(begin(Method::Regress, "inputs"), "outputs", "logistic");
            out.push(("regression".to_owned(), regress));
        }
    } else {
        let regress = with(begin(Method::Regress, "inputs"), "outputs", "predictions");
        out.push(("serving_default".to_owned(), regress.clone()));
        out.push(("regression".to_owned(), regress));
    }
    out
}

/// Returns the signature that takes one tensor for each column.
pub(super) fn of_columns(given: &[Given], outputs: &Outputs) -> (String, Signature) {
    let begin = Signature::new(Method::Predict);
    let signature = given.iter().fold(begin, |known, given| {
        known.input(&given.name, &given.edge, &given.shape)
    });
    let signature = outputs
        .keys
        .iter()
        .fold(signature, |known, (key, (edge, width))| {
            known.output(key, edge, &[None, Some(*width)])
        });
    ("columns".to_owned(), signature)
}
