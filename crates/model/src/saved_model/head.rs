//! Outputs of a SavedModel: TensorFlow's prediction keys, and the signatures of an Estimator's export.

use std::collections::BTreeMap;

use trainyard_run_config::HeadKind;
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{
    Binary, Comparison, Edge, Method, Signature, Unary,
};

use super::Builder;
use super::inputs::Given;
use crate::{Canned, NamedHead};

/// Predictions by key, with the number of values of a row.
#[derive(Default)]
pub(super) struct Outputs {
    keys: BTreeMap<String, (Edge, usize)>,
    /// Names of all classes, for each row, of the last head.
    class_names: Option<Edge>,
}

impl Outputs {
    fn insert(&mut self, of: &NamedHead<'_>, key: &str, edge: Edge, width: usize) {
        self.keys
            .insert(format!("{}{key}", of.before), (edge, width));
    }
}

impl Builder<'_> {
    /// Adds the predictions of the heads.
    pub(super) fn outputs(&mut self) -> Outputs {
        let logits = self.logits();
        let heads = self.canned.heads.named();
        let has_one = heads.len() == 1;
        let mut out = Outputs::default();
        let mut begin = 0;
        for of in heads {
            let columns = begin..begin + of.head.units();
            begin = columns.end;
            let own = if has_one {
                logits.clone()
            } else {
                let name = self.name(&format!("head/{}logits", of.before));
                self.gathered(&name, &logits, columns)
            };
            self.outputs_of(&of, own, &mut out);
        }
        out
    }

    fn outputs_of(&mut self, of: &NamedHead<'_>, logits: Edge, out: &mut Outputs) {
        let kind = of.head.kind();
        let units = of.head.units();
        let scope = self.name(&format!("head/{}", of.before));
        let name = |node: &str| format!("{scope}{node}");
        let graph = &mut *self.graph;
        if kind != HeadKind::Regression {
            out.insert(of, "logits", logits.clone(), units);
        }
        match kind {
            HeadKind::Regression => {
                let predictions = match of.head.scale() {
                    Some((mean, deviation)) => {
                        let deviation = graph.float(deviation);
                        let mean = graph.float(mean);
                        let wide =
                            graph.binary(Binary::Multiply, &name("wide"), &logits, &deviation);
                        graph.binary(Binary::Add, &name("predictions"), &wide, &mean)
                    }
                    None => logits,
                };
                out.insert(of, "predictions", predictions, units);
            }
            HeadKind::Poisson => {
                let mean = graph.unary(Unary::Exp, &name("predictions"), &logits);
                out.insert(of, "predictions", mean, units);
            }
            HeadKind::LogisticRegression => {
                let mean = graph.unary(Unary::Sigmoid, &name("predictions"), &logits);
                out.insert(of, "predictions", mean, units);
            }
            HeadKind::MultiLabel => {
                let means = graph.unary(Unary::Sigmoid, &name("probabilities"), &logits);
                out.insert(of, "probabilities", means, units);
                let names = self.for_each_row(of, &Constant::Names);
                out.insert(of, "classes", names.clone(), units);
                out.class_names = Some(names);
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
                    out.insert(of, "logistic", logistic, 1);
                    (
                        both,
                        graph.cast(&name("class_ids"), &positive, DataType::DtInt64),
                    )
                } else {
                    let softmax = graph.unary(Unary::Softmax, &name("probabilities"), &logits);
                    let class = graph.largest(&name("class"), &logits);
                    (softmax, graph.reshape(&name("class_ids"), &class, &[-1, 1]))
                };
                let classes = of.head.class_names();
                let count = classes.len();
                let listed = graph.texts(&name("names"), &[count], &classes);
                let named = graph.gather(&name("classes"), &listed, &class);
                out.insert(of, "probabilities", probabilities, count);
                out.insert(of, "class_ids", class, 1);
                out.insert(of, "classes", named, 1);
                out.insert(
                    of,
                    "all_class_ids",
                    self.for_each_row(of, &Constant::Ids),
                    count,
                );
                let names = self.for_each_row(of, &Constant::Names);
                out.insert(of, "all_classes", names.clone(), count);
                out.class_names = Some(names);
            }
        }
    }

    /// Repeats what is known of all classes for each row.
    fn for_each_row(&mut self, of: &NamedHead<'_>, constant: &Constant) -> Edge {
        let names = of.head.class_names();
        let count = names.len();
        let scope = self.name(&format!("head/{}every_class", of.before));
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
    let mut out = vec![("predict".to_owned(), predict.clone())];
    if !canned.heads.is_one() {
        // Classifications and regressions have one result.
        out.push(("serving_default".to_owned(), predict));
    } else if let Some(names) = &outputs.class_names {
        let (_, count) = &outputs.keys["probabilities"];
        let classify = with(begin(Method::Classify, "inputs"), "scores", "probabilities");
        let classify = classify.output("classes", names, &[None, Some(*count)]);
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
