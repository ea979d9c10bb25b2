//! Premade estimators as SavedModels: from serialized `tf.train.Example`s, or from columns, to TensorFlow's
//! predictions.
//!
//! The graph computes the same as [`crate::Model::predict`], including the feature columns, with TensorFlow's own
//! operations alone. It has the signatures of an Estimator's export (`tf.estimator.Estimator.export_saved_model`), and
//! the signature `columns`. Both kinds of input have nodes of their own, and share variables and lookup tables.

mod columns;
mod composition;
mod head;
mod ids;
mod inputs;
mod layers;
mod lookup;
mod parts;
mod periodic;
mod quantile;

use std::collections::BTreeMap;

use serde_json::json;
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{
    Edge, Graph, LookupTable, SERVE, SavedGraph, Variable,
};

use crate::{Canned, Error};
use ids::Bag;
use inputs::{Columns, Fields};

/// Largest `saved_model.pb`, in bytes: protocol buffers have signed 32-bit lengths.
const FILE_BYTES_MAX: usize = i32::MAX as usize;

/// Source of the values of a variable of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredValues {
    /// The global step, a 64-bit integer.
    GlobalStep,
    /// The values of the model's variable with this index. After the rows of a dynamic table follows the row that ids
    /// without a row read: the shared row, or one of the expected initial values.
    Variable(usize),
    /// The ids of the dynamic table with this index, as integers with the same bits, in the order of its rows.
    Ids(usize),
}

/// A model as a SavedModel, without the values of its variables.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedModel {
    /// The graph.
    pub graph: SavedGraph,
    /// Source of the values of each variable of the graph, in their order.
    pub values: Vec<StoredValues>,
    description: serde_json::Value,
}

impl SavedModel {
    /// Returns tags, signatures and columns, for the description of an export.
    pub fn describe(&self) -> &serde_json::Value {
        &self.description
    }
}

/// What both kinds of input share: variables and lookup tables.
struct Shared {
    variables: Vec<Variable>,
    /// Ids of dynamic tables, by variable.
    ids: BTreeMap<usize, LookupTable>,
    /// Vocabularies, by categorical feature.
    vocabularies: BTreeMap<usize, LookupTable>,
}

/// A graph under construction, for one kind of input.
struct Builder<'a> {
    canned: &'a Canned,
    graph: &'a mut Graph,
    shared: &'a mut Shared,
    /// First part of the names of the nodes.
    scope: &'static str,
    fields: Fields,
    /// Number of records.
    batch: Edge,
    /// Normalised numbers by numeric feature, `[batch, width]`.
    numbers: BTreeMap<usize, Edge>,
    /// Ids by categorical feature, with values that have none.
    bags: BTreeMap<usize, Bag>,
}

impl Builder<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.scope)
    }
}

impl Canned {
    /// Returns the model as a SavedModel. `rows` returns the number of rows of a dynamic table, by name.
    ///
    /// # Errors
    /// A column has no single form in a `tf.train.Example`, or the graph is too large.
    pub fn saved_model(&self, rows: &dyn Fn(&str) -> usize) -> Result<SavedModel, Error> {
        let columns = Columns::new(self)?;
        let mut graph = Graph::default();
        let mut values = vec![StoredValues::GlobalStep];
        graph.variable("global_step", DataType::DtInt64, &[]);
        let mut variables = Vec::new();
        for (place, spec) in self.variables.iter().enumerate() {
            let mut shape = spec.shape.clone();
            if let (Some(first), Some(_)) = (shape.first_mut(), spec.dynamic()) {
                *first = rows(&spec.name) + 1;
            }
            variables.push(graph.variable(&spec.name, DataType::DtFloat, &shape));
            values.push(StoredValues::Variable(place));
        }
        let mut ids = BTreeMap::new();
        for (place, spec) in self.variables.iter().enumerate() {
            if spec.dynamic().is_some() {
                let name = format!("{}/ids", spec.name);
                let keys = graph.variable(&name, DataType::DtInt64, &[rows(&spec.name)]);
                ids.insert(
                    place,
                    graph.lookup_table_of(&format!("{name}/table"), &keys),
                );
                values.push(StoredValues::Ids(place));
            }
        }
        let mut shared = Shared {
            variables,
            ids,
            vocabularies: BTreeMap::new(),
        };
        let mut signatures = Vec::new();
        let examples = columns.of_examples(&mut graph);
        let serialized = examples.serialized.clone();
        let mut builder = Builder::new(self, &mut graph, &mut shared, "examples", examples.fields);
        let outputs = builder.outputs();
        signatures.extend(head::of_examples(self, &serialized, &outputs));
        if !columns.list.is_empty() {
            let (given, fields) = columns.of_columns(&mut graph);
            let mut builder = Builder::new(self, &mut graph, &mut shared, "columns", fields);
            let outputs = builder.outputs();
            signatures.push(head::of_columns(&given, &outputs));
        }
        let described = signatures
            .iter()
            .map(|(name, signature)| (name.clone(), json!(signature.method().name())));
        let described: serde_json::Map<_, _> = described.collect();
        let description = json!({
            "tags": [SERVE], "signatures": described, "columns": columns.describe(),
        });
        let graph = graph.finish(signatures);
        let needed = graph.encoded_len();
        if needed > FILE_BYTES_MAX {
            return Err(Error::NotInSavedModel {
                column: "feature".to_owned(),
                message: format!(
                    "vocabularies need a graph of {needed} bytes, at most {FILE_BYTES_MAX} are read"
                ),
            });
        }
        Ok(SavedModel {
            graph,
            values,
            description,
        })
    }
}

impl<'a> Builder<'a> {
    fn new(
        canned: &'a Canned,
        graph: &'a mut Graph,
        shared: &'a mut Shared,
        scope: &'static str,
        fields: Fields,
    ) -> Self {
        let shape = graph.shape_of(&format!("{scope}/shape"), &fields.first);
        let zero = graph.integer(0);
        let batch = graph.gather(&format!("{scope}/batch"), &shape, &zero);
        Self {
            canned,
            graph,
            shared,
            scope,
            fields,
            batch,
            numbers: BTreeMap::new(),
            bags: BTreeMap::new(),
        }
    }
}
