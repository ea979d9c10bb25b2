//! Requests of the Open Inference Protocol: tensors as JSON, or as bytes after the JSON.

use std::borrow::Cow;

use super::check_parameter;
use crate::Error;
use crate::filling::{Filled, RequestBounds};
use crate::json::{Fault, Reader};
use crate::models::Version;
use crate::tensors::Inputs;

/// A request for predictions.
#[derive(Debug)]
pub(crate) struct InferRequest {
    pub(crate) id: Option<String>,
    pub(crate) filled: Filled,
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
    /// The body is wrong, or exceeds the bounds.
    pub(crate) fn read(
        body: &[u8],
        header_length: Option<usize>,
        version: &Version,
        bounds: RequestBounds,
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
        let mut inputs = Inputs::new(&version.columns, bounds);
        for tensor in &head.inputs {
            let name = &tensor.name;
            let mut filler = inputs.input(name, &tensor.shape)?;
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
        let filled = inputs.finish()?;
        let wanted = head.wanted(version)?;
        Ok(Self {
            id: head.id,
            filled,
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
                        other => skip_parameter(reader, other),
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
                other => skip_parameter(reader, other),
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
            let place = version.signature.output_place(name)?;
            let form = Form::of(binary.unwrap_or(self.all_binary));
            Ok(WantedOutput { place, form })
        });
        let wanted = wanted.collect::<Result<Vec<_>, Error>>()?;
        let places = wanted.iter().map(|output| output.place);
        version.signature.check_once(places)?;
        Ok(wanted)
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
                    other => skip_parameter(reader, other),
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
}

/// Passes over a parameter. The protocol lets servers ignore what they do not know.
///
/// # Errors
/// Without it, the answer would be another one.
fn skip_parameter(reader: &mut Reader<'_>, name: &str) -> Result<(), Fault> {
    check_parameter(name).map_err(|message| reader.fault(message))?;
    reader.skip()
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
