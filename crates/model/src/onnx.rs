//! Premade estimators as ONNX graphs: from the columns of a record to TensorFlow's predictions.
//!
//! The graph computes the same as [`crate::Model::predict`], including the feature columns. ONNX has no operation for
//! the hash (FarmHash) of hashed and crossed features and of the buckets of unlisted values. Such features become
//! inputs that take ids.

mod columns;
mod composition;
mod head;
mod inputs;
mod layers;
mod lookup;
mod parts;
mod periodic;
mod quantile;
mod rows;

use std::collections::BTreeMap;

use serde_json::json;
use trainyard_input::Batch;
use trainyard_onnx::{File, Graph, IR_VERSION, ML_DOMAIN, ML_OPSET, Name, OPSET, Port};
use trainyard_variable::Values;

use crate::onnx_limits::{refuse, refuse_dynamic};
use crate::{Canned, Error};
use inputs::Inputs;
pub use inputs::{GraphInput, Source};
use lookup::Bag;
use rows::rows;

/// Treatment of features whose ids are hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashedColumns {
    /// Refuse the model, with the names of these features.
    Refuse,
    /// Take their ids as inputs, `<feature>/ids`.
    AsIds,
}

/// A model that can be exported as an ONNX graph. The premade estimators can; a custom model need not.
pub trait ExportOnnx {
    /// Returns the model as an ONNX graph that predicts with these values of whole variables.
    ///
    /// # Errors
    /// ONNX cannot express the model, a variable has another number of values, or the graph is too large.
    fn to_onnx(&self, values: &Values, hashed: HashedColumns) -> Result<OnnxModel, Error>;

    /// Returns the inputs of the graph with [`HashedColumns::AsIds`] for each row of a batch, and the ids of every
    /// categorical feature.
    ///
    /// # Errors
    /// ONNX cannot express the model, or a value cannot be used.
    fn graph_rows(&self, batch: &Batch) -> Result<Vec<GraphRow>, Error>;
}

impl ExportOnnx for Canned {
    fn to_onnx(&self, values: &Values, hashed: HashedColumns) -> Result<OnnxModel, Error> {
        model(self, values, hashed)
    }

    fn graph_rows(&self, batch: &Batch) -> Result<Vec<GraphRow>, Error> {
        rows(self, batch)
    }
}

/// Inputs of a graph for one record: lists of values by name of the input.
pub type GraphRow = serde_json::Map<String, serde_json::Value>;

/// A graph with its inputs and outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct OnnxModel {
    /// The file, with a second file if the tables do not fit into one.
    pub file: File,
    /// Inputs of the graph.
    pub inputs: Vec<GraphInput>,
    /// Outputs of the graph.
    pub outputs: Vec<Port>,
}

impl OnnxModel {
    /// Returns versions, inputs and outputs, for an exported signature.
    pub fn describe(&self) -> serde_json::Value {
        let inputs: Vec<_> = self.inputs.iter().map(GraphInput::describe).collect();
        let outputs: Vec<_> = self.outputs.iter().map(inputs::describe).collect();
        json!({
            "ir_version": IR_VERSION, "opset": {"ai.onnx": OPSET, ML_DOMAIN: ML_OPSET},
            "inputs": inputs, "outputs": outputs,
        })
    }
}

/// A graph under construction.
struct Builder<'a> {
    canned: &'a Canned,
    values: &'a Values,
    graph: Graph,
    inputs: Inputs,
    /// Values of the inputs, by index.
    given: Vec<Name>,
    /// Normalised numbers by numeric feature, `batch x width`.
    numbers: BTreeMap<usize, Name>,
    /// Ids by categorical feature.
    bags: BTreeMap<usize, Bag>,
    /// Constants by variable and bound on the norm of its rows.
    tables: BTreeMap<(usize, Option<u32>), Name>,
}

/// Returns the graph of a model with the values of its whole variables.
///
/// # Errors
/// ONNX cannot express a feature, a variable has another number of values, or the graph is too large for one file.
fn model(canned: &Canned, values: &Values, hashed: HashedColumns) -> Result<OnnxModel, Error> {
    refuse_dynamic(&canned.records.columns, None)?;
    if hashed == HashedColumns::Refuse {
        refuse(&canned.records.columns, None)?;
    }
    for (place, spec) in canned.variables.iter().enumerate() {
        let wanted = spec.len();
        let given = values.get(place).map_or(0, Vec::len);
        if wanted != given {
            return Err(Error::Values {
                variable: spec.name.clone(),
                wanted,
                given,
            });
        }
    }
    let mut graph = Graph::new("trainyard");
    head::output_names(&canned.heads).for_each(|name| graph.reserve(&name));
    let inputs = Inputs::new(canned);
    let given = inputs
        .list
        .iter()
        .map(|input| graph.input(&input.port))
        .collect();
    let numbers = BTreeMap::new();
    let bags = BTreeMap::new();
    let tables = BTreeMap::new();
    let mut builder = Builder {
        canned,
        values,
        graph,
        inputs,
        given,
        numbers,
        bags,
        tables,
    };
    builder.replace_missing();
    let logits = builder.logits();
    let outputs = builder.outputs(&logits);
    Ok(OnnxModel {
        file: builder.graph.finish()?,
        inputs: builder.inputs.list,
        outputs,
    })
}
