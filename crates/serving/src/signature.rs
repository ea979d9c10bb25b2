//! Signature of a model: the columns that it takes and the keys that it returns.

use std::collections::BTreeMap;

use trainyard_diagnostic::suggest;
use trainyard_input::{Batch, Cells, FieldKind, Fraction, NamedColumns};
use trainyard_model::Prediction;
use trainyard_predictor::{Predictor, Workspace};
use trainyard_run_config::Job;

use crate::Error;
use crate::about::About;

/// Bytes of a number in the text of an answer, or of a text without its characters.
const NUMBER_BYTES: usize = 16;
/// Bytes of a key of a row's predictions, without its name and values.
const KEY_BYTES: usize = 64;

/// Type of the values of a column or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Float,
    Int,
    Text,
}

impl ValueKind {
    /// Returns TensorFlow's name (`types.proto`).
    pub(crate) fn tensorflow(self) -> &'static str {
        match self {
            Self::Float => "DT_FLOAT",
            Self::Int => "DT_INT64",
            Self::Text => "DT_STRING",
        }
    }

    /// Returns the name in the Open Inference Protocol.
    pub(crate) fn inference(self) -> &'static str {
        match self {
            Self::Float => "FP32",
            Self::Int => "INT64",
            Self::Text => "BYTES",
        }
    }
}

/// Method of TensorFlow Serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Predict,
    Classify,
    Regress,
}

impl Method {
    /// Returns TensorFlow's name (`signature_constants.h`).
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Predict => "tensorflow/serving/predict",
            Self::Classify => "tensorflow/serving/classify",
            Self::Regress => "tensorflow/serving/regress",
        }
    }

    /// Returns the names of the signatures that have this method, the default first.
    pub(crate) fn signatures(self) -> &'static [&'static str] {
        match self {
            Self::Predict => &["serving_default", "predict", "predictions"],
            Self::Classify => &["serving_default", "classification"],
            Self::Regress => &["serving_default", "regression"],
        }
    }

    /// Returns the method of a task of MultiInference.
    ///
    /// # Errors
    /// A task cannot have this method.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let known = [Self::Classify, Self::Regress];
        let found = known.into_iter().find(|method| method.name() == name);
        found.ok_or_else(|| {
            let name = crate::text::shown(name);
            Error::Path(format!(
                "method_name must be {} or {}, given `{name}`",
                Self::Classify.name(),
                Self::Regress.name()
            ))
        })
    }
}

/// A column or a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) kind: ValueKind,
    /// Values of a row; absent = any number.
    pub(crate) width: Option<usize>,
}

/// The columns and keys of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Vec<Tensor>,
    /// Most bytes that the answer to a row takes: its predictions, and their text.
    pub(crate) row_bytes: usize,
    /// What a client has to know besides.
    pub(crate) about: About,
}

impl Signature {
    /// Predicts a row without values, or, if the model needs values, a row of zeros. Returns the signature of the model, which a job
    /// describes if it is known.
    ///
    /// # Errors
    /// The model can predict neither.
    pub(crate) fn of(
        predictor: &Predictor,
        columns: &NamedColumns,
        job: Option<&Job>,
    ) -> Result<Self, Error> {
        let predict = |row| {
            let batch = trial_row(predictor, columns, row);
            predictor.predict(&batch, &mut Workspace::default())
        };
        // A module of the user's own may need an id in every row.
        let predicted = predict(TrialRow::Missing).or_else(|missing| {
            predict(TrialRow::Zeros).map_err(|zeros| {
                Error::Fault(format!(
                    "the model predicts neither a row without values ({}) nor one of zeros ({})",
                    missing.message, zeros.message
                ))
            })
        });
        let mut predictions = predicted?;
        let row = predictions.pop().unwrap_or_default();
        Ok(Self {
            inputs: inputs(columns),
            row_bytes: answer_bytes(&row),
            about: job.map_or(About::default(), |job| About::of(job, &row)),
            outputs: outputs(&row),
        })
    }

    /// Returns whether the model returns a key.
    pub(crate) fn has_output(&self, name: &str) -> bool {
        self.outputs.iter().any(|output| output.name == name)
    }

    /// Returns the place of a key.
    ///
    /// # Errors
    /// The model has no such key.
    pub(crate) fn output_place(&self, name: &str) -> Result<usize, Error> {
        let outputs = &self.outputs;
        let place = outputs.iter().position(|output| output.name == name);
        place.ok_or_else(|| {
            let names = || outputs.iter().map(|output| output.name.as_str());
            let name = crate::text::shown(name);
            let help = match suggest(&name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("outputs: {}", names().collect::<Vec<_>>().join(", ")),
            };
            Error::Request(format!("the model has no output `{name}`; {help}"))
        })
    }
}

impl Signature {
    /// Checks that no output is wanted twice: a short request would have a long answer.
    ///
    /// # Errors
    /// One is.
    pub(crate) fn check_once(&self, places: impl Iterator<Item = usize>) -> Result<(), Error> {
        let mut seen = vec![false; self.outputs.len()];
        for place in places {
            if std::mem::replace(&mut seen[place], true) {
                let name = &self.outputs[place].name;
                return Err(Error::Request(format!("output `{name}` is given twice")));
            }
        }
        Ok(())
    }
}

fn inputs(columns: &NamedColumns) -> Vec<Tensor> {
    let names = columns.names().iter().enumerate();
    let input = |(place, name): (usize, &String)| {
        let mut kinds = columns.kinds(place).map(|kind| match kind {
            FieldKind::Float { width, .. } => (ValueKind::Float, Some(*width)),
            FieldKind::Floats { .. } => (ValueKind::Float, None),
            FieldKind::Int { .. } => (ValueKind::Int, (!kind.is_ragged()).then_some(1)),
            FieldKind::Bytes { .. } => (ValueKind::Text, (!kind.is_ragged()).then_some(1)),
        });
        let first = kinds.next().expect("a column has at least one kind");
        // A column that is read as a text and as a number takes numbers: a text of digits is the same text.
        let is_text = first.0 == ValueKind::Text;
        let (kind, width) = match kinds.find(|(kind, _)| is_text && *kind != ValueKind::Text) {
            Some(number) => number,
            None => first,
        };
        // Whole numbers are what every kind takes.
        let is_float = kind == ValueKind::Float && columns.kinds(place).all(takes_floats);
        let kind = match kind {
            ValueKind::Float if !is_float => ValueKind::Int,
            kind => kind,
        };
        Tensor {
            name: name.clone(),
            kind,
            width,
        }
    };
    names.map(input).collect()
}

/// Returns whether a column of a kind takes floats: texts and ids do not.
fn takes_floats(kind: &FieldKind) -> bool {
    match kind {
        FieldKind::Float { .. } | FieldKind::Floats { .. } => true,
        FieldKind::Int { fraction, .. } => *fraction != Fraction::Refused,
        FieldKind::Bytes { .. } => false,
    }
}

fn outputs(row: &BTreeMap<String, Prediction>) -> Vec<Tensor> {
    let output = |(name, value): (&String, &Prediction)| {
        let (kind, width) = match value {
            Prediction::Floats(values) => (ValueKind::Float, values.len()),
            Prediction::Ints(values) => (ValueKind::Int, values.len()),
            Prediction::Texts(values) => (ValueKind::Text, values.len()),
        };
        Tensor {
            name: name.clone(),
            kind,
            width: Some(width),
        }
    };
    row.iter().map(output).collect()
}

/// Returns the bytes of a row's predictions, and of their text in an answer.
fn answer_bytes(row: &BTreeMap<String, Prediction>) -> usize {
    let of_key = |(name, value): (&String, &Prediction)| {
        let values = match value {
            Prediction::Floats(values) => values.len() * (size_of::<f32>() + NUMBER_BYTES),
            Prediction::Ints(values) => values.len() * (size_of::<i64>() + NUMBER_BYTES),
            Prediction::Texts(values) => {
                let of_text = |text: &String| size_of::<String>() + 2 * text.len() + NUMBER_BYTES;
                values.iter().map(of_text).sum()
            }
        };
        values + 2 * name.len() + KEY_BYTES
    };
    row.iter().map(of_key).sum()
}

/// Values of the row by which a model is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialRow {
    /// Every value is missing, or 0 where it may not be: numbers and times.
    Missing,
    /// Each column has one value, 0.
    Zeros,
}

/// Returns a batch of one row.
fn trial_row(predictor: &Predictor, columns: &NamedColumns, row: TrialRow) -> Batch {
    let mut batch = columns.begin(1);
    let fields = &predictor.model().serving_schema().fields;
    for (field, column) in fields.iter().zip(&mut batch.columns) {
        let is_empty = row == TrialRow::Missing && column.offsets.is_some();
        let is_missing = row == TrialRow::Missing;
        match (&mut column.cells, &field.kind) {
            _ if is_empty => {}
            (Cells::Float(cells), FieldKind::Float { width, .. }) => {
                cells.resize(*width, 0.0);
            }
            (Cells::Float(cells), _) => cells.push(0.0),
            (
                Cells::Int(cells),
                FieldKind::Int {
                    fraction: Fraction::Refused,
                    ..
                },
            ) if is_missing => cells.push(-1),
            (Cells::Int(cells), _) => cells.push(0),
            (Cells::Bytes(cells), _) if is_missing => cells.push(b""),
            (Cells::Bytes(cells), _) => cells.push(b"0"),
        }
        if let Some(offsets) = &mut column.offsets {
            offsets.push(column.cells.len() as u32);
        }
    }
    batch.rows = 1;
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filling::fixtures::columns;

    #[test]
    fn the_type_of_a_column_is_one_that_all_its_kinds_take() {
        let truncated = FieldKind::Int {
            separator: None,
            fraction: Fraction::Dropped,
        };
        for (kinds, expected) in [
            (vec![FieldKind::FLOAT], ValueKind::Float),
            (vec![FieldKind::BYTES], ValueKind::Text),
            (vec![FieldKind::INT], ValueKind::Int),
            (vec![FieldKind::BYTES, FieldKind::INT], ValueKind::Int),
            (vec![FieldKind::BYTES, FieldKind::FLOAT], ValueKind::Int),
            (vec![FieldKind::FLOAT, FieldKind::BYTES], ValueKind::Int),
            (vec![FieldKind::FLOAT, FieldKind::INT], ValueKind::Int),
            (vec![FieldKind::FLOAT, truncated], ValueKind::Float),
        ] {
            let fields: Vec<(&str, FieldKind)> =
                kinds.iter().map(|kind| ("n", kind.clone())).collect();
            let inputs = inputs(&columns(&fields));
            let found: Vec<ValueKind> = inputs.iter().map(|input| input.kind).collect();
            assert_eq!(found, [expected], "{kinds:?}");
        }
    }
}
