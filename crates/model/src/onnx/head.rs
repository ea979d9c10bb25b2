//! Outputs of a graph: TensorFlow's prediction keys.

use trainyard_onnx::{Attribute, Name, Port, Tensor, attribute};
use trainyard_run_config::HeadKind;

use super::Builder;

/// Keys of predictions, for all heads.
pub(super) const OUTPUTS: [&str; 8] = [
    "all_class_ids",
    "all_classes",
    "class_ids",
    "classes",
    "logistic",
    "logits",
    "predictions",
    "probabilities",
];

impl Builder<'_> {
    /// Adds the head's predictions from logits.
    pub(super) fn outputs(&mut self, logits: &Name) -> Vec<Port> {
        let kind = self.canned.head.kind();
        let units = self.canned.head.units();
        let mut out = Vec::new();
        if kind != HeadKind::Regression {
            self.put(
                &mut out,
                Port::matrix("logits", Tensor::Float, Some(units)),
                logits,
            );
        }
        match kind {
            HeadKind::Regression => {
                let predictions = match self.canned.head.scale() {
                    Some((mean, deviation)) => {
                        let graph = &mut self.graph;
                        let deviation = graph.floats("head/deviation", &[1], &[deviation]);
                        let mean = graph.floats("head/label_mean", &[1], &[mean]);
                        let wide = graph.node("Mul", "head/wide", &[logits, &deviation], []);
                        graph.node("Add", "head/scaled", &[&wide, &mean], [])
                    }
                    None => logits.clone(),
                };
                self.put(
                    &mut out,
                    Port::matrix("predictions", Tensor::Float, Some(units)),
                    &predictions,
                );
            }
            HeadKind::Poisson => {
                let mean = self.graph.node("Exp", "head/mean", &[logits], []);
                self.put(
                    &mut out,
                    Port::matrix("predictions", Tensor::Float, Some(units)),
                    &mean,
                );
            }
            HeadKind::LogisticRegression => {
                let mean = self.graph.node("Sigmoid", "head/mean", &[logits], []);
                self.put(
                    &mut out,
                    Port::matrix("predictions", Tensor::Float, Some(units)),
                    &mean,
                );
            }
            HeadKind::MultiLabel => {
                let means = self.graph.node("Sigmoid", "head/means", &[logits], []);
                self.put(
                    &mut out,
                    Port::matrix("probabilities", Tensor::Float, Some(units)),
                    &means,
                );
                let ids = self.every_class(logits);
                let names = self.names();
                let named = self.named(&names, &ids);
                self.put(
                    &mut out,
                    Port::matrix("classes", Tensor::String, Some(units)),
                    &named,
                );
            }
            HeadKind::Binary => {
                let graph = &mut self.graph;
                let logistic = graph.node("Sigmoid", "head/logistic", &[logits], []);
                let one = graph.floats("head/one", &[1], &[1.0]);
                let other = graph.node("Sub", "head/other", &[&one, &logistic], []);
                let axis = attribute("axis", Attribute::Int(1));
                let both = graph.node("Concat", "head/both", &[&other, &logistic], [axis]);
                let zero = graph.floats("head/zero", &[1], &[0.0]);
                let positive = graph.node("Greater", "head/positive", &[logits, &zero], []);
                let whole = attribute("to", Attribute::Int(Tensor::Int64.number().into()));
                let class = graph.node("Cast", "head/class", &[&positive], [whole]);
                self.put(
                    &mut out,
                    Port::matrix("logistic", Tensor::Float, Some(1)),
                    &logistic,
                );
                self.classes(&mut out, logits, &both, &class);
            }
            HeadKind::MultiClass => {
                let axis = attribute("axis", Attribute::Int(1));
                let probabilities =
                    self.graph
                        .node("Softmax", "head/softmax", &[logits], [axis.clone()]);
                let class = self.graph.node("ArgMax", "head/class", &[logits], [axis]);
                self.classes(&mut out, logits, &probabilities, &class);
            }
        }
        out
    }

    fn put(&mut self, out: &mut Vec<Port>, port: Port, value: &Name) {
        self.graph.output(&port, value);
        out.push(port);
    }

    /// Adds the predictions of a head with exclusive classes: the likeliest class, and all classes.
    fn classes(&mut self, out: &mut Vec<Port>, logits: &Name, probabilities: &Name, class: &Name) {
        let count = self.canned.head.class_names().len();
        self.put(
            out,
            Port::matrix("probabilities", Tensor::Float, Some(count)),
            probabilities,
        );
        self.put(
            out,
            Port::matrix("class_ids", Tensor::Int64, Some(1)),
            class,
        );
        let names = self.names();
        let name = self.named(&names, class);
        self.put(out, Port::matrix("classes", Tensor::String, Some(1)), &name);
        let ids = self.every_class(logits);
        self.put(
            out,
            Port::matrix("all_class_ids", Tensor::Int64, Some(count)),
            &ids,
        );
        let named = self.named(&names, &ids);
        self.put(
            out,
            Port::matrix("all_classes", Tensor::String, Some(count)),
            &named,
        );
    }

    /// Returns the numbers of all classes, for each row.
    fn every_class(&mut self, logits: &Name) -> Name {
        let graph = &mut self.graph;
        let count = self.canned.head.class_names().len() as i64;
        let end = attribute("end", Attribute::Int(1));
        let rows = graph.node("Shape", "head/rows", &[logits], [end]);
        let width = graph.list(&[count]);
        let axis = attribute("axis", Attribute::Int(0));
        let shape = graph.node("Concat", "head/shape", &[&rows, &width], [axis]);
        let ids = graph.ints(
            "head/ids",
            &[1, count as usize],
            &(0..count).collect::<Vec<_>>(),
        );
        graph.node("Expand", "head/every_class", &[&ids, &shape], [])
    }

    /// Returns the names of all classes, as a constant.
    fn names(&mut self) -> Name {
        let names = self.canned.head.class_names();
        self.graph.texts("head/names", &[names.len()], &names)
    }

    /// Returns the names of classes, given their numbers.
    fn named(&mut self, names: &Name, classes: &Name) -> Name {
        self.graph
            .node("Gather", "head/named", &[names, classes], [])
    }
}
