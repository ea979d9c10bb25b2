//! Requests of TensorFlow Serving's REST interface: rows under `instances` or `examples`, columns under `inputs`.

use std::borrow::Cow;

use trainyard_input::NamedColumns;

use crate::Error;
use crate::filling::{Filled, Filling, RequestBounds};
use crate::intake::Parsed;
use crate::json::{Fault, Kind, Reader};
use crate::keys::KnownKeys;
use crate::rest::cells::{append, missing, read_cell, unknown};
use crate::signature::Method;

/// Layout of a request for predictions, which its answer has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One object per row.
    Rows,
    /// One array per column.
    Columns,
}

/// Keys of the body of `:predict`.
const PREDICT_KEYS: [&str; 3] = ["signature_name", "instances", "inputs"];
/// Keys of the body of `:classify` and `:regress`.
const EXAMPLES_KEYS: [&str; 3] = ["signature_name", "context", "examples"];
/// What has these keys, for messages.
const BODY: &str = "the body";

/// A request for predictions.
#[derive(Debug)]
pub(crate) struct PredictRequest {
    pub(crate) filled: Filled,
    pub(crate) layout: Layout,
}

impl Parsed for PredictRequest {
    fn filled(&mut self) -> &mut Filled {
        &mut self.filled
    }
}

/// Returns the body as text.
fn text(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body).map_err(|error| {
        Error::Request(format!(
            "the body is not UTF-8 at byte {}: send other bytes as {{\"b64\": \"...\"}}",
            error.valid_up_to()
        ))
    })
}

fn refused(fault: Fault) -> Error {
    Error::Request(fault.to_string())
}

impl PredictRequest {
    /// Reads the body of `:predict`.
    ///
    /// # Errors
    /// The body is wrong, or exceeds the bounds.
    pub(crate) fn read(
        body: &[u8],
        columns: &NamedColumns,
        bounds: RequestBounds,
    ) -> Result<Self, Error> {
        let mut reader = Reader::new(text(body)?);
        let mut rows = Rows::new(columns, bounds);
        let mut layout = None;
        let mut keys = KnownKeys::new(BODY, &PREDICT_KEYS);
        let outcome = reader.object(|reader, key| {
            keys.take(reader, &key)?;
            let given = match &*key {
                "signature_name" => return check_signature(reader, Method::Predict),
                "instances" => Layout::Rows,
                _ => Layout::Columns,
            };
            if layout.replace(given).is_some() {
                return Err(reader.fault("give either instances or inputs, once"));
            }
            match given {
                Layout::Rows => rows.read_rows(reader),
                Layout::Columns => rows.read_columns(reader),
            }
        });
        rows.outcome(outcome.and_then(|()| reader.end()))?;
        let layout = layout.ok_or_else(|| {
            let help =
                "the body must have `instances`, a list of rows, or `inputs`, columns by name";
            Error::Request(help.to_owned())
        })?;
        let filled = rows.filling.finish(rows.count)?;
        Ok(Self { filled, layout })
    }
}

/// Reads the body of `:classify` or `:regress`: `examples`, and under `context` the columns that all of them share.
///
/// # Errors
/// The body is wrong, or exceeds the bounds.
pub(crate) fn read_examples(
    body: &[u8],
    columns: &NamedColumns,
    bounds: RequestBounds,
    method: Method,
) -> Result<Filled, Error> {
    let mut reader = Reader::new(text(body)?);
    let mut rows = Rows::new(columns, bounds);
    let mut examples = None;
    let mut keys = KnownKeys::new(BODY, &EXAMPLES_KEYS);
    let outcome = reader.object(|reader, key| {
        keys.take(reader, &key)?;
        match &*key {
            "signature_name" => check_signature(reader, method),
            "context" => {
                rows.context = Some(reader.clone());
                reader.skip()
            }
            _ => {
                // The context may come after the examples.
                examples = Some(reader.clone());
                reader.skip()
            }
        }
    });
    let outcome = outcome.and_then(|()| reader.end());
    let outcome = outcome.and_then(|()| match &mut examples {
        Some(examples) => rows.read_rows(examples),
        None => Err(reader.fault("the body must have `examples`, a list of rows")),
    });
    rows.outcome(outcome)?;
    rows.filling.finish(rows.count)
}

fn check_signature(reader: &mut Reader<'_>, method: Method) -> Result<(), Fault> {
    let known = method.signatures();
    let name = reader.string()?;
    if name.is_empty() || known.contains(&&*name) {
        return Ok(());
    }
    let name = crate::text::shown(&name);
    Err(reader.fault(format!(
        "this method has no signature `{name}`; signatures: {}",
        known.join(", ")
    )))
}

/// The rows that were read.
struct Rows<'c, 'a> {
    columns: &'c NamedColumns,
    filling: Filling<'c>,
    count: usize,
    rows_max: usize,
    too_many: bool,
    /// For each column, the number of the last row that has it, from 1.
    seen: Vec<usize>,
    /// Columns that all examples share.
    context: Option<Reader<'a>>,
}

impl<'c, 'a> Rows<'c, 'a> {
    fn new(columns: &'c NamedColumns, bounds: RequestBounds) -> Self {
        Self {
            columns,
            filling: Filling::new(columns, bounds),
            count: 0,
            rows_max: bounds.rows_max,
            too_many: false,
            seen: vec![0; columns.names().len()],
            context: None,
        }
    }

    fn outcome(&self, outcome: Result<(), Fault>) -> Result<(), Error> {
        outcome.map_err(|fault| {
            if self.too_many {
                Error::Rows {
                    given: self.count,
                    most: self.rows_max,
                }
            } else {
                self.filling.error(|| refused(fault))
            }
        })
    }

    /// Adds the row and the column to the fault of a value.
    fn at(&self, fault: Fault, row: usize, place: usize) -> Fault {
        let name = &self.columns.names()[place];
        Fault {
            message: format!("row {row}: column `{name}`: {}", fault.message),
            ..fault
        }
    }

    fn count_row(&mut self, reader: &Reader<'_>) -> Result<(), Fault> {
        self.count += 1;
        self.too_many = self.count > self.rows_max;
        if self.too_many {
            return Err(reader.fault("too many rows"));
        }
        Ok(())
    }

    /// Reads a list of rows. If the model has one column, a row may be its value.
    fn read_rows(&mut self, reader: &mut Reader<'a>) -> Result<(), Fault> {
        let mut values = Vec::new();
        reader.array(|reader| {
            self.count_row(reader)?;
            let number = self.count;
            if self.columns.names().len() == 1 && !is_object_of_columns(reader)? {
                values.clear();
                let most = self.filling.values_max(0);
                read_cell(reader, &mut values, most).map_err(|fault| self.at(fault, number, 0))?;
                self.seen[0] = number;
                return append(&mut self.filling, 0, &values)
                    .map_err(|reason| reader.fault(format!("row {number}: {reason}")));
            }
            if let Some(mut context) = self.context.clone() {
                let begin = context.position();
                self.read_row(&mut context)?;
                let charged = self.filling.charge(context.position() - begin);
                charged.map_err(|reason| reader.fault(reason))?;
            }
            self.read_row(reader)?;
            match self.seen.iter().position(|row| *row != number) {
                None => Ok(()),
                Some(place) => Err(reader.fault(format!(
                    "row {number} lacks the column `{}`: give null for a missing value",
                    self.columns.names()[place]
                ))),
            }
        })
    }

    fn read_row(&mut self, reader: &mut Reader<'a>) -> Result<(), Fault> {
        let number = self.count;
        let mut values = Vec::new();
        reader.object(|reader, name: Cow<'a, str>| {
            let place = self
                .columns
                .place(&name)
                .ok_or_else(|| reader.fault(unknown(self.columns, &name)))?;
            if self.seen[place] == number {
                return Err(reader.fault(format!("row {number} gives `{name}` twice")));
            }
            self.seen[place] = number;
            values.clear();
            let most = self.filling.values_max(place);
            read_cell(reader, &mut values, most).map_err(|fault| self.at(fault, number, place))?;
            append(&mut self.filling, place, &values)
                .map_err(|reason| reader.fault(format!("row {number}: {reason}")))
        })
    }

    /// Reads columns by name. If the model has one column, it may be given without its name.
    fn read_columns(&mut self, reader: &mut Reader<'a>) -> Result<(), Fault> {
        if reader.kind()? == Kind::Array {
            if self.columns.names().len() != 1 {
                return Err(reader.fault("the model has several columns: give them by name"));
            }
            return self.read_column(reader, 0);
        }
        reader.object(|reader, name| {
            let place = self
                .columns
                .place(&name)
                .ok_or_else(|| reader.fault(unknown(self.columns, &name)))?;
            if self.seen[place] != 0 {
                return Err(reader.fault(format!("column `{name}` is given twice")));
            }
            self.read_column(reader, place)
        })?;
        match self.seen.iter().position(|seen| *seen == 0) {
            None => Ok(()),
            Some(place) => Err(reader.fault(missing(self.columns, place))),
        }
    }

    fn read_column(&mut self, reader: &mut Reader<'a>, place: usize) -> Result<(), Fault> {
        self.seen[place] = 1;
        let mut values = Vec::new();
        let mut number = 0;
        reader.array(|reader| {
            number += 1;
            if number > self.count {
                self.count_row(reader)?;
            }
            values.clear();
            let most = self.filling.values_max(place);
            read_cell(reader, &mut values, most).map_err(|fault| self.at(fault, number, place))?;
            append(&mut self.filling, place, &values)
                .map_err(|reason| reader.fault(format!("row {number}: {reason}")))
        })
    }
}

/// Returns whether the next value is an object other than bytes as `{"b64": "..."}`.
fn is_object_of_columns(reader: &mut Reader<'_>) -> Result<bool, Fault> {
    if reader.kind()? != Kind::Object {
        return Ok(false);
    }
    let mut is_base64 = false;
    reader.clone().object(|reader, key| {
        is_base64 |= key == "b64";
        reader.skip()
    })?;
    Ok(!is_base64)
}

#[cfg(test)]
mod tests {
    use trainyard_input::FieldKind;

    use super::*;
    use crate::filling::fixtures::{BOUNDS, columns};

    #[test]
    fn a_value_of_no_cell_is_told_with_its_row_column_and_remedy() {
        let columns = columns(&[("n", FieldKind::FLOAT), ("t", FieldKind::BYTES)]);
        for body in [
            r#"{"instances": [{"n": 1, "t": "a"}, {"n": true, "t": "a"}]}"#,
            r#"{"inputs": {"t": ["a", "b"], "n": [1, false]}}"#,
        ] {
            let told = PredictRequest::read(body.as_bytes(), &columns, BOUNDS);
            let told = told.expect_err(body).to_string();
            for part in ["row 2", "column `n`", "1 and 0"] {
                assert!(told.contains(part), "{told}");
            }
        }
    }

    #[test]
    fn a_number_that_is_no_number_is_a_missing_value() {
        let kind = FieldKind::Float {
            width: 1,
            separator: None,
            default: Some(vec![-9.0]),
        };
        let columns = columns(&[("n", kind)]);
        let read = |value: &str| {
            let body = format!(r#"{{"instances": [{value}, {{"n": {value}}}]}}"#);
            PredictRequest::read(body.as_bytes(), &columns, BOUNDS)
        };
        for value in ["null", "NaN", r#""nan""#, r#""NaN""#] {
            let request = read(value).expect(value);
            assert_eq!(
                request.filled.batch.columns[0].cells,
                trainyard_input::Cells::Float(vec![-9.0; 2]),
                "{value}"
            );
        }
        for value in ["Infinity", "-NaN", r#""inf""#, r#""nana""#, "Na"] {
            assert!(read(value).is_err(), "{value}");
        }
        for value in ["Infinity", "-Infinity"] {
            let told = read(value).expect_err(value).to_string();
            assert!(told.contains("an infinite number"), "{told}");
        }
    }

    #[test]
    fn a_key_that_is_given_twice_is_refused_by_every_method() {
        let columns = columns(&[("t", FieldKind::BYTES)]);
        for (body, key) in [
            (r#"{"instances": ["a"], "instances": ["b"]}"#, "instances"),
            (
                r#"{"signature_name": "", "signature_name": "", "instances": ["a"]}"#,
                "signature_name",
            ),
            (r#"{"instances": [{"b64": "YQ==", "b64": "Yg=="}]}"#, "b64"),
        ] {
            let told = PredictRequest::read(body.as_bytes(), &columns, BOUNDS);
            let told = told.expect_err(body).to_string();
            let expected = format!("`{key}` of ");
            assert!(
                told.contains(&expected) && told.contains("given twice"),
                "{told}"
            );
        }
        for (body, key) in [
            (
                r#"{"examples": [{"t": "a"}], "examples": [{"t": "b"}]}"#,
                "examples",
            ),
            (
                r#"{"context": {"t": "a"}, "context": {"t": "b"}, "examples": [{}]}"#,
                "context",
            ),
        ] {
            let told = read_examples(body.as_bytes(), &columns, BOUNDS, Method::Classify);
            let told = told.expect_err(body).to_string();
            let expected = format!("the key `{key}` of the body is given twice");
            assert!(told.contains(&expected), "{told}");
        }
        let good = br#"{"context": {"t": "a"}, "examples": [{}, {}]}"#;
        let filled = read_examples(good, &columns, BOUNDS, Method::Classify).expect("it is right");
        assert_eq!(filled.batch.rows, 2);
    }
}
