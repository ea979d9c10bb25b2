//! Requests of the Open Inference Protocol: tensors as JSON, or as bytes after the JSON.

use std::borrow::Cow;

use trainyard_diagnostic::suggest;
use trainyard_input::{Batch, Given, NamedColumns};

use crate::Error;
use crate::json::{Fault, Kind, Reader};
use crate::models::Version;
use crate::rest::{Value, append, finish, missing, read_value, unknown};

/// A request for predictions.
#[derive(Debug)]
pub(crate) struct InferRequest {
    pub(crate) id: Option<String>,
    pub(crate) batch: Batch,
    /// Outputs to return: place in the signature, and whether as bytes.
    pub(crate) wanted: Vec<WantedOutput>,
}

/// An output to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedOutput {
    /// Place in the signature.
    pub(crate) place: usize,
    pub(crate) form: Form,
}

/// Form of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// Bytes after the JSON part.
    Binary,
}

impl Form {
    fn of(is_binary: bool) -> Self {
        if is_binary { Self::Binary } else { Self::Json }
    }
}

/// A tensor of a request.
#[derive(Debug, Default)]
struct Tensor<'a> {
    name: Cow<'a, str>,
    shape: Vec<usize>,
    datatype: Cow<'a, str>,
    data: Option<Reader<'a>>,
    binary_bytes: Option<usize>,
}

impl InferRequest {
    /// Reads a body. `header_length` is the length of its JSON part; absent = all of it.
    ///
    /// # Errors
    /// The body is wrong, or has more than `rows_max` rows.
    pub(crate) fn read(
        body: &[u8],
        header_length: Option<usize>,
        version: &Version,
        rows_max: usize,
    ) -> Result<Self, Error> {
        let length = header_length.unwrap_or(body.len());
        let Some((json, mut binary)) = body.split_at_checked(length) else {
            return Err(Error::Request(format!(
                "the header Inference-Header-Content-Length says {length}, but the body has {} bytes",
                body.len()
            )));
        };
        let text = std::str::from_utf8(json).map_err(|error| {
            Error::Request(format!(
                "the JSON part of the body is not UTF-8 at byte {}: send other bytes as binary tensors",
                error.valid_up_to()
            ))
        })?;
        let refused = |fault: Fault| Error::Request(fault.to_string());
        let mut reader = Reader::new(text);
        let mut head = Head::default();
        reader
            .object(|reader, key| head.read(reader, &key))
            .and_then(|()| reader.end())
            .map_err(refused)?;
        let columns = &version.columns;
        let mut batch = columns.begin(1);
        let mut rows = None;
        let mut seen = vec![false; columns.names().len()];
        for tensor in &head.inputs {
            let place = columns
                .place(&tensor.name)
                .ok_or_else(|| Error::Request(unknown(columns, &tensor.name)))?;
            let name = &tensor.name;
            if std::mem::replace(&mut seen[place], true) {
                return Err(Error::Request(format!("input `{name}` is given twice")));
            }
            let (given, width) = tensor.dimensions()?;
            if given > rows_max {
                let most = rows_max;
                return Err(Error::Rows { given, most });
            }
            let rows = *rows.get_or_insert(given);
            if given != rows {
                return Err(Error::Request(format!(
                    "input `{name}` has {given} rows, others have {rows}"
                )));
            }
            let mut filler = Filler {
                columns,
                batch: &mut batch,
                place,
                rows,
                width,
            };
            match (&tensor.data, tensor.binary_bytes) {
                (Some(data), None) => filler.fill_from_json(data.clone(), &tensor.datatype)?,
                (None, Some(bytes)) => {
                    let Some((own, rest)) = binary.split_at_checked(bytes) else {
                        return Err(Error::Request(format!(
                            "input `{name}` has binary_data_size {bytes}, but {} bytes are left of the body",
                            binary.len()
                        )));
                    };
                    binary = rest;
                    filler.fill_from_bytes(own, &tensor.datatype)?;
                }
                _ => {
                    return Err(Error::Request(format!(
                        "input `{name}` must have either `data` or the parameter binary_data_size"
                    )));
                }
            }
        }
        if let Some(place) = seen.iter().position(|seen| !seen) {
            return Err(Error::Request(missing(columns, place)));
        }
        let batch = finish(columns, batch, rows.unwrap_or(0))?;
        let wanted = head.wanted(version)?;
        Ok(Self {
            id: head.id,
            batch,
            wanted,
        })
    }
}

/// The JSON part of a request.
#[derive(Debug, Default)]
struct Head<'a> {
    id: Option<String>,
    inputs: Vec<Tensor<'a>>,
    /// Outputs by name, and whether they are wanted as bytes.
    outputs: Vec<(String, Option<bool>)>,
    all_binary: bool,
}

impl<'a> Head<'a> {
    fn read(&mut self, reader: &mut Reader<'a>, key: &str) -> Result<(), Fault> {
        match key {
            "id" => self.id = Some(reader.string()?.into_owned()),
            "inputs" => reader.array(|reader| {
                self.inputs.push(Tensor::read(reader)?);
                Ok(())
            })?,
            "outputs" => reader.array(|reader| {
                let mut name = String::new();
                let mut binary = None;
                reader.object(|reader, key| match &*key {
                    "name" => {
                        name = reader.string()?.into_owned();
                        Ok(())
                    }
                    "parameters" => reader.object(|reader, key| match &*key {
                        "binary_data" => {
                            binary = Some(reader.bool()?);
                            Ok(())
                        }
                        _ => reader.skip(),
                    }),
                    _ => reader.skip(),
                })?;
                self.outputs.push((name, binary));
                Ok(())
            })?,
            "parameters" => reader.object(|reader, key| match &*key {
                "binary_data_output" => {
                    self.all_binary = reader.bool()?;
                    Ok(())
                }
                _ => reader.skip(),
            })?,
            // The protocol lets servers ignore what they do not know.
            _ => reader.skip()?,
        }
        Ok(())
    }

    /// Returns the outputs to return. Without names, these are all.
    fn wanted(&self, version: &Version) -> Result<Vec<WantedOutput>, Error> {
        let outputs = &version.signature.outputs;
        if self.outputs.is_empty() {
            let form = Form::of(self.all_binary);
            let all = 0..outputs.len();
            return Ok(all.map(|place| WantedOutput { place, form }).collect());
        }
        let wanted = self.outputs.iter().map(|(name, binary)| {
            let place = outputs.iter().position(|output| output.name == *name);
            let place = place.ok_or_else(|| {
                let names = || outputs.iter().map(|output| output.name.as_str());
                let help = match suggest(name, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("outputs: {}", names().collect::<Vec<_>>().join(", ")),
                };
                let name = trainyard_diagnostic::escape(name);
                Error::Request(format!("the model has no output `{name}`; {help}"))
            })?;
            let form = Form::of(binary.unwrap_or(self.all_binary));
            Ok(WantedOutput { place, form })
        });
        wanted.collect()
    }
}

impl<'a> Tensor<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let mut tensor = Self::default();
        reader.object(|reader, key| {
            match &*key {
                "name" => tensor.name = reader.string()?,
                "datatype" => tensor.datatype = reader.string()?,
                "shape" => reader.array(|reader| {
                    tensor.shape.push(whole(reader)?);
                    Ok(())
                })?,
                "parameters" => reader.object(|reader, key| match &*key {
                    "binary_data_size" => {
                        tensor.binary_bytes = Some(whole(reader)?);
                        Ok(())
                    }
                    _ => reader.skip(),
                })?,
                "data" => {
                    // Type and shape may come after the data.
                    tensor.data = Some(reader.clone());
                    reader.skip()?;
                }
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        Ok(tensor)
    }

    /// Returns the numbers of rows and of values in a row.
    fn dimensions(&self) -> Result<(usize, usize), Error> {
        let name = &self.name;
        let (rows, rest) = self.shape.split_first().ok_or_else(|| {
            Error::Request(format!(
                "input `{name}` must have a shape, whose first number is that of the rows"
            ))
        })?;
        let width = rest
            .iter()
            .try_fold(1_usize, |product, size| product.checked_mul(*size));
        let width = width.filter(|width| width.checked_mul((*rows).max(1)).is_some());
        let width = width.ok_or_else(|| {
            Error::Request(format!(
                "input `{name}` has a shape of too many values: {:?}",
                self.shape
            ))
        })?;
        Ok((*rows, width))
    }
}

/// Reads a whole number that is not negative.
fn whole(reader: &mut Reader<'_>) -> Result<usize, Fault> {
    match reader.number()? {
        crate::json::Number::Int(number) => usize::try_from(number)
            .map_err(|_| reader.fault(format!("expected a number of 0 or more, given {number}"))),
        crate::json::Number::Decimal(text) => {
            Err(reader.fault(format!("expected a whole number, given {text}")))
        }
    }
}

/// Types of the protocol, with the bytes of a value.
const DATATYPES: [(&str, usize); 12] = [
    ("BOOL", 1),
    ("UINT8", 1),
    ("UINT16", 2),
    ("UINT32", 4),
    ("UINT64", 8),
    ("INT8", 1),
    ("INT16", 2),
    ("INT32", 4),
    ("INT64", 8),
    ("FP32", 4),
    ("FP64", 8),
    ("BYTES", 0),
];

/// Writer of a tensor into a column of the batch.
struct Filler<'b, 'c> {
    columns: &'c NamedColumns,
    batch: &'b mut Batch,
    place: usize,
    rows: usize,
    width: usize,
}

impl Filler<'_, '_> {
    fn name(&self) -> &str {
        &self.columns.names()[self.place]
    }

    fn refuse(&self, message: impl std::fmt::Display) -> Error {
        Error::Request(format!("input `{}`: {message}", self.name()))
    }

    fn bytes_of(&self, datatype: &str) -> Result<usize, Error> {
        let found = DATATYPES.iter().find(|(name, _)| *name == datatype);
        found.map(|(_, bytes)| *bytes).ok_or_else(|| {
            let names: Vec<&str> = DATATYPES.iter().map(|(name, _)| *name).collect();
            let datatype = trainyard_diagnostic::escape(datatype);
            self.refuse(format!(
                "unknown datatype `{datatype}`; datatypes: {}",
                names.join(", ")
            ))
        })
    }

    fn check_count(&self, given: usize) -> Result<(), Error> {
        let Self { rows, width, .. } = self;
        if given == rows * width {
            return Ok(());
        }
        Err(self.refuse(format!(
            "its shape has {rows} x {width} values, given {given}"
        )))
    }

    fn fill_from_json(&mut self, mut data: Reader<'_>, datatype: &str) -> Result<(), Error> {
        self.bytes_of(datatype)?;
        let mut values = Vec::new();
        flatten(&mut data, &mut values).map_err(|fault| self.refuse(fault))?;
        self.check_count(values.len())?;
        let is_text = datatype == "BYTES";
        let wrong = |value: &&Value<'_>| matches!(value, Value::Text(_)) != is_text;
        if values.iter().any(|value| wrong(&value)) {
            return Err(self.refuse(format!("its data must be of the datatype {datatype}")));
        }
        for row in 0..self.rows {
            let values = &values[row * self.width..][..self.width];
            append(self.columns, self.batch, self.place, values)
                .map_err(|reason| Error::Request(format!("row {}: {reason}", row + 1)))?;
        }
        Ok(())
    }

    fn fill_from_bytes(&mut self, bytes: &[u8], datatype: &str) -> Result<(), Error> {
        let size = self.bytes_of(datatype)?;
        let mut values = Vec::new();
        if size == 0 {
            let mut rest = bytes;
            while !rest.is_empty() {
                let text = rest.split_first_chunk().and_then(|(length, after)| {
                    after.split_at_checked(u32::from_le_bytes(*length) as usize)
                });
                let (text, after) = text.ok_or_else(|| {
                    self.refuse(
                        "a text of its bytes is cut short: each begins with its length in 4 bytes",
                    )
                })?;
                values.push(Given::Text(text));
                rest = after;
            }
        } else {
            let chunks = bytes.chunks_exact(size);
            if !chunks.remainder().is_empty() {
                return Err(self.refuse(format!(
                    "a value of {datatype} has {size} bytes, given {} bytes in all",
                    bytes.len()
                )));
            }
            for chunk in chunks {
                values.push(number(chunk, datatype).ok_or_else(|| {
                    self.refuse(format!("{chunk:?} is beyond the numbers of INT64"))
                })?);
            }
        }
        self.check_count(values.len())?;
        for row in 0..self.rows {
            let values = &values[row * self.width..][..self.width];
            let appended = self.columns.append(self.batch, self.place, values);
            appended.map_err(|reason| self.refuse(format!("row {}: {reason}", row + 1)))?;
        }
        Ok(())
    }
}

/// Returns a number from its bytes, little-endian; nothing if 64 bits with a sign cannot hold it.
fn number(bytes: &[u8], datatype: &str) -> Option<Given<'static>> {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(wide);
    let shift = 64 - 8 * bytes.len() as u32;
    let signed = ((unsigned << shift) as i64) >> shift;
    Some(match datatype {
        "FP32" => Given::Float(f32::from_bits(unsigned as u32)),
        "FP64" => Given::Double(f64::from_bits(unsigned)),
        "INT8" | "INT16" | "INT32" | "INT64" => Given::Int(signed),
        _ => Given::Int(i64::try_from(unsigned).ok()?),
    })
}

/// Appends the values of arrays in arrays, in order.
fn flatten<'a>(reader: &mut Reader<'a>, out: &mut Vec<Value<'a>>) -> Result<(), Fault> {
    if reader.kind()? == Kind::Array {
        return reader.array(|reader| flatten(reader, out));
    }
    if reader.kind()? == Kind::Bool {
        let value = reader.bool()?;
        out.push(Value::Int(value.into()));
        return Ok(());
    }
    out.push(read_value(reader)?);
    Ok(())
}
