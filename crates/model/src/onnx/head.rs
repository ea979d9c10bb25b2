//! Outputs of a graph: TensorFlow's prediction keys.

use trainyard_onnx::{Attribute, Name, Port, Tensor, attribute};
use trainyard_run_config::HeadKind;

use super::Builder;
use crate::{Heads, NamedHead};

/// Keys of predictions, for all heads.
const KEYS: [&str; 8] = [
    "all_class_ids",
    "all_classes",
    "class_ids",
    "classes",
    "logistic",
    "logits",
    "predictions",
    "probabilities",
];

/// Returns the names that predictions may have, for all heads of a model.
pub(super) fn output_names(heads: &Heads) -> impl Iterator<Item = String> {
    let heads = heads.named().into_iter();
    heads.flat_map(|of| KEYS.map(|key| format!("{}{key}", of.before)))
}

impl NamedHead<'_> {
    fn name(&self, node: &str) -> String {
        format!("head/{}{node}", self.before)
    }

    fn port(&self, key: &str, tensor: Tensor, width: usize) -> Port {
        Port::matrix(format!("{}{key}", self.before), tensor, Some(width))
    }
}

impl Builder<'_> {
    /// Adds the predictions of the heads from the logits.
    pub(super) fn outputs(&mut self, logits: &Name) -> Vec<Port> {
        let heads = self.canned.heads.named();
        let mut out = Vec::new();
        let mut begin = 0;
        let has_one = heads.len() == 1;
        for of in heads {
            let columns = begin..begin + of.head.units();
            begin = columns.end;
            let own = if has_one {
                logits.clone()
            } else {
                self.gathered(&of.name("logits"), logits, columns)
            };
            self.outputs_of(&of, &own, &mut out);
        }
        out
    }

    fn outputs_of(&mut self, of: &NamedHead<'_>, logits: &Name, out: &mut Vec<Port>) {
        let kind = of.head.kind();
        let units = of.head.units();
        if kind != HeadKind::Regression {
            self.put(out, of.port("logits", Tensor::Float, units), logits);
        }
        match kind {
            HeadKind::Regression => {
                let predictions = match of.head.scale() {
                    Some((mean, deviation)) => {
                        let graph = &mut self.graph;
                        let deviation = graph.floats(&of.name("deviation"), &[1], &[deviation]);
                        let mean = graph.floats(&of.name("label_mean"), &[1], &[mean]);
                        let wide = graph.node("Mul", &of.name("wide"), &[logits, &deviation], []);
                        graph.node("Add", &of.name("scaled"), &[&wide, &mean], [])
                    }
                    None => logits.clone(),
                };
                self.put(
                    out,
                    of.port("predictions", Tensor::Float, units),
                    &predictions,
                );
            }
            HeadKind::Poisson => {
                let mean = self.graph.node("Exp", &of.name("mean"), &[logits], []);
                self.put(out, of.port("predictions", Tensor::Float, units), &mean);
            }
            HeadKind::LogisticRegression => {
                let mean = self.graph.node("Sigmoid", &of.name("mean"), &[logits], []);
                self.put(out, of.port("predictions", Tensor::Float, units), &mean);
            }
            HeadKind::MultiLabel => {
                let means = self.graph.node("Sigmoid", &of.name("means"), &[logits], []);
                self.put(out, of.port("probabilities", Tensor::Float, units), &means);
                let ids = self.every_class(of, logits);
                let names = self.names(of);
                let named = self.named(of, &names, &ids);
                self.put(out, of.port("classes", Tensor::String, units), &named);
            }
            HeadKind::Binary => {
                let graph = &mut self.graph;
                let logistic = graph.node("Sigmoid", &of.name("logistic"), &[logits], []);
                let one = graph.floats(&of.name("one"), &[1], &[1.0]);
                let other = graph.node("Sub", &of.name("other"), &[&one, &logistic], []);
                let axis = attribute("axis", Attribute::Int(1));
                let both = graph.node("Concat", &of.name("both"), &[&other, &logistic], [axis]);
                let zero = graph.floats(&of.name("zero"), &[1], &[0.0]);
                let positive = graph.node("Greater", &of.name("positive"), &[logits, &zero], []);
                let whole = attribute("to", Attribute::Int(Tensor::Int64.number().into()));
                let class = graph.node("Cast", &of.name("class"), &[&positive], [whole]);
                self.put(out, of.port("logistic", Tensor::Float, 1), &logistic);
                self.classes(of, out, logits, &both, &class);
            }
            HeadKind::MultiClass => {
                let axis = attribute("axis", Attribute::Int(1));
                let probabilities =
                    self.graph
                        .node("Softmax", &of.name("softmax"), &[logits], [axis.clone()]);
                let class = self
                    .graph
                    .node("ArgMax", &of.name("class"), &[logits], [axis]);
                self.classes(of, out, logits, &probabilities, &class);
            }
        }
    }

    fn put(&mut self, out: &mut Vec<Port>, port: Port, value: &Name) {
        self.graph.output(&port, value);
        out.push(port);
    }

    /// Adds the predictions of a head with exclusive classes: the likeliest class, and all classes.
    fn classes(
        &mut self,
        of: &NamedHead<'_>,
        out: &mut Vec<Port>,
        logits: &Name,
        probabilities: &Name,
        class: &Name,
    ) {
        let count = of.head.class_names().len();
        self.put(
            out,
            of.port("probabilities", Tensor::Float, count),
            probabilities,
        );
        self.put(out, of.port("class_ids", Tensor::Int64, 1), class);
        let names = self.names(of);
        let name = self.named(of, &names, class);
        self.put(out, of.port("classes", Tensor::String, 1), &name);
        let ids = self.every_class(of, logits);
        self.put(out, of.port("all_class_ids", Tensor::Int64, count), &ids);
        let named = self.named(of, &names, &ids);
        self.put(out, of.port("all_classes", Tensor::String, count), &named);
    }

    /// Returns the numbers of all classes, for each row.
    fn every_class(&mut self, of: &NamedHead<'_>, logits: &Name) -> Name {
        let graph = &mut self.graph;
        let count = of.head.class_names().len() as i64;
        let end = attribute("end", Attribute::Int(1));
        let rows = graph.node("Shape", &of.name("rows"), &[logits], [end]);
        let width = graph.list(&[count]);
        let axis = attribute("axis", Attribute::Int(0));
        let shape = graph.node("Concat", &of.name("shape"), &[&rows, &width], [axis]);
        let ids = graph.ints(
            &of.name("ids"),
            &[1, count as usize],
            &(0..count).collect::<Vec<_>>(),
        );
        graph.node("Expand", &of.name("every_class"), &[&ids, &shape], [])
    }

    /// Returns the names of all classes, as a constant.
    fn names(&mut self, of: &NamedHead<'_>) -> Name {
        let names = of.head.class_names();
        self.graph.texts(&of.name("names"), &[names.len()], &names)
    }

    /// Returns the names of classes, given their numbers.
    fn named(&mut self, of: &NamedHead<'_>, names: &Name, classes: &Name) -> Name {
        self.graph
            .node("Gather", &of.name("named"), &[names, classes], [])
    }
}
