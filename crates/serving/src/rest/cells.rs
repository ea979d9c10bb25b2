//! Cells of a JSON body: the values of a row in a column.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trainyard_diagnostic::{listed, suggest};
use trainyard_input::{Given, NamedColumns};

use crate::filling::Filling;
use crate::json::{Fault, Kind, Number, Reader};
use crate::keys::KnownKeys;

/// A value, whose text may be decoded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Int(i64),
    Decimal(&'a str),
    /// A number of a tensor of floats of 32 bits.
    Float(f32),
    /// A number of a tensor of floats of 64 bits.
    Double(f64),
    Text(Cow<'a, [u8]>),
}

impl Value<'_> {
    pub(crate) fn given(&self) -> Given<'_> {
        match self {
            Self::Int(number) => Given::Int(*number),
            Self::Decimal(text) => Given::Decimal(text),
            Self::Float(number) => Given::Float(*number),
            Self::Double(number) => Given::Double(*number),
            Self::Text(text) => Given::Text(text),
        }
    }
}

/// Reads a cell: a value, a list of at most `most` values, or null, which is missing. The values are appended to `out`.
pub(crate) fn read_cell<'a>(
    reader: &mut Reader<'a>,
    out: &mut Vec<Value<'a>>,
    most: usize,
) -> Result<(), Fault> {
    match reader.kind()? {
        Kind::Null => reader.null(),
        Kind::Array => reader.array(|reader| {
            if out.len() >= most {
                let values = if most == 1 { "value" } else { "values" };
                return Err(reader.fault(format!(
                    "expected at most {most} {values} in a row of the column, given more"
                )));
            }
            out.push(read_value(reader)?);
            Ok(())
        }),
        _ => {
            out.push(read_value(reader)?);
            Ok(())
        }
    }
}

/// Reads a value: a number, a text, or bytes as `{"b64": "..."}`.
pub(crate) fn read_value<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, Fault> {
    match reader.kind()? {
        Kind::Number => Ok(match reader.number()? {
            Number::Int(number) => Value::Int(number),
            Number::Decimal("NaN") => Value::Double(f64::NAN),
            Number::Decimal(text) => Value::Decimal(text),
        }),
        Kind::Text => Ok(Value::Text(match reader.string()? {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })),
        Kind::Object => read_base64(reader),
        Kind::Bool => Err(reader.fault(
            "expected a number or a text, given true or false: give what the files of training have, 1 and 0 or a text",
        )),
        kind => Err(reader.fault(format!(
            "expected a number, a text or {{\"b64\": \"...\"}}, given {}",
            kind.name()
        ))),
    }
}

fn read_base64<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, Fault> {
    let mut bytes = None;
    let mut keys = KnownKeys::new("bytes", &["b64"]);
    reader.object(|reader, key| {
        if key != "b64" {
            return Err(reader.fault(format!(
                "bytes are {{\"b64\": \"...\"}}, given the key `{}`",
                crate::text::shown(&key)
            )));
        }
        keys.take(reader, &key)?;
        let text = reader.string()?;
        let decoded = STANDARD.decode(text.as_bytes());
        bytes = Some(decoded.map_err(|error| reader.fault(format!("no base64: {error}")))?);
        Ok(())
    })?;
    let bytes = bytes.ok_or_else(|| reader.fault("expected the key `b64`"))?;
    Ok(Value::Text(Cow::Owned(bytes)))
}

/// Appends the values of a row to a column.
pub(crate) fn append(
    filling: &mut Filling<'_>,
    place: usize,
    values: &[Value<'_>],
) -> Result<(), String> {
    let outcome = match values {
        [one] => filling.append(place, &[one.given()]),
        several => {
            let given: Vec<Given<'_>> = several.iter().map(Value::given).collect();
            filling.append(place, &given)
        }
    };
    outcome.map_err(|reason| format!("column `{}`: {reason}", filling.columns().names()[place]))
}

/// Returns the message that a column is unknown.
pub(crate) fn unknown(columns: &NamedColumns, name: &str) -> String {
    let names = || columns.names().iter().map(String::as_str);
    let name = crate::text::shown(name);
    let help = match suggest(&name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("columns: {}", listed(names())),
    };
    format!("the model has no column `{name}`; {help}")
}

/// Returns the message that a request leaves a column out.
pub(crate) fn missing(columns: &NamedColumns, place: usize) -> String {
    let name = &columns.names()[place];
    format!(
        "column `{name}` is missing: a request gives every column, and null for a missing value"
    )
}
