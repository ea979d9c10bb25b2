//! Rows of a request as `tf.train.Example`s.
//!
//! An example is a record, so it is read as a record of the training data: a feature that it lacks is a missing value, and
//! a feature that the model does not read, such as the label, is ignored.

use prost::Message as _;
use trainyard_input::{Given, NamedColumns};
use trainyard_tensorflow_formats::generated::feature::Kind;
use trainyard_tensorflow_formats::generated::{Example, Feature};

use crate::Error;
use crate::filling::{Filled, Filling, RequestBounds};
use crate::tensorflow_serving::generated::Input;
use crate::tensorflow_serving::generated::input;

/// Returns the batch of an input.
///
/// # Errors
/// The input has no examples or too many, or a column cannot hold a value.
pub(super) fn read_input(
    input: Option<&Input>,
    columns: &NamedColumns,
    bounds: RequestBounds,
) -> Result<Filled, Error> {
    let rows = match input.and_then(|input| input.kind.as_ref()) {
        Some(input::Kind::ExampleList(list)) => Rows {
            examples: &list.examples,
            context: None,
        },
        Some(input::Kind::ExampleListWithContext(list)) => Rows {
            examples: &list.examples,
            context: list.context.as_ref(),
        },
        None => Rows {
            examples: &[],
            context: None,
        },
    };
    if rows.examples.is_empty() {
        let text = "the input must have at least one example, given none";
        return Err(Error::Request(text.to_owned()));
    }
    rows.read(columns, bounds)
}

/// Returns the batch of serialized examples.
///
/// # Errors
/// A text is no example, there are too many, or a column cannot hold a value.
pub(super) fn read_serialized(
    texts: &[Vec<u8>],
    columns: &NamedColumns,
    bounds: RequestBounds,
) -> Result<Filled, Error> {
    check_count(texts.len(), bounds.rows_max)?;
    let decoded = texts.iter().enumerate().map(|(place, text)| {
        Example::decode(text.as_slice()).map_err(|error| {
            let row = place + 1;
            Error::Request(format!("row {row} is no tf.train.Example: {error}"))
        })
    });
    let examples = decoded.collect::<Result<Vec<Example>, Error>>()?;
    let context = None;
    let examples = examples.as_slice();
    Rows { examples, context }.read(columns, bounds)
}

fn check_count(given: usize, rows_max: usize) -> Result<(), Error> {
    if given > rows_max {
        let most = rows_max;
        return Err(Error::Rows { given, most });
    }
    Ok(())
}

/// The rows of a request.
#[derive(Debug, Clone, Copy)]
struct Rows<'a> {
    examples: &'a [Example],
    /// Features of all examples that do not have them themselves.
    context: Option<&'a Example>,
}

impl Rows<'_> {
    fn read(self, columns: &NamedColumns, bounds: RequestBounds) -> Result<Filled, Error> {
        check_count(self.examples.len(), bounds.rows_max)?;
        let mut filling = Filling::new(columns, bounds);
        let mut values = Vec::new();
        for (nth, example) in self.examples.iter().enumerate() {
            for (place, name) in columns.names().iter().enumerate() {
                let shared = || self.context.and_then(|context| feature(context, name));
                values.clear();
                if let Some(feature) = feature(example, name).or_else(shared) {
                    read_values(feature, &mut values);
                }
                let appended = filling.append(place, &values);
                appended.map_err(|reason| {
                    let row = nth + 1;
                    filling
                        .error(|| Error::Request(format!("row {row}: column `{name}`: {reason}")))
                })?;
            }
        }
        filling.finish(self.examples.len())
    }
}

fn feature<'a>(example: &'a Example, name: &str) -> Option<&'a Feature> {
    example.features.as_ref()?.feature.get(name)
}

fn read_values<'a>(feature: &'a Feature, values: &mut Vec<Given<'a>>) {
    match &feature.kind {
        None => {}
        Some(Kind::BytesList(list)) => {
            values.extend(list.value.iter().map(|text| Given::Text(text)));
        }
        Some(Kind::FloatList(list)) => {
            values.extend(list.value.iter().map(|number| Given::Float(*number)));
        }
        Some(Kind::Int64List(list)) => {
            values.extend(list.value.iter().map(|number| Given::Int(*number)));
        }
    }
}
