//! Builder of graphs: inputs, constants and nodes, each with a unique name.

use std::collections::{BTreeMap, BTreeSet};

use crate::generated::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto,
};
use crate::{Error, File, IR_VERSION, ML_DOMAIN, ML_OPSET, OPSET, Port, Tensor};

/// An operator of ONNX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operator<'a> {
    /// Domain of the operator; empty = `ai.onnx`.
    pub domain: &'a str,
    /// Name in the domain.
    pub name: &'a str,
}

impl<'a> Operator<'a> {
    fn standard(name: &'a str) -> Self {
        Self { domain: "", name }
    }
}

/// Name of a value in a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A graph under construction. A name that is taken gets a number appended.
#[derive(Debug, Default)]
pub struct Graph {
    name: String,
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
    taken: BTreeSet<String>,
    /// Integer lists that are constants already, because axes and shapes repeat.
    lists: BTreeMap<Vec<i64>, Name>,
}

impl Graph {
    /// Returns an empty graph.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Reserves a name for a later output.
    pub fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Returns the name, or the first free one of `<name>_2`, `<name>_3`..., and takes it.
    fn unique(&mut self, wanted: &str) -> String {
        let numbered = (2_u64..).map(|number| format!("{wanted}_{number}"));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        let free = names
            .find(|name| !self.taken.contains(name))
            .expect("numbers do not end");
        self.taken.insert(free.clone());
        free
    }

    /// Adds an input.
    pub fn input(&mut self, port: &Port) -> Name {
        let name = self.unique(&port.name);
        self.inputs.push(
            Port {
                name: name.clone(),
                ..port.clone()
            }
            .value_info(),
        );
        Name(name)
    }

    /// Adds a constant of floats, row-major.
    pub fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Name {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.constant(name, Tensor::Float, shape, numbers(bytes))
    }

    /// Adds a constant of doubles, row-major.
    pub fn doubles(&mut self, name: &str, shape: &[usize], values: &[f64]) -> Name {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.constant(name, Tensor::Double, shape, numbers(bytes))
    }

    /// Adds a constant of integers, row-major.
    pub fn ints(&mut self, name: &str, shape: &[usize], values: &[i64]) -> Name {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.constant(name, Tensor::Int64, shape, numbers(bytes))
    }

    /// Adds a constant of texts, row-major.
    pub fn texts(
        &mut self,
        name: &str,
        shape: &[usize],
        values: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Name {
        let texts = values
            .into_iter()
            .map(|value| value.as_ref().as_bytes().to_vec())
            .collect();
        let values = TensorProto {
            string_data: texts,
            ..TensorProto::default()
        };
        self.constant(name, Tensor::String, shape, values)
    }

    /// Returns a constant with a list of integers, for axes and shapes. Equal lists share a constant.
    pub fn list(&mut self, values: &[i64]) -> Name {
        if let Some(have) = self.lists.get(values) {
            return have.clone();
        }
        let texts: Vec<String> = values.iter().map(i64::to_string).collect();
        let name = self.ints(
            &format!("constant/{}", texts.join("_")),
            &[values.len()],
            values,
        );
        self.lists.insert(values.to_vec(), name.clone());
        name
    }

    /// Adds a constant. `values` holds its elements.
    fn constant(
        &mut self,
        name: &str,
        tensor: Tensor,
        shape: &[usize],
        values: TensorProto,
    ) -> Name {
        let name = self.unique(name);
        self.initializers.push(TensorProto {
            dims: shape.iter().map(|size| *size as i64).collect(),
            data_type: tensor.number(),
            name: name.clone(),
            ..values
        });
        Name(name)
    }

    /// Adds a node of `ai.onnx` with one output, and returns the output.
    pub fn node(
        &mut self,
        operator: &str,
        name: &str,
        inputs: &[&Name],
        attributes: impl IntoIterator<Item = AttributeProto>,
    ) -> Name {
        self.node_of(Operator::standard(operator), name, inputs, attributes)
    }

    /// Adds a node of any domain with one output, and returns the output.
    pub fn node_of(
        &mut self,
        operator: Operator<'_>,
        name: &str,
        inputs: &[&Name],
        attributes: impl IntoIterator<Item = AttributeProto>,
    ) -> Name {
        let name = self.unique(name);
        self.push(operator, &name, inputs, attributes.into_iter().collect());
        Name(name)
    }

    fn push(
        &mut self,
        operator: Operator<'_>,
        name: &str,
        inputs: &[&Name],
        attribute: Vec<AttributeProto>,
    ) {
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|input| input.0.clone()).collect(),
            output: vec![name.to_owned()],
            name: name.to_owned(),
            op_type: operator.name.to_owned(),
            attribute,
            domain: operator.domain.to_owned(),
        });
    }

    /// Makes a value an output. Its name must be reserved or free.
    pub fn output(&mut self, port: &Port, value: &Name) {
        let identity = Operator::standard("Identity");
        self.push(identity, &port.name, &[value], Vec::new());
        self.taken.insert(port.name.clone());
        self.outputs.push(port.value_info());
    }

    /// Finishes the graph, and returns its file.
    ///
    /// # Errors
    /// The model is too large for a file, even with its tables in a second file.
    pub fn finish(self) -> Result<File, Error> {
        let operators = |domain: &str, version: i64| OperatorSetIdProto {
            domain: domain.to_owned(),
            version,
        };
        let model = ModelProto {
            ir_version: IR_VERSION,
            producer_name: "trainyard".to_owned(),
            producer_version: env!("CARGO_PKG_VERSION").to_owned(),
            graph: Some(GraphProto {
                node: self.nodes,
                name: self.name,
                initializer: self.initializers,
                input: self.inputs,
                output: self.outputs,
            }),
            opset_import: vec![operators("", OPSET), operators(ML_DOMAIN, ML_OPSET)],
            metadata_props: Vec::new(),
        };
        File::of(model, File::BYTES_MAX)
    }
}

/// Returns elements that are numbers, little-endian.
fn numbers(raw_data: Vec<u8>) -> TensorProto {
    TensorProto {
        raw_data,
        ..TensorProto::default()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let mut graph = Graph::new("g");
        graph.reserve("logits");
        let input = graph.input(&Port::matrix("logits", Tensor::Float, Some(1)));
        let again = graph.floats("logits", &[1], &[0.0]);
        assert_eq!((input.as_str(), again.as_str()), ("logits_2", "logits_3"));
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut graph = Graph::new("g");
        let input = graph.input(&Port::matrix("x", Tensor::Int64, None));
        let axes = graph.list(&[1]);
        assert_eq!(graph.list(&[1]), axes);
        let sum = graph.node("ReduceSum", "sum", &[&input, &axes], []);
        graph.output(&Port::matrix("y", Tensor::Int64, Some(1)), &sum);
        let model = ModelProto::decode(graph.finish().unwrap().bytes.as_slice()).unwrap();
        let graph = model.graph.unwrap();
        assert_eq!(
            (model.ir_version, graph.node.len(), graph.initializer.len()),
            (IR_VERSION, 2, 1)
        );
        assert_eq!(graph.initializer[0].raw_data, 1_i64.to_le_bytes());
        assert_eq!(graph.output[0].name, "y");
    }
}
