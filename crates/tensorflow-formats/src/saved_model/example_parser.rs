//! The parser of serialized `tf.train.Example` messages in a graph (`tf.io.parse_example`).

use super::{Attribute, Edge, Graph, Node};
use crate::generated::DataType;

/// A sparse tensor of rank 2 (`tf.SparseTensor`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparse {
    /// Row and column of each value, `[n, 2]`, ascending.
    pub indices: Edge,
    /// Values, `[n]`.
    pub values: Edge,
    /// Rows and columns, `[2]`.
    pub shape: Edge,
}

/// Features that are to be parsed.
#[derive(Debug, Default)]
pub struct ExampleParser {
    sparse: Vec<(String, DataType)>,
    dense: Vec<Dense>,
}

/// A feature with the same number of values in every example.
#[derive(Debug)]
struct Dense {
    name: String,
    width: usize,
    /// Values of a feature that is absent; without elements if the feature must not be absent.
    default: Edge,
}

/// Parsed features, in the order in which they were added.
#[derive(Debug)]
pub struct ParsedExamples {
    /// Features with any number of values.
    pub sparse: Vec<Sparse>,
    /// Features with a fixed number of values, `[batch, width]`.
    pub dense: Vec<Edge>,
}

impl ExampleParser {
    /// Adds a feature with any number of values (`tf.io.VarLenFeature`). Returns its place in
    /// [`ParsedExamples::sparse`].
    pub fn sparse(&mut self, name: &str, dtype: DataType) -> usize {
        self.sparse.push((name.to_owned(), dtype));
        self.sparse.len() - 1
    }

    /// Adds a feature with `width` values (`tf.io.FixedLenFeature`), which are `default` if the feature is absent. A
    /// default without elements makes an absent feature an error. Returns its place in [`ParsedExamples::dense`].
    pub fn dense(&mut self, name: &str, width: usize, default: Edge) -> usize {
        self.dense.push(Dense {
            name: name.to_owned(),
            width,
            default,
        });
        self.dense.len() - 1
    }

    /// Adds the parser to a graph.
    pub fn parse(self, graph: &mut Graph, name: &str, serialized: &Edge) -> ParsedExamples {
        if self.sparse.is_empty() && self.dense.is_empty() {
            return ParsedExamples {
                sparse: Vec::new(),
                dense: Vec::new(),
            };
        }
        let mut names = |what: &str, names: Vec<String>| {
            graph.texts(&format!("{name}/{what}"), &[names.len()], &names)
        };
        let none = names("names", Vec::new());
        let sparse_keys = self.sparse.iter().map(|(key, _)| key.clone());
        let sparse_keys = names("sparse_keys", sparse_keys.collect());
        let dense_keys = self.dense.iter().map(|dense| dense.name.clone());
        let dense_keys = names("dense_keys", dense_keys.collect());
        let ragged_keys = names("ragged_keys", Vec::new());
        let mut inputs = vec![serialized, &none, &sparse_keys, &dense_keys, &ragged_keys];
        inputs.extend(self.dense.iter().map(|dense| &dense.default));
        let sparse_types: Vec<DataType> = self.sparse.iter().map(|(_, dtype)| *dtype).collect();
        let dense_types: Vec<DataType> = self
            .dense
            .iter()
            .map(|dense| dense.default.dtype())
            .collect();
        let count = sparse_types.len();
        let integers = vec![DataType::DtInt64; count];
        let outputs = [integers.as_slice(), &sparse_types, &integers, &dense_types].concat();
        let shapes = self.dense.iter().map(|dense| vec![Some(dense.width)]);
        let attributes = vec![
            ("Tdense", Attribute::Types(dense_types.clone())),
            ("dense_shapes", Attribute::Shapes(shapes.collect())),
            ("num_sparse", Attribute::Int(count as i64)),
            ("ragged_split_types", Attribute::Types(Vec::new())),
            ("ragged_value_types", Attribute::Types(Vec::new())),
            ("sparse_types", Attribute::Types(sparse_types)),
        ];
        let mut parsed = graph.node(Node {
            operation: "ParseExampleV2",
            name: &format!("{name}/ParseExampleV2"),
            inputs: &inputs,
            after: &[],
            attributes,
            outputs: &outputs,
        });
        let dense = parsed.split_off(3 * count);
        let shapes = parsed.split_off(2 * count);
        let values = parsed.split_off(count);
        let parts = parsed.into_iter().zip(values).zip(shapes);
        ParsedExamples {
            sparse: parts
                .map(|((indices, values), shape)| Sparse {
                    indices,
                    values,
                    shape,
                })
                .collect(),
            dense,
        }
    }
}
