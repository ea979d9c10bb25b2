//! Inputs of a SavedModel: the columns that the model reads, from a `tf.train.Example` or one tensor each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trainyard_input::{FieldKind, Fraction};
use trainyard_run_config::FeatureKind;
use trainyard_tensorflow_formats::generated::DataType;
use trainyard_tensorflow_formats::saved_model::{Comparison, Edge, ExampleParser, Graph, Sparse};

use crate::{Canned, Error};

/// Placeholder of a missing integer in a column that is also read as a number or a text, where -1 is a value.
const MISSING: i64 = FieldKind::MISSING_TIME;

/// Form of a column in an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The same number of values in every example.
    Fixed(usize),
    /// Any number of values.
    Ragged,
}

/// A column that the model reads.
#[derive(Debug)]
pub(super) struct Column {
    name: String,
    dtype: DataType,
    form: Form,
    /// Nothing may be missing, because a number without default reads the column.
    required: bool,
    missing: i64,
    /// Fields of the schema that read the column.
    fields: Vec<usize>,
}

/// The columns that a model reads.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    canned: &'a Canned,
    pub(super) list: Vec<Column>,
}

/// The values of a field.
#[derive(Debug, Clone)]
pub(super) enum Field {
    /// `[batch, width]`.
    Dense(Edge),
    /// Any number of values in a row, and if they were given as a padded matrix, that matrix.
    Ragged(Sparse, Option<Edge>),
}

/// The values of all fields that are read.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) by_field: BTreeMap<usize, Field>,
    /// A tensor with a row for each record.
    pub(super) first: Edge,
}

/// The input of a column.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) name: String,
    pub(super) edge: Edge,
    pub(super) shape: Vec<Option<usize>>,
}

/// Fields that are parsed from examples.
#[derive(Debug)]
pub(super) struct Examples {
    pub(super) serialized: Edge,
    pub(super) fields: Fields,
}

fn form(kind: &FieldKind) -> Form {
    match kind {
        FieldKind::Float { width, .. } => Form::Fixed(*width),
        kind if kind.is_ragged() => Form::Ragged,
        _ => Form::Fixed(1),
    }
}

/// Returns the one type in which an example holds a column.
fn dtype(kinds: &[&FieldKind], is_time: bool) -> Option<DataType> {
    let has = |wanted: fn(&FieldKind) -> bool| kinds.iter().any(|kind| wanted(kind));
    let texts = has(|kind| matches!(kind, FieldKind::Bytes { .. }));
    let floats = has(|kind| matches!(kind, FieldKind::Float { .. } | FieldKind::Floats { .. }));
    let integers = has(|kind| matches!(kind, FieldKind::Int { .. }));
    let whole = is_time
        || has(|kind| {
            matches!(
                kind,
                FieldKind::Int {
                    fraction: Fraction::Refused,
                    ..
                }
            )
        });
    match (texts, floats) {
        _ if whole => Some(DataType::DtInt64),
        (true, true) => None,
        (_, true) => Some(DataType::DtFloat),
        _ if integers => Some(DataType::DtInt64),
        _ => Some(DataType::DtString),
    }
}

impl<'a> Columns<'a> {
    /// Finds the form of each column.
    ///
    /// # Errors
    /// Features read a column in two forms that an example cannot have at once.
    pub(super) fn new(canned: &'a Canned) -> Result<Self, Error> {
        let fields = &canned.records.serving_schema.fields;
        let columns = &canned.records.columns;
        let numeric = columns.numeric.iter().map(|column| &column.numbers);
        let categorical = columns.categorical.iter();
        let bucketized = categorical.filter_map(|column| match &column.config.kind {
            FeatureKind::Bucketized { numbers, .. } => Some(numbers),
            _ => None,
        });
        let times: Vec<&str> = numeric
            .chain(bucketized)
            .filter(|numbers| numbers.time.is_some())
            .map(|numbers| numbers.column.as_str())
            .collect();
        let mut list: Vec<Column> = Vec::new();
        for field in fields {
            if list.iter().any(|column| column.name == field.name) {
                continue;
            }
            let own: Vec<usize> = (0..fields.len())
                .filter(|other| fields[*other].name == field.name)
                .collect();
            let kinds: Vec<&FieldKind> = own.iter().map(|place| &fields[*place].kind).collect();
            let refused = |message: &str| Error::NotInSavedModel {
                column: field.name.clone(),
                message: message.to_owned(),
            };
            let own_form = form(&field.kind);
            if kinds.iter().any(|kind| form(kind) != own_form) {
                return Err(refused(
                    "features read different numbers of values from it, an example has one list of values",
                ));
            }
            let dtype = dtype(&kinds, times.contains(&field.name.as_str())).ok_or_else(|| {
                refused("features read it as text and as numbers, an example has one type")
            })?;
            let required = kinds
                .iter()
                .any(|kind| matches!(kind, FieldKind::Float { default: None, .. }));
            let is_plain = |kind: &&FieldKind| {
                matches!(kind, FieldKind::Int { .. }) && kind.missing_integer() == -1
            };
            list.push(Column {
                name: field.name.clone(),
                dtype,
                form: own_form,
                required,
                missing: if kinds.iter().all(is_plain) {
                    -1
                } else {
                    MISSING
                },
                fields: own,
            });
        }
        Ok(Self { canned, list })
    }

    /// Adds the parser of serialized examples to a graph.
    pub(super) fn of_examples(&self, graph: &mut Graph) -> Examples {
        let serialized = graph.placeholder("input_example_tensor", DataType::DtString, &[None]);
        let mut parser = ExampleParser::default();
        let mut places = Vec::new();
        for column in &self.list {
            places.push(match column.form {
                Form::Ragged => parser.sparse(&column.name, column.dtype),
                Form::Fixed(width) => {
                    let count = if column.required { 0 } else { width };
                    let name = format!("examples/{}/default", column.name);
                    let default = match column.dtype {
                        DataType::DtFloat => graph.floats(&name, &[count], &vec![f32::NAN; count]),
                        DataType::DtInt64 => {
                            graph.integers(&name, &[count], &vec![column.missing; count])
                        }
                        _ => graph.texts(&name, &[count], vec![""; count]),
                    };
                    parser.dense(&column.name, width, default)
                }
            });
        }
        let parsed = parser.parse(graph, "examples", &serialized);
        let mut by_field = BTreeMap::new();
        for (column, place) in self.list.iter().zip(places) {
            for field in &column.fields {
                let kind = &self.canned.records.serving_schema.fields[*field].kind;
                let name = format!("examples/{}", column.name);
                let value = match column.form {
                    Form::Ragged => {
                        let sparse = &parsed.sparse[place];
                        let present = self.present(graph, &name, column, &sparse.values, kind);
                        let sparse = match present {
                            Some(present) => kept(graph, &name, sparse, &present),
                            None => sparse.clone(),
                        };
                        let values = column.as_kind(graph, &name, &sparse.values, kind);
                        Field::Ragged(Sparse { values, ..sparse }, None)
                    }
                    Form::Fixed(_) => {
                        let given = &parsed.dense[place];
                        Field::Dense(self.dense(graph, &name, column, given, kind))
                    }
                };
                by_field.insert(*field, value);
            }
        }
        let fields = Fields {
            by_field,
            first: serialized.clone(),
        };
        Examples { serialized, fields }
    }

    /// Adds an input for each column, and returns them by name.
    pub(super) fn of_columns(&self, graph: &mut Graph) -> (Vec<Given>, Fields) {
        let mut given = Vec::new();
        let mut by_field = BTreeMap::new();
        for column in &self.list {
            let shape = match column.form {
                Form::Fixed(1) => vec![None],
                Form::Fixed(width) => vec![None, Some(width)],
                Form::Ragged => vec![None, None],
            };
            let name = format!("columns/{}", column.name);
            let input = graph.placeholder(&name, column.dtype, &shape);
            let matrix = match column.form {
                Form::Fixed(1) => graph.reshape(&format!("{name}/matrix"), &input, &[-1, 1]),
                _ => input.clone(),
            };
            for field in &column.fields {
                let kind = &self.canned.records.serving_schema.fields[*field].kind;
                let value = match column.form {
                    Form::Fixed(_) => Field::Dense(self.dense(graph, &name, column, &matrix, kind)),
                    Form::Ragged => {
                        let matrix = self.with_placeholders(graph, &name, column, &matrix, kind);
                        let sparse = unpadded(graph, &name, &matrix, column.missing);
                        let values = column.as_kind(graph, &name, &sparse.values, kind);
                        Field::Ragged(Sparse { values, ..sparse }, Some(matrix))
                    }
                };
                by_field.insert(*field, value);
            }
            given.push(Given {
                name: column.name.clone(),
                edge: input,
                shape,
            });
        }
        let first = given[0].edge.clone();
        (given, Fields { by_field, first })
    }

    /// Returns the values of a fixed form as a field of this kind reads them.
    fn dense(
        &self,
        graph: &mut Graph,
        name: &str,
        column: &Column,
        given: &Edge,
        kind: &FieldKind,
    ) -> Edge {
        let given = self.with_placeholders(graph, name, column, given, kind);
        column.as_kind(graph, name, &given, kind)
    }

    /// Returns whether each value is none of those that the job calls missing where a field of this kind reads them; `None` if
    /// it calls none so. The reader of records knows these values; a graph has to.
    fn present(
        &self,
        graph: &mut Graph,
        name: &str,
        column: &Column,
        given: &Edge,
        kind: &FieldKind,
    ) -> Option<Edge> {
        let missing = self.canned.missing.of(&column.name);
        let known: Vec<Edge> = match given.dtype() {
            DataType::DtFloat => {
                let values = missing.floats().into_iter();
                values.map(|value| graph.float(value)).collect()
            }
            DataType::DtInt64 => {
                let values = missing.integers(kind).into_iter();
                values.map(|value| graph.integer(value)).collect()
            }
            _ => missing.texts().map(|value| graph.text(value)).collect(),
        };
        let mut present: Option<Edge> = None;
        for value in &known {
            let differs = format!("{name}/is_no_missing");
            let differs = graph.compare(Comparison::NotEqual, &differs, given, value);
            present = Some(match present {
                Some(others) => graph.both(&format!("{name}/present"), &others, &differs),
                None => differs,
            });
        }
        present
    }

    /// Replaces the values that the job calls missing by the placeholder of the column.
    fn with_placeholders(
        &self,
        graph: &mut Graph,
        name: &str,
        column: &Column,
        given: &Edge,
        kind: &FieldKind,
    ) -> Edge {
        let Some(present) = self.present(graph, name, column, given, kind) else {
            return given.clone();
        };
        let placeholder = match column.dtype {
            DataType::DtFloat => graph.float(f32::NAN),
            DataType::DtInt64 => graph.integer(column.missing),
            _ => graph.text(""),
        };
        let name = format!("{name}/or_placeholder");
        graph.select(&name, &present, [given, &placeholder])
    }

    pub(super) fn describe(&self) -> Value {
        let columns = self.list.iter().map(|column| {
            let missing = match column.dtype {
                _ if column.required => Value::Null,
                DataType::DtFloat => json!("nan"),
                DataType::DtInt64 => json!(column.missing),
                _ => json!(""),
            };
            let dtype = match column.dtype {
                DataType::DtFloat => "float32",
                DataType::DtInt64 => "int64",
                _ => "string",
            };
            let width = match column.form {
                Form::Fixed(width) => Some(width),
                Form::Ragged => None,
            };
            json!({"name": column.name, "dtype": dtype, "width": width, "missing": missing})
        });
        columns.collect()
    }
}

/// Returns the values of a padded matrix that are there.
pub(super) fn unpadded(graph: &mut Graph, name: &str, matrix: &Edge, missing: i64) -> Sparse {
    let there = match matrix.dtype() {
        DataType::DtFloat => {
            graph.compare(Comparison::Equal, &format!("{name}/there"), matrix, matrix)
        }
        dtype => {
            let missing = match dtype {
                DataType::DtInt64 => graph.integer(missing),
                _ => graph.text(""),
            };
            graph.compare(
                Comparison::NotEqual,
                &format!("{name}/there"),
                matrix,
                &missing,
            )
        }
    };
    let indices = graph.places_of(&format!("{name}/indices"), &there);
    let values = graph.gather_elements(&format!("{name}/values"), matrix, &indices);
    let shape = graph.shape_of(&format!("{name}/shape"), matrix);
    Sparse {
        indices,
        values,
        shape,
    }
}

/// Returns the values of a list of which a condition, one for each value, is true.
pub(super) fn kept(graph: &mut Graph, name: &str, sparse: &Sparse, condition: &Edge) -> Sparse {
    let places = graph.places_of(&format!("{name}/places"), condition);
    let places = graph.reshape(&format!("{name}/list"), &places, &[-1]);
    let mut kept = |part: &str, from: &Edge| graph.gather(&format!("{name}/{part}"), from, &places);
    Sparse {
        indices: kept("kept_indices", &sparse.indices),
        values: kept("kept_values", &sparse.values),
        shape: sparse.shape.clone(),
    }
}

impl Column {
    /// Returns the values as a field of this kind reads them.
    fn as_kind(&self, graph: &mut Graph, name: &str, given: &Edge, kind: &FieldKind) -> Edge {
        let name = |part: &str| format!("{name}/{part}");
        let missing = |graph: &mut Graph| {
            let missing = graph.integer(self.missing);
            graph.compare(Comparison::Equal, &name("missing"), given, &missing)
        };
        match (kind, self.dtype) {
            (FieldKind::Float { default, width, .. }, from) => {
                let value = graph.cast(&name("number"), given, DataType::DtFloat);
                // What the job calls missing and has no default becomes NaN, and so does its prediction.
                let nothing =
                    (self.required && from == DataType::DtInt64).then(|| vec![f32::NAN; *width]);
                let default = default.as_ref().filter(|_| !self.required);
                let Some(default) = default.or(nothing.as_ref()) else {
                    return value;
                };
                let absent = if from == DataType::DtFloat {
                    graph.is_nan(&name("missing"), given)
                } else {
                    missing(graph)
                };
                let default = graph.floats(&name("default_number"), &[*width], default);
                graph.select(&name("filled"), &absent, [&default, &value])
            }
            (FieldKind::Floats { .. }, _) => graph.cast(&name("numbers"), given, DataType::DtFloat),
            (FieldKind::Int { .. }, DataType::DtFloat) => {
                let absent = graph.is_nan(&name("missing"), given);
                let value = graph.cast(&name("integer"), given, DataType::DtInt64);
                let none = graph.integer(kind.missing_integer());
                graph.select(&name("integer_or_none"), &absent, [&none, &value])
            }
            (FieldKind::Int { .. }, _) if self.missing == kind.missing_integer() => given.clone(),
            (FieldKind::Int { .. }, _) => {
                let absent = missing(graph);
                let none = graph.integer(kind.missing_integer());
                graph.select(&name("integer_or_none"), &absent, [&none, given])
            }
            (FieldKind::Bytes { .. }, DataType::DtInt64) => {
                let absent = missing(graph);
                let text = graph.decimal_texts(&name("text"), given);
                let none = graph.text("");
                graph.select(&name("text_or_none"), &absent, [&none, &text])
            }
            (FieldKind::Bytes { .. }, _) => given.clone(),
        }
    }
}
