//! The Open Inference Protocol over gRPC.

use std::sync::Arc;

use prost::Message as _;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use trainyard_input::{Given, NamedColumns};

use crate::Error;
use crate::admitted::with_room;
use crate::datatype::{Datatype, beyond_int64};
use crate::filling::{Filled, RequestBounds};
use crate::inference::answer::write_bytes;
use crate::inference::check_parameter;
use crate::intake::{AnswerRoom, Intake};
use crate::models::{Models, Version, Wanted};
use crate::rest::version_number;
use crate::signature::Tensor;
use crate::telemetry::{Protocol, count_failure};
use crate::tensors::Inputs;

/// Generated messages and server of the package `inference`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod generated {
    include!("../generated/inference.rs");
}

use generated::grpc_inference_service_server::{GrpcInferenceService, GrpcInferenceServiceServer};
use generated::model_infer_request::InferInputTensor;
use generated::model_infer_response::InferOutputTensor;
use generated::model_metadata_response::TensorMetadata;
use generated::{
    ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
    ModelReadyRequest, ModelReadyResponse, ServerLiveRequest, ServerLiveResponse,
    ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest, ServerReadyResponse,
};

/// Descriptors of the service and its messages, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("../generated/descriptors.bin");

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    models: Arc<Models>,
    intake: Intake,
}

impl Service {
    /// Returns the server of the service.
    pub(crate) fn server(models: Arc<Models>, intake: Intake) -> GrpcInferenceServiceServer<Self> {
        let most = intake.body_bytes_max;
        GrpcInferenceServiceServer::new(Self { models, intake })
            .max_decoding_message_size(most)
            .max_encoding_message_size(usize::MAX)
    }

    fn version(&self, name: &str, version: &str) -> Result<Arc<Version>, Error> {
        let wanted = match version {
            "" => Wanted::Newest,
            text => Wanted::Number(version_number(text).ok_or_else(|| {
                Error::Request(format!(
                    "a version must be a whole number, given `{}`",
                    crate::text::shown(text)
                ))
            })?),
        };
        self.models.version(name, wanted)
    }

    async fn infer(
        &self,
        request: ModelInferRequest,
    ) -> Result<(ModelInferResponse, AnswerRoom), Error> {
        let began = Instant::now();
        let version = self.version(&request.model_name, &request.model_version)?;
        version.queue.check_room()?;
        let read = || read_inputs(&request, &version.columns, self.intake.bounds);
        let filled = self.intake.parse(request.encoded_len(), read).await?;
        let rows = filled.batch.rows;
        let outputs = request.outputs.iter();
        let outputs = outputs.map(|output| version.signature.output_place(&output.name));
        let mut places = outputs.collect::<Result<Vec<usize>, Error>>()?;
        version.signature.check_once(places.iter().copied())?;
        if places.is_empty() {
            places = (0..version.signature.outputs.len()).collect();
        }
        let (predictions, room) = version.predict(filled, &self.intake).await?;
        let mut outputs = Vec::new();
        let mut raw_output_contents = Vec::new();
        for place in places {
            let tensor = &version.signature.outputs[place];
            let mut bytes = Vec::new();
            let values = predictions.iter().filter_map(|row| row.get(&tensor.name));
            values.for_each(|values| write_bytes(&mut bytes, values));
            raw_output_contents.push(bytes);
            outputs.push(InferOutputTensor {
                name: tensor.name.clone(),
                datatype: tensor.kind.inference().to_owned(),
                shape: vec![rows as i64, tensor.width.unwrap_or(1) as i64],
                ..InferOutputTensor::default()
            });
        }
        version
            .telemetry
            .answered(Protocol::InferenceGrpc, rows, began.elapsed());
        let answer = ModelInferResponse {
            model_name: request.model_name,
            model_version: version.number.to_string(),
            id: request.id,
            outputs,
            raw_output_contents,
            ..ModelInferResponse::default()
        };
        Ok((answer, room))
    }
}

/// Returns the batch of a request.
fn read_inputs(
    request: &ModelInferRequest,
    columns: &NamedColumns,
    bounds: RequestBounds,
) -> Result<Filled, Error> {
    let inputs = request
        .inputs
        .iter()
        .flat_map(|input| input.parameters.keys());
    let outputs = request
        .outputs
        .iter()
        .flat_map(|output| output.parameters.keys());
    for name in request.parameters.keys().chain(inputs).chain(outputs) {
        check_parameter(name).map_err(Error::Request)?;
    }
    let raw = &request.raw_input_contents;
    if !raw.is_empty() && raw.len() != request.inputs.len() {
        return Err(Error::Request(format!(
            "raw_input_contents must have an entry for each of the {} inputs, given {}",
            request.inputs.len(),
            raw.len()
        )));
    }
    let mut inputs = Inputs::new(columns, bounds);
    for (nth, input) in request.inputs.iter().enumerate() {
        let sizes = input.shape.iter().map(|size| usize::try_from(*size).ok());
        let shape = sizes.collect::<Option<Vec<usize>>>().ok_or_else(|| {
            let shape = crate::text::sizes(&input.shape);
            Error::Request(format!(
                "the shape of input `{}` must be numbers of 0 or more, given {shape}",
                crate::text::shown(&input.name)
            ))
        })?;
        let mut filler = inputs.input(&input.name, &shape)?;
        match raw.get(nth) {
            Some(_) if input.contents.is_some() => {
                return Err(Error::Request(format!(
                    "input `{}` has its values in contents and in raw_input_contents: give one of them",
                    crate::text::shown(&input.name)
                )));
            }
            Some(bytes) => filler.fill_from_bytes(bytes, &input.datatype)?,
            None => filler.fill_from_values(contents(input)?.into_iter(), &input.datatype)?,
        }
    }
    inputs.finish()
}

/// Returns the values of an input that has them in the field of its type.
fn contents(input: &InferInputTensor) -> Result<Vec<Given<'_>>, Error> {
    let Some(contents) = &input.contents else {
        return Ok(Vec::new());
    };
    let refuse = |reason: String| {
        let name = crate::text::shown(&input.name);
        Error::Request(format!("input `{name}`: {reason}"))
    };
    let datatype = Datatype::named(&input.datatype).map_err(refuse)?.name;
    let field = match datatype {
        "BOOL" => "bool_contents",
        "INT8" | "INT16" | "INT32" => "int_contents",
        "INT64" => "int64_contents",
        "UINT8" | "UINT16" | "UINT32" => "uint_contents",
        "UINT64" => "uint64_contents",
        "FP32" => "fp32_contents",
        "FP64" => "fp64_contents",
        _ => "bytes_contents",
    };
    for (other, count) in [
        ("bool_contents", contents.bool_contents.len()),
        ("int_contents", contents.int_contents.len()),
        ("int64_contents", contents.int64_contents.len()),
        ("uint_contents", contents.uint_contents.len()),
        ("uint64_contents", contents.uint64_contents.len()),
        ("fp32_contents", contents.fp32_contents.len()),
        ("fp64_contents", contents.fp64_contents.len()),
        ("bytes_contents", contents.bytes_contents.len()),
    ] {
        if other != field && count > 0 {
            return Err(refuse(format!(
                "the datatype {datatype} has its values in {field}, given {count} in {other}"
            )));
        }
    }
    Ok(match field {
        "bool_contents" => {
            let values = contents.bool_contents.iter();
            values.map(|value| Given::Int((*value).into())).collect()
        }
        "int_contents" => {
            let values = contents.int_contents.iter();
            values.map(|value| Given::Int((*value).into())).collect()
        }
        "int64_contents" => {
            let values = contents.int64_contents.iter();
            values.map(|value| Given::Int(*value)).collect()
        }
        "uint_contents" => {
            let values = contents.uint_contents.iter();
            values.map(|value| Given::Int((*value).into())).collect()
        }
        "uint64_contents" => {
            let value = |value: &u64| {
                i64::try_from(*value)
                    .map(Given::Int)
                    .map_err(|_| refuse(beyond_int64(&value.to_string())))
            };
            return contents.uint64_contents.iter().map(value).collect();
        }
        "fp32_contents" => {
            let values = contents.fp32_contents.iter();
            values.map(|value| Given::Float(*value)).collect()
        }
        "fp64_contents" => {
            let values = contents.fp64_contents.iter();
            values.map(|value| Given::Double(*value)).collect()
        }
        _ => {
            let values = contents.bytes_contents.iter();
            values.map(|value| Given::Text(value)).collect()
        }
    })
}

fn metadata(tensor: &Tensor) -> TensorMetadata {
    TensorMetadata {
        name: tensor.name.clone(),
        datatype: tensor.kind.inference().to_owned(),
        shape: vec![-1, tensor.width.map_or(-1, |width| width as i64)],
    }
}

#[tonic::async_trait]
impl GrpcInferenceService for Service {
    async fn server_live(
        &self,
        _: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        let models = self.models.all();
        let ready = models.iter().all(|(_, model)| model.newest().is_some());
        Ok(Response::new(ServerReadyResponse { ready }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        let request = request.into_inner();
        let ready = match self.version(&request.name, &request.version) {
            Ok(_) => true,
            Err(Error::Unavailable(_)) => false,
            Err(error) => return Err(error.grpc()),
        };
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse {
            name: "trainyard-serving".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: Vec::new(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let request = request.into_inner();
        let version = self.version(&request.name, &request.version);
        let version = version.map_err(|error| error.grpc())?;
        let model = self.models.model(&request.name);
        let versions = model.map_err(|error| error.grpc())?.versions();
        Ok(Response::new(ModelMetadataResponse {
            name: request.name,
            versions: versions
                .iter()
                .map(|version| version.number.to_string())
                .collect(),
            platform: "trainyard".to_owned(),
            inputs: version.signature.inputs.iter().map(metadata).collect(),
            outputs: version.signature.outputs.iter().map(metadata).collect(),
        }))
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let request = request.into_inner();
        let name = request.model_name.clone();
        let outcome = self.infer(request).await;
        outcome.map(with_room).map_err(|error| {
            count_failure(&name, Protocol::InferenceGrpc, &error);
            error.grpc()
        })
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Batch, FieldKind, Fraction};

    use super::generated::InferTensorContents;
    use super::*;
    use crate::filling::fixtures::{BOUNDS, columns};
    use crate::inference::request::InferRequest;
    use crate::signature::Signature;

    #[test]
    fn typed_contents_of_another_datatype_are_refused_with_value_datatype_and_input() {
        let columns = columns(&[("n", FieldKind::FLOAT)]);
        let read = |datatype: &str, contents: InferTensorContents, raw: &[&[u8]]| {
            let input = InferInputTensor {
                name: "n".to_owned(),
                datatype: datatype.to_owned(),
                shape: vec![1],
                contents: Some(contents),
                ..InferInputTensor::default()
            };
            let request = ModelInferRequest {
                inputs: vec![input],
                raw_input_contents: raw.iter().map(|bytes| bytes.to_vec()).collect(),
                ..ModelInferRequest::default()
            };
            read_inputs(&request, &columns, BOUNDS).map(|filled| filled.batch.rows)
        };
        let ints = |value| InferTensorContents {
            int_contents: vec![value],
            ..InferTensorContents::default()
        };
        let uints = |value| InferTensorContents {
            uint_contents: vec![value],
            ..InferTensorContents::default()
        };
        for (datatype, contents, told) in [
            ("INT8", ints(128), "128 is no INT8"),
            ("INT16", ints(-32_769), "-32769 is no INT16"),
            ("UINT8", uints(300), "300 is no UINT8"),
            ("UINT16", uints(65_536), "65536 is no UINT16"),
            (
                "INT64",
                ints(1),
                "the datatype INT64 has its values in int64_contents, given 1 in int_contents",
            ),
            ("BOOL", ints(1), "BOOL has its values in bool_contents"),
            ("FP32", uints(1), "FP32 has its values in fp32_contents"),
            ("INT128", ints(1), "unknown datatype `INT128`"),
        ] {
            let refused = read(datatype, contents, &[])
                .expect_err(datatype)
                .to_string();
            assert!(
                refused.contains(told) && refused.contains("input `n`"),
                "{refused}"
            );
        }
        assert_eq!(read("INT8", ints(-128), &[]).ok(), Some(1));
        assert_eq!(read("UINT8", uints(255), &[]).ok(), Some(1));
        let both = read("INT8", ints(1), &[&[1]])
            .expect_err("both")
            .to_string();
        assert!(both.contains("give one of them"), "{both}");
    }

    /// Reads a value of a datatype for the column `n`, over HTTP and over gRPC.
    fn read_by_both(
        kind: &FieldKind,
        datatype: &str,
        json: &str,
        contents: InferTensorContents,
    ) -> [Result<Filled, String>; 2] {
        let columns = columns(&[("n", kind.clone())]);
        let signature = Signature {
            inputs: Vec::new(),
            outputs: Vec::new(),
            row_bytes: 0,
            about: crate::about::About::default(),
        };
        let body = format!(
            r#"{{"inputs":[{{"name":"n","shape":[1],"datatype":"{datatype}","data":[{json}]}}]}}"#
        );
        let model = (&columns, &signature);
        let http = InferRequest::read(body.as_bytes(), None, model, BOUNDS);
        let input = InferInputTensor {
            name: "n".to_owned(),
            datatype: datatype.to_owned(),
            shape: vec![1],
            contents: Some(contents),
            ..InferInputTensor::default()
        };
        let request = ModelInferRequest {
            inputs: vec![input],
            ..ModelInferRequest::default()
        };
        let grpc = read_inputs(&request, &columns, BOUNDS);
        [http.map(|request| request.filled), grpc]
            .map(|outcome| outcome.map_err(|error| error.to_string()))
    }

    #[test]
    fn http_and_grpc_take_and_refuse_the_same_values() {
        let float = |value| InferTensorContents {
            fp32_contents: vec![value],
            ..InferTensorContents::default()
        };
        let double = |value| InferTensorContents {
            fp64_contents: vec![value],
            ..InferTensorContents::default()
        };
        let int = |value| InferTensorContents {
            int64_contents: vec![value],
            ..InferTensorContents::default()
        };
        let uint = |value| InferTensorContents {
            uint64_contents: vec![value],
            ..InferTensorContents::default()
        };
        let text = |value: &str| InferTensorContents {
            bytes_contents: vec![value.as_bytes().to_vec()],
            ..InferTensorContents::default()
        };
        let truncated = FieldKind::Int {
            separator: None,
            fraction: Fraction::Dropped,
        };
        let refused = [
            (
                FieldKind::INT,
                "FP32",
                "7",
                float(7.0),
                "expected a whole number, given 7",
            ),
            (
                FieldKind::INT,
                "FP64",
                "7",
                double(7.0),
                "expected a whole number, given 7",
            ),
            (
                FieldKind::INT,
                "FP32",
                "16777216",
                float(16_777_216.0),
                "expected a whole number",
            ),
            (
                FieldKind::BYTES,
                "FP32",
                "7",
                float(7.0),
                "expected a text or a whole number",
            ),
            (
                FieldKind::BYTES,
                "FP64",
                "7",
                double(7.0),
                "expected a text or a whole number",
            ),
            (
                FieldKind::FLOAT,
                "FP64",
                "1e99",
                double(1e99),
                "is beyond the floats of 32 bits",
            ),
            (
                FieldKind::FLOAT,
                "BYTES",
                "\"a\"",
                text("a"),
                "expected a number",
            ),
            (
                FieldKind::INT,
                "BYTES",
                "\"a\"",
                text("a"),
                "expected a whole number",
            ),
            (
                FieldKind::BYTES,
                "UINT64",
                "9223372036854775808",
                uint(1 << 63),
                "beyond the numbers of INT64",
            ),
            (
                FieldKind::FLOAT,
                "UINT64",
                "9223372036854775808",
                uint(1 << 63),
                "beyond the numbers of INT64",
            ),
        ];
        for (kind, datatype, json, contents, told) in refused {
            for outcome in read_by_both(&kind, datatype, json, contents) {
                let reason = outcome.expect_err(told);
                assert!(
                    reason.contains(told) && reason.contains("input `n`"),
                    "{kind:?} {datatype} {json}: {reason}"
                );
            }
        }
        let taken = [
            (FieldKind::FLOAT, "FP32", "0.1", float(0.1)),
            (FieldKind::FLOAT, "FP32", "7", float(7.0)),
            (FieldKind::FLOAT, "FP64", "0.1", double(0.1)),
            // The float 123456792 with the fewest digits, and the one that 64 bits need.
            (FieldKind::FLOAT, "FP32", "123456790", float(123_456_792.0)),
            (FieldKind::FLOAT, "FP32", "123456792", float(123_456_792.0)),
            (FieldKind::FLOAT, "INT64", "7", int(7)),
            (FieldKind::INT, "INT64", "7", int(7)),
            (FieldKind::BYTES, "INT64", "7", int(7)),
            (FieldKind::BYTES, "BYTES", "\"7\"", text("7")),
            (truncated.clone(), "FP32", "7.5", float(7.5)),
            (truncated, "FP64", "1700000001", double(1_700_000_001.0)),
        ];
        for (kind, datatype, json, contents) in taken {
            let outcomes = read_by_both(&kind, datatype, json, contents);
            let [http, grpc] = outcomes.map(|outcome| outcome.expect(json).batch);
            let columns = |batch: Batch| format!("{:?}", batch.columns);
            assert_eq!(columns(http), columns(grpc), "{kind:?} {datatype} {json}");
        }
    }
}
