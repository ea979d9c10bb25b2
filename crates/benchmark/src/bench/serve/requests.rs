//! Requests of the Open Inference Protocol from the records of a job.

use prost::Message;
use serde_json::{Value, json};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{Batch, Cells, Column, Dataset};
use trainyard_model::{AnyModel, Part, Shard, input_options};
use trainyard_run_config::Job;

/// Most batches that are read: requests that differ, and are sent in turn.
const BATCHES_MAX: usize = 512;

/// A column of a request: its type, its shape, and its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    name: String,
    shape: [usize; 2],
    values: Values,
}

#[derive(Debug, Clone, PartialEq)]
enum Values {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<Vec<u8>>),
}

/// Reads records of a job's training input, in batches of `rows`.
///
/// # Errors
/// The input cannot be read, or has too few records.
pub(super) fn records(job: &Job, model: &AnyModel, rows: usize) -> Result<Vec<Batch>, Diagnostic> {
    let mut options = input_options(job, Part::TrainForEvaluation, Shard::WHOLE, None)?;
    options.batch_size = rows;
    let mut dataset = Dataset::open(options, model.serving_schema().clone())?;
    let mut batches = Vec::new();
    while batches.len() < BATCHES_MAX {
        let mut batch = Batch::default();
        if !dataset.read(&mut batch)? {
            break;
        }
        if batch.rows == rows {
            batches.push(batch);
        }
    }
    if batches.is_empty() {
        let message = format!("the training input must have {rows} records for a request");
        return Err(Diagnostic::error(Code::E1000, message).help("lower --rows"));
    }
    Ok(batches)
}

/// Returns the columns of a batch. A column that is read as a text and as a number is a number.
///
/// # Errors
/// A column has another number of values in each row, which a tensor cannot have.
pub(super) fn tensors(batch: &Batch, model: &AnyModel) -> Result<Vec<Tensor>, Diagnostic> {
    let mut tensors: Vec<Tensor> = Vec::new();
    let fields = &model.serving_schema().fields;
    for (field, column) in fields.iter().zip(&batch.columns) {
        let tensor = tensor(&field.name, column, batch.rows)?;
        match tensors.iter_mut().find(|other| other.name == field.name) {
            None => tensors.push(tensor),
            Some(other) if matches!(other.values, Values::Texts(_)) => *other = tensor,
            Some(_) => {}
        }
    }
    Ok(tensors)
}

fn tensor(name: &str, column: &Column, rows: usize) -> Result<Tensor, Diagnostic> {
    let values = match &column.cells {
        Cells::Float(cells) => Values::Floats(cells.clone()),
        Cells::Int(cells) => Values::Ints(cells.clone()),
        Cells::Bytes(cells) => {
            let ends = cells.offsets.windows(2);
            let text = |ends: &[u32]| cells.data[ends[0] as usize..ends[1] as usize].to_vec();
            Values::Texts(ends.map(text).collect())
        }
    };
    let width = values.len() / rows.max(1);
    let offsets = column.offsets.iter().flatten().enumerate();
    let mut uneven = offsets.filter(|(row, offset)| **offset as usize != row * width);
    if uneven.next().is_some() {
        let message = format!("column `{name}` has another number of values in each row");
        return Err(Diagnostic::error(Code::E1000, message)
            .help("give --rows 1: the tensors of a request have one shape"));
    }
    Ok(Tensor {
        name: name.to_owned(),
        shape: [rows, width],
        values,
    })
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    fn datatype(&self) -> &'static str {
        match self {
            Self::Floats(_) => "FP32",
            Self::Ints(_) => "INT64",
            Self::Texts(_) => "BYTES",
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Floats(values) => json!(values),
            Self::Ints(values) => json!(values),
            Self::Texts(values) => {
                let texts = values.iter().map(|text| String::from_utf8_lossy(text));
                texts.collect()
            }
        }
    }

    /// Returns the values as bytes, little-endian. A text begins with its length in 4 bytes.
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Floats(values) => values.iter().flat_map(|one| one.to_le_bytes()).collect(),
            Self::Ints(values) => values.iter().flat_map(|one| one.to_le_bytes()).collect(),
            Self::Texts(values) => {
                let text = |text: &Vec<u8>| {
                    let length = (text.len() as u32).to_le_bytes();
                    length.into_iter().chain(text.clone()).collect::<Vec<u8>>()
                };
                values.iter().flat_map(text).collect()
            }
        }
    }
}

/// The body of a request over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// Length of the JSON part, if tensors of bytes follow it.
    pub(super) json_bytes: Option<usize>,
}

impl Body {
    pub(super) fn json(text: String) -> Self {
        Self {
            bytes: text.into_bytes(),
            json_bytes: None,
        }
    }
}

/// Returns the body of a request with tensors of JSON.
pub(super) fn json_body(tensors: &[Tensor]) -> Body {
    let input = |tensor: &Tensor| {
        json!({
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": tensor.values.datatype(),
            "data": tensor.values.json(),
        })
    };
    let inputs: Vec<Value> = tensors.iter().map(input).collect();
    Body::json(json!({ "inputs": inputs }).to_string())
}

/// Returns the body of a request with tensors of bytes, as Triton's clients send by default.
pub(super) fn binary_body(tensors: &[Tensor]) -> Body {
    let mut binary = Vec::new();
    let mut inputs = Vec::new();
    for tensor in tensors {
        let bytes = tensor.values.bytes();
        inputs.push(json!({
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": tensor.values.datatype(),
            "parameters": { "binary_data_size": bytes.len() },
        }));
        binary.extend(bytes);
    }
    let head = json!({ "inputs": inputs, "parameters": { "binary_data_output": true } });
    let mut bytes = head.to_string().into_bytes();
    let json_bytes = Some(bytes.len());
    bytes.extend(binary);
    Body { bytes, json_bytes }
}

/// `inference.ModelInferRequest`, as far as the load needs it (`proto/inference`).
#[derive(Clone, PartialEq, Message)]
struct InferRequest {
    #[prost(string, tag = "1")]
    model_name: String,
    #[prost(message, repeated, tag = "5")]
    inputs: Vec<InferInput>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    raw_input_contents: Vec<Vec<u8>>,
}

/// `inference.ModelInferRequest.InferInputTensor`.
#[derive(Clone, PartialEq, Message)]
struct InferInput {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    datatype: String,
    #[prost(int64, repeated, tag = "3")]
    shape: Vec<i64>,
}

/// Returns the message of a request over gRPC.
pub(super) fn grpc_message(model: &str, tensors: &[Tensor]) -> Vec<u8> {
    let input = |tensor: &Tensor| InferInput {
        name: tensor.name.clone(),
        datatype: tensor.values.datatype().to_owned(),
        shape: tensor.shape.iter().map(|size| *size as i64).collect(),
    };
    let request = InferRequest {
        model_name: model.to_owned(),
        inputs: tensors.iter().map(input).collect(),
        raw_input_contents: tensors.iter().map(|tensor| tensor.values.bytes()).collect(),
    };
    request.encode_to_vec()
}
