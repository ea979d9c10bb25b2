//! Requests of the Open Inference Protocol: tensors as JSON, or as bytes after the JSON.

use std::borrow::Cow;

use trainyard_input::NamedColumns;

use super::check_parameter;
use crate::Error;
use crate::filling::{Filled, RequestBounds};
use crate::intake::Parsed;
use crate::json::{Fault, Reader};
use crate::keys::{KnownKeys, ParameterNames};
use crate::signature::Signature;
use crate::tensors::{Filler, Inputs};

/// Keys of a request. The protocol's extensions have parameters, and no keys of their own. KServe's clients send
/// `model_name`, too.
const REQUEST_KEYS: [&str; 5] = ["id", "model_name", "parameters", "inputs", "outputs"];
/// Keys of an input.
const INPUT_KEYS: [&str; 5] = ["name", "shape", "datatype", "parameters", "data"];
/// Keys of an output.
const OUTPUT_KEYS: [&str; 2] = ["name", "parameters"];

/// A request for predictions.
#[derive(Debug)]
pub(crate) struct InferRequest {
    pub(crate) id: Option<String>,
    pub(crate) filled: Filled,
    /// Outputs to return: place in the signature, and whether as bytes.
    pub(crate) wanted: Vec<WantedOutput>,
}

impl Parsed for InferRequest {
    fn filled(&mut self) -> &mut Filled {
        &mut self.filled
    }
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
        (columns, signature): (&NamedColumns, &Signature),
        bounds: RequestBounds,
    ) -> Result<Self, Error> {
        let length = header_length.unwrap_or(body.len());
        let Some((json, binary)) = body.split_at_checked(length) else {
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
        let head = Head::parse(text).map_err(|fault| Error::Request(fault.to_string()))?;
        let mut inputs = Inputs::new(columns, bounds);
        let mut binary = BinaryPart::new(binary);
        for tensor in &head.inputs {
            let filler = inputs.input(&tensor.name, &tensor.shape)?;
            tensor.fill(filler, &mut binary)?;
        }
        binary.finish()?;
        let filled = inputs.finish()?;
        let wanted = head.wanted(signature)?;
        Ok(Self {
            id: head.id,
            filled,
            wanted,
        })
    }
}

/// The bytes after the JSON part of a body: those of its binary tensors, in order.
#[derive(Debug)]
struct BinaryPart<'a> {
    rest: &'a [u8],
    /// Tensors that have taken theirs.
    tensors: usize,
}

impl<'a> BinaryPart<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Self { rest, tensors: 0 }
    }

    /// Takes the bytes of the next tensor.
    fn take(&mut self, input: &str, bytes: usize) -> Result<&'a [u8], Error> {
        let Some((own, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(Error::Request(format!(
                "input `{input}` has binary_data_size {bytes}, but {} bytes are left of the body",
                self.rest.len()
            )));
        };
        self.rest = rest;
        self.tensors += 1;
        Ok(own)
    }

    /// Checks that the tensors have taken all bytes.
    ///
    /// # Errors
    /// Some are left, which no input has.
    fn finish(&self) -> Result<(), Error> {
        let left = self.rest.len();
        match (left, self.tensors) {
            (0, _) => Ok(()),
            (_, 0) => Err(Error::Request(format!(
                "{left} bytes follow the JSON part of the body, but no input has the parameter binary_data_size"
            ))),
            (_, tensors) => Err(Error::Request(format!(
                "{left} bytes are left of the body after the binary_data_size of its {tensors} binary inputs: expected its end"
            ))),
        }
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
    fn parse(text: &'a str) -> Result<Self, Fault> {
        let mut head = Self::default();
        let mut reader = Reader::new(text);
        let mut keys = KnownKeys::new("the request", &REQUEST_KEYS);
        reader.object(|reader, key| {
            keys.take(reader, &key)?;
            head.read(reader, &key)
        })?;
        reader.end()?;
        Ok(head)
    }

    fn read(&mut self, reader: &mut Reader<'a>, key: &str) -> Result<(), Fault> {
        match key {
            "id" => self.id = Some(reader.string()?.into_owned()),
            "inputs" => reader.array(|reader| {
                self.inputs.push(Tensor::read(reader)?);
                Ok(())
            })?,
            "outputs" => reader.array(|reader| {
                self.outputs.push(read_output(reader)?);
                Ok(())
            })?,
            "parameters" => read_parameters(reader, "binary_data_output", |reader| {
                self.all_binary = reader.bool()?;
                Ok(())
            })?,
            // The path says which model it is.
            _ => reader.skip()?,
        }
        Ok(())
    }

    /// Returns the outputs to return. Without names, these are all.
    fn wanted(&self, signature: &Signature) -> Result<Vec<WantedOutput>, Error> {
        let outputs = &signature.outputs;
        if self.outputs.is_empty() {
            let form = Form::of(self.all_binary);
            let all = 0..outputs.len();
            return Ok(all.map(|place| WantedOutput { place, form }).collect());
        }
        let wanted = self.outputs.iter().map(|(name, binary)| {
            let place = signature.output_place(name)?;
            let form = Form::of(binary.unwrap_or(self.all_binary));
            Ok(WantedOutput { place, form })
        });
        let wanted = wanted.collect::<Result<Vec<_>, Error>>()?;
        let places = wanted.iter().map(|output| output.place);
        signature.check_once(places)?;
        Ok(wanted)
    }
}

impl<'a> Tensor<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Fault> {
        let mut tensor = Self::default();
        let mut keys = KnownKeys::new("an input", &INPUT_KEYS);
        reader.object(|reader, key| {
            keys.take(reader, &key)?;
            match &*key {
                "name" => tensor.name = reader.string()?,
                "datatype" => tensor.datatype = reader.string()?,
                "shape" => reader.array(|reader| {
                    tensor.shape.push(whole(reader)?);
                    Ok(())
                })?,
                "parameters" => read_parameters(reader, "binary_data_size", |reader| {
                    tensor.binary_bytes = Some(whole(reader)?);
                    Ok(())
                })?,
                _ => {
                    // Type and shape may come after the data.
                    tensor.data = Some(reader.clone());
                    reader.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(tensor)
    }

    /// Writes the values into the column of the tensor.
    fn fill(&self, mut filler: Filler<'_, '_>, binary: &mut BinaryPart<'_>) -> Result<(), Error> {
        match (&self.data, self.binary_bytes) {
            (Some(data), None) => filler.fill_from_json(data.clone(), &self.datatype),
            (None, Some(bytes)) => {
                filler.fill_from_bytes(binary.take(&self.name, bytes)?, &self.datatype)
            }
            _ => Err(Error::Request(format!(
                "input `{}` must have either `data` or the parameter binary_data_size",
                self.name
            ))),
        }
    }
}

/// Reads an output: its name, and whether it is wanted as bytes.
fn read_output(reader: &mut Reader<'_>) -> Result<(String, Option<bool>), Fault> {
    let mut name = String::new();
    let mut binary = None;
    let mut keys = KnownKeys::new("an output", &OUTPUT_KEYS);
    reader.object(|reader, key| {
        keys.take(reader, &key)?;
        match &*key {
            "name" => name = reader.string()?.into_owned(),
            _ => read_parameters(reader, "binary_data", |reader| {
                binary = Some(reader.bool()?);
                Ok(())
            })?,
        }
        Ok(())
    })?;
    Ok((name, binary))
}

/// Reads parameters, of which `read` reads `own`. The protocol lets servers ignore the others.
///
/// # Errors
/// One is given twice, or the answer would be another one without it.
fn read_parameters<'a>(
    reader: &mut Reader<'a>,
    own: &str,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut names = ParameterNames::default();
    reader.object(|reader, name| {
        names.take(reader, &name)?;
        if name == own {
            return read(reader);
        }
        check_parameter(&name).map_err(|message| reader.fault(message))?;
        reader.skip()
    })
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

#[cfg(test)]
mod tests {
    use trainyard_input::FieldKind;

    use super::*;
    use crate::filling::fixtures::{BOUNDS, columns};
    use crate::signature::{Tensor as Output, ValueKind};

    /// Reads a body whose JSON part is followed by bytes, to a model with the column `n` and the output `p`.
    fn read(json: &str, binary: &[u8]) -> Result<InferRequest, String> {
        let columns = columns(&[("n", FieldKind::FLOAT)]);
        let output = Output {
            name: "p".to_owned(),
            kind: ValueKind::Float,
            width: Some(1),
        };
        let signature = Signature {
            inputs: Vec::new(),
            outputs: vec![output],
            row_bytes: 0,
            about: crate::about::About::default(),
        };
        let body = [json.as_bytes(), binary].concat();
        let model = (&columns, &signature);
        InferRequest::read(&body, Some(json.len()), model, BOUNDS)
            .map_err(|error| error.to_string())
    }

    /// Checks that a JSON body is refused with a text.
    fn is_refused(json: &str, told: &str) {
        let refused = read(json, &[]).expect_err(json);
        assert!(refused.contains(told), "{json}: {refused}");
    }

    const INPUT: &str = r#"{"name":"n","shape":[1],"datatype":"FP32","data":[1]}"#;

    #[test]
    fn a_key_that_is_given_twice_is_refused_at_every_level() {
        let request = format!(
            r#"{{"id":"7","model_name":"m","inputs":[{INPUT}],"outputs":[{{"name":"p","parameters":{{"binary_data":true}}}}],"parameters":{{"binary_data_output":false,"own":1}}}}"#
        );
        let good = read(&request, &[]).expect("each key is given once");
        assert_eq!(good.wanted.len(), 1);
        for (key, once) in [
            ("id", r#""id":"7""#),
            ("model_name", r#""model_name":"m""#),
            ("inputs", &format!(r#""inputs":[{INPUT}]"#)),
            ("parameters", r#""parameters":{"binary_data":true}"#),
            ("binary_data", r#""binary_data":true"#),
            ("binary_data_output", r#""binary_data_output":false"#),
            ("own", r#""own":1"#),
            ("name", r#""name":"n""#),
            ("name", r#""name":"p""#),
            ("shape", r#""shape":[1]"#),
            ("datatype", r#""datatype":"FP32""#),
            ("data", r#""data":[1]"#),
        ] {
            let twice = request.replacen(once, &format!("{once},{once}"), 1);
            assert_ne!(twice, request, "{once}");
            is_refused(&twice, &format!("the key `{key}` of "));
            is_refused(&twice, "is given twice");
        }
        let outputs = format!(r#"{{"outputs":[],"inputs":[{INPUT}],"outputs":[]}}"#);
        is_refused(&outputs, "the key `outputs` of the request is given twice");
        let escaped = r#"{"inputs":[{"name":"n","n\u0061me":"n"}]}"#;
        is_refused(escaped, "the key `name` of an input is given twice");
        let sizes = r#"{"inputs":[{"parameters":{"binary_data_size":4,"binary_data_size":4}}]}"#;
        is_refused(sizes, "the key `binary_data_size` of `parameters`");
    }

    #[test]
    fn a_key_that_nobody_reads_is_refused_with_the_known_keys() {
        let output = format!(r#"{{"inputs":[{INPUT}],"output":[{{"name":"p"}}]}}"#);
        let keys = "unknown key `output` of the request; keys: id, model_name, parameters, inputs, outputs";
        is_refused(&output, keys);
        let keys = "unknown key `dtype` of an input; keys: name, shape, datatype, parameters, data";
        is_refused(r#"{"inputs":[{"dtype":"FP32"}]}"#, keys);
        let keys = "unknown key `shape` of an output; keys: name, parameters";
        is_refused(r#"{"inputs":[],"outputs":[{"shape":[1]}]}"#, keys);
    }

    #[test]
    fn bytes_that_no_input_has_are_refused() {
        let binary = |size| {
            format!(
                r#"{{"inputs":[{{"name":"n","shape":[1],"datatype":"FP32","parameters":{{"binary_data_size":{size}}}}}]}}"#
            )
        };
        let filled = read(&binary(4), &[0; 4]).expect("4 bytes");
        assert_eq!(filled.filled.batch.rows, 1);
        let told = read(&binary(4), &[0; 7]).expect_err("7 bytes");
        assert!(told.contains("3 bytes are left of the body"), "{told}");
        let told = read(&binary(4), &[0; 3]).expect_err("3 bytes");
        assert!(told.contains("binary_data_size 4, but 3 bytes"), "{told}");
        let json = format!(r#"{{"inputs":[{INPUT}]}}"#);
        let told = read(&json, &[0; 2]).expect_err("no binary input");
        assert!(
            told.contains("2 bytes follow the JSON part") && told.contains("no input has"),
            "{told}"
        );
        read(&json, &[]).expect("no bytes");
    }
}
