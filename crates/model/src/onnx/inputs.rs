//! Inputs of a graph: a matrix for each column that the model reads, and ids for hashed columns.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use trainyard_input::{Field, FieldKind};
use trainyard_onnx::{Dimension, Name, Port, Tensor};

use super::{Builder, head};
use crate::Canned;
use crate::onnx_limits::reason;

/// Source of the values of an input.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A column of the input.
    Column(Field),
    /// The ids of the categorical feature with this name.
    Ids(String),
    /// The number of records, for a graph that reads no column.
    Records,
}

/// One input of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphInput {
    /// Name, type and shape.
    pub port: Port,
    /// Source of its values.
    pub source: Source,
}

/// Describes a port for an exported signature.
pub(super) fn describe(port: &Port) -> serde_json::Value {
    let dimension = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => json!(size),
        Dimension::Any(name) => json!(name),
    };
    let shape: Vec<_> = port.shape.iter().map(dimension).collect();
    json!({"name": port.name, "dtype": port.tensor.name(), "shape": shape})
}

impl GraphInput {
    /// Describes the input for an exported signature. `missing` is the placeholder of a missing value.
    pub(super) fn describe(&self) -> serde_json::Value {
        let mut out = describe(&self.port);
        match &self.source {
            Source::Records => {}
            Source::Ids(feature) => {
                out["feature"] = json!(feature);
                out["missing"] = json!(-1);
            }
            Source::Column(field) => {
                out["column"] = json!(field.name);
                let (separator, missing) = match &field.kind {
                    FieldKind::Float {
                        separator, default, ..
                    } => (*separator, default.as_ref().map(|_| json!("nan"))),
                    FieldKind::Floats { separator } => (Some(*separator), Some(json!(0))),
                    FieldKind::Int { separator, .. } => {
                        (*separator, Some(json!(field.kind.missing_integer())))
                    }
                    FieldKind::Bytes { separator } => (*separator, Some(json!(""))),
                };
                if let Some(separator) = separator {
                    out["separator"] = json!(char::from(separator).to_string());
                }
                if let Some(missing) = missing {
                    out["missing"] = missing;
                }
            }
        }
        out
    }
}

/// The inputs of a graph, by field and by feature.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    pub(super) list: Vec<GraphInput>,
    /// Index of the input, by field of the serving schema.
    pub(super) fields: BTreeMap<usize, usize>,
    /// Index of the input of ids, by categorical feature.
    pub(super) ids: BTreeMap<usize, usize>,
    taken: BTreeSet<String>,
}

/// Name of the input of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// By its column.
    Plain,
    /// By column and type: a column that is read with two types becomes two inputs.
    Typed,
}

impl Inputs {
    pub(super) fn new(canned: &Canned) -> Self {
        let mut out = Self {
            taken: head::output_names(&canned.heads).collect(),
            ..Self::default()
        };
        let columns = &canned.records.columns;
        let numeric = columns
            .numeric
            .iter()
            .filter(|column| column.wide || column.deep);
        let mut fields: BTreeSet<usize> = numeric
            .flat_map(|column| [Some(column.field()), column.operand_field()])
            .flatten()
            .collect();
        let used = columns
            .categorical
            .iter()
            .enumerate()
            .filter(|(_, column)| column.wide || column.deep.is_some());
        for (_, column) in used.clone() {
            if reason(&column.config.kind).is_none() {
                fields.extend(column.field());
                fields.extend(column.operand_field());
            }
            fields.extend(column.weights_field());
        }
        let schema = &canned.records.serving_schema.fields;
        for &field in &fields {
            let twice = fields
                .iter()
                .any(|other| *other != field && schema[*other].name == schema[field].name);
            let naming = if twice { Naming::Typed } else { Naming::Plain };
            out.add_field(field, &schema[field], naming);
        }
        for (place, column) in used.filter(|(_, column)| reason(&column.config.kind).is_some()) {
            // A feature that feeds two parts of the model has a single input of ids.
            let same = out.ids.iter().find(|(other, _)| {
                let other = &columns.categorical[**other].config;
                let column = &column.config;
                other.name == column.name
                    && other.kind == column.kind
                    && other.separator == column.separator
            });
            let input = match same {
                Some((_, input)) => *input,
                None => {
                    let name = out.unique(format!("{}/ids", column.name));
                    let port = Port::matrix(name, Tensor::Int64, None);
                    out.push(GraphInput {
                        port,
                        source: Source::Ids(column.name.clone()),
                    })
                }
            };
            out.ids.insert(place, input);
        }
        if out.list.is_empty() {
            let shape = vec![Dimension::Fixed(1)];
            let port = Port {
                name: out.unique("records".to_owned()),
                tensor: Tensor::Int64,
                shape,
            };
            out.push(GraphInput {
                port,
                source: Source::Records,
            });
        }
        out
    }

    /// Adds a field.
    fn add_field(&mut self, place: usize, field: &Field, naming: Naming) {
        let (tensor, width) = match &field.kind {
            FieldKind::Float { width, .. } => (Tensor::Float, Some(*width)),
            FieldKind::Floats { .. } => (Tensor::Float, None),
            FieldKind::Int { separator, .. } => (Tensor::Int64, separator.is_none().then_some(1)),
            FieldKind::Bytes { separator } => (Tensor::String, separator.is_none().then_some(1)),
        };
        let name = match naming {
            Naming::Plain => field.name.clone(),
            Naming::Typed => format!("{}/{}", field.name, tensor.name()),
        };
        let port = Port::matrix(self.unique(name), tensor, width);
        let input = self.push(GraphInput {
            port,
            source: Source::Column(field.clone()),
        });
        self.fields.insert(place, input);
    }

    fn push(&mut self, input: GraphInput) -> usize {
        self.list.push(input);
        self.list.len() - 1
    }

    fn unique(&mut self, wanted: String) -> String {
        let mut name = wanted.clone();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        name
    }
}

impl Builder<'_> {
    /// Replaces the numbers of each input that the job calls missing by the placeholder of a missing value. A number without
    /// default becomes NaN, and so does its prediction. The lists of texts know the texts.
    pub(super) fn replace_missing(&mut self) {
        let missing = &self.canned.missing;
        let graph = &mut self.graph;
        for (input, given) in self.inputs.list.iter().zip(&mut self.given) {
            let Source::Column(field) = &input.source else {
                continue;
            };
            let missing = missing.of(&field.name);
            let scope = format!("inputs/{}", input.port.name);
            let numbers: Vec<Name> = match input.port.tensor {
                Tensor::Float => {
                    let values = missing.floats().into_iter();
                    let name = format!("{scope}/stands_for_none");
                    values
                        .map(|value| graph.floats(&name, &[1], &[value]))
                        .collect()
                }
                Tensor::Int64 => {
                    let values = missing.integers(&field.kind).into_iter();
                    values.map(|value| graph.list(&[value])).collect()
                }
                _ => continue,
            };
            if numbers.is_empty() {
                continue;
            }
            let placeholder = match input.port.tensor {
                Tensor::Float => graph.floats(&format!("{scope}/none"), &[1], &[f32::NAN]),
                _ => graph.list(&[field.kind.missing_integer()]),
            };
            for number in &numbers {
                let equal = graph.node(
                    "Equal",
                    &format!("{scope}/is_missing"),
                    &[given, number],
                    [],
                );
                let replaced = [&equal, &placeholder, &*given];
                *given = graph.node("Where", &format!("{scope}/or_missing"), &replaced, []);
            }
        }
    }
}
