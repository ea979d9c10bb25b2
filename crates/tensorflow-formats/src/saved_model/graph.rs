//! Builder of graphs: nodes with unique names, and the messages around them.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;

use super::variables::Variable;
use super::{Attribute, SERVE, Signature, TENSORFLOW_VERSION};
use crate::generated::collection_def::{BytesList, Kind, NodeList};
use crate::generated::meta_graph_def::MetaInfoDef;
use crate::generated::{
    CollectionDef, DataType, GraphDef, MetaGraphDef, NodeDef, SavedModel, TensorProto, VersionDef,
};

/// Version of the operations, and the oldest version whose programs read the graph (`TF_GRAPH_DEF_VERSION` and
/// `TF_GRAPH_DEF_VERSION_MIN_CONSUMER` of TensorFlow 2.15).
const PRODUCER: i32 = 1645;
const MIN_CONSUMER: i32 = 12;
/// Version of the format of `saved_model.pb` (`SAVED_MODEL_SCHEMA_VERSION`).
const SCHEMA_VERSION: i64 = 1;
/// Collection with the node that initialises lookup tables (`MAIN_OP_KEY`).
const MAIN_OP: &str = "saved_model_main_op";

/// An output of a node, with its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    node: String,
    output: usize,
    dtype: DataType,
}

impl Edge {
    /// Returns the type of the elements.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Returns the name of the tensor, such as `node:0`.
    pub fn tensor(&self) -> String {
        format!("{}:{}", self.node, self.output)
    }

    /// Returns the name as the input of a node.
    fn input(&self) -> String {
        match self.output {
            0 => self.node.clone(),
            output => format!("{}:{output}", self.node),
        }
    }
}

/// A node that is to be added.
#[derive(Debug)]
pub struct Node<'a> {
    /// Operation.
    pub operation: &'a str,
    /// Wanted name. A name that is taken gets a number appended.
    pub name: &'a str,
    /// Inputs.
    pub inputs: &'a [&'a Edge],
    /// Nodes that run before.
    pub after: &'a [String],
    /// Attributes, all of them.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Types of the outputs.
    pub outputs: &'a [DataType],
}

/// A graph under construction.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<NodeDef>,
    taken: BTreeSet<String>,
    pub(super) variables: Vec<Variable>,
    /// Nodes that fill lookup tables.
    pub(super) initializers: Vec<String>,
    /// Small constants, which repeat.
    pub(super) shared: BTreeMap<Vec<u8>, Edge>,
}

/// A finished graph.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedGraph {
    message: SavedModel,
    variables: Vec<Variable>,
}

impl SavedGraph {
    /// Returns the content of `saved_model.pb`.
    pub fn encode(&self) -> Vec<u8> {
        self.message.encode_to_vec()
    }

    /// Returns the length of the content, in bytes. Protocol buffers hold less than 2 GiB.
    pub fn encoded_len(&self) -> usize {
        self.message.encoded_len()
    }

    /// Returns the variables, whose values the tensor bundle must hold.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns the message.
    pub fn message(&self) -> &SavedModel {
        &self.message
    }
}

impl Graph {
    /// Adds a node, and returns its outputs.
    pub fn node(&mut self, node: Node<'_>) -> Vec<Edge> {
        let name = self.unique(node.name);
        let inputs = node.inputs.iter().map(|input| input.input());
        let after = node.after.iter().map(|node| format!("^{node}"));
        let attributes = node.attributes.into_iter();
        self.nodes.push(NodeDef {
            name: name.clone(),
            op: node.operation.to_owned(),
            input: inputs.chain(after).collect(),
            device: String::new(),
            attr: attributes
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
        });
        let outputs = node.outputs.iter().enumerate();
        outputs
            .map(|(output, dtype)| Edge {
                node: name.clone(),
                output,
                dtype: *dtype,
            })
            .collect()
    }

    /// Adds a node with one output.
    pub(super) fn one(
        &mut self,
        operation: &str,
        name: &str,
        inputs: &[&Edge],
        typed: (Vec<(&'static str, Attribute)>, DataType),
    ) -> Edge {
        let (attributes, output) = typed;
        let mut outputs = self.node(Node {
            operation,
            name,
            inputs,
            after: &[],
            attributes,
            outputs: &[output],
        });
        outputs.remove(0)
    }

    /// Adds a node without outputs, and returns its name.
    pub(super) fn action(
        &mut self,
        operation: &str,
        name: &str,
        inputs: &[&Edge],
        attributes: Vec<(&'static str, Attribute)>,
    ) -> String {
        self.node(Node {
            operation,
            name,
            inputs,
            after: &[],
            attributes,
            outputs: &[],
        });
        self.last().to_owned()
    }

    /// Adds a node that does nothing but run after others, and returns its name.
    pub(super) fn group(&mut self, name: &str, after: &[String]) -> String {
        self.node(Node {
            operation: "NoOp",
            name,
            inputs: &[],
            after,
            attributes: Vec::new(),
            outputs: &[],
        });
        self.last().to_owned()
    }

    fn last(&self) -> &str {
        self.nodes.last().map_or("", |node| node.name.as_str())
    }

    /// Returns the name, or the first free one of `<name>_1`, `<name>_2`..., and takes it. Characters that names of
    /// nodes cannot have become underscores.
    fn unique(&mut self, wanted: &str) -> String {
        let allowed = |(place, letter): (usize, char)| match letter {
            '.' | 'a'..='z' | 'A'..='Z' | '0'..='9' => letter,
            '_' | '-' | '/' if place > 0 => letter,
            _ if place > 0 => '_',
            _ => '.',
        };
        let wanted: String = wanted.chars().enumerate().map(allowed).collect();
        let numbered = (1_u64..).map(|number| format!("{wanted}_{number}"));
        let mut names = std::iter::once(wanted.clone()).chain(numbered);
        let free = names
            .find(|name| !self.taken.contains(name))
            .expect("numbers do not end");
        self.taken.insert(free.clone());
        free
    }

    /// Adds a constant.
    pub(super) fn constant(&mut self, name: &str, dtype: DataType, tensor: TensorProto) -> Edge {
        let attributes = vec![
            ("dtype", Attribute::Type(dtype)),
            ("value", Attribute::Tensor(Box::new(tensor))),
        ];
        self.one("Const", name, &[], (attributes, dtype))
    }

    /// Finishes the graph: adds the nodes that save and restore variables and the one that fills lookup tables, and
    /// returns the messages.
    pub fn finish(
        mut self,
        signatures: impl IntoIterator<Item = (String, Signature)>,
    ) -> SavedGraph {
        let saver = self.saver();
        let initializers = std::mem::take(&mut self.initializers);
        let main_op = self.group("init_all_tables", &initializers);
        let nodes = |value: Vec<String>| CollectionDef {
            kind: Some(Kind::NodeList(NodeList { value })),
        };
        let bytes = |value: Vec<Vec<u8>>| CollectionDef {
            kind: Some(Kind::BytesList(BytesList { value })),
        };
        let described = self.variables.iter().map(Variable::encode).collect();
        let collections = [
            (MAIN_OP.to_owned(), nodes(vec![main_op])),
            ("table_initializer".to_owned(), nodes(initializers)),
            ("variables".to_owned(), bytes(described)),
        ];
        let used = collections.into_iter().filter(|(_, collection)| {
            !matches!(&collection.kind, Some(Kind::NodeList(list)) if list.value.is_empty())
        });
        let graph = MetaGraphDef {
            meta_info_def: Some(MetaInfoDef {
                tags: vec![SERVE.to_owned()],
                tensorflow_version: TENSORFLOW_VERSION.to_owned(),
                ..MetaInfoDef::default()
            }),
            graph_def: Some(GraphDef {
                node: self.nodes,
                versions: Some(VersionDef {
                    producer: PRODUCER,
                    min_consumer: MIN_CONSUMER,
                    ..VersionDef::default()
                }),
            }),
            saver_def: Some(saver),
            collection_def: used.collect(),
            signature_def: signatures
                .into_iter()
                .map(|(name, signature)| (name, signature.into_proto()))
                .collect(),
        };
        SavedGraph {
            message: SavedModel {
                saved_model_schema_version: SCHEMA_VERSION,
                meta_graphs: vec![graph],
            },
            variables: self.variables,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_are_unique_and_have_allowed_characters() {
        let mut graph = Graph::default();
        let names = ["a b", "a_b", "_x", "hours-per-week", "ä/x:0"].map(|name| {
            graph
                .placeholder(name, DataType::DtFloat, &[])
                .node()
                .to_owned()
        });
        assert_eq!(names, ["a_b", "a_b_1", ".x", "hours-per-week", "./x_0"]);
    }

    #[test]
    fn equal_graphs_have_equal_bytes() {
        let made = || {
            let mut graph = Graph::default();
            let x = graph.placeholder("x", DataType::DtFloat, &[None]);
            let table = graph.variable("table", DataType::DtFloat, &[3, 2]);
            let read = graph.read_variable(&table);
            let signature = Signature::new(super::super::Method::Predict)
                .input("x", &x, &[None])
                .output("y", &read, &[Some(3), Some(2)])
                .output("z", &x, &[None]);
            graph.finish([("predict".to_owned(), signature)]).encode()
        };
        assert_eq!(made(), made());
    }
}
