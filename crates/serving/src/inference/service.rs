//! The Open Inference Protocol over gRPC.

use std::sync::Arc;

use prost::Message as _;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use trainyard_input::Given;

use crate::Error;
use crate::admitted::with_room;
use crate::filling::RequestBounds;
use crate::inference::answer::write_bytes;
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
        let read = || read_inputs(&request, &version, self.intake.bounds);
        let batch = self.intake.parse(request.encoded_len(), read).await??;
        let rows = batch.rows;
        let outputs = request.outputs.iter();
        let outputs = outputs.map(|output| version.signature.output_place(&output.name));
        let mut places = outputs.collect::<Result<Vec<usize>, Error>>()?;
        version.signature.check_once(places.iter().copied())?;
        if places.is_empty() {
            places = (0..version.signature.outputs.len()).collect();
        }
        let (predictions, room) = version.predict(batch, &self.intake).await?;
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
    version: &Version,
    bounds: RequestBounds,
) -> Result<trainyard_input::Batch, Error> {
    let raw = &request.raw_input_contents;
    if !raw.is_empty() && raw.len() != request.inputs.len() {
        return Err(Error::Request(format!(
            "raw_input_contents must have an entry for each of the {} inputs, given {}",
            request.inputs.len(),
            raw.len()
        )));
    }
    let mut inputs = Inputs::new(&version.columns, bounds);
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
            Some(bytes) => filler.fill_from_bytes(bytes, &input.datatype)?,
            None => filler.fill(contents(input)?.into_iter().map(Ok))?,
        }
    }
    inputs.finish()
}

/// Returns the values of an input that has them in the field of its type.
fn contents(input: &InferInputTensor) -> Result<Vec<Given<'_>>, Error> {
    let Some(contents) = &input.contents else {
        return Ok(Vec::new());
    };
    Ok(match input.datatype.as_str() {
        "BOOL" => {
            let values = contents.bool_contents.iter();
            values.map(|value| Given::Int((*value).into())).collect()
        }
        "INT8" | "INT16" | "INT32" => {
            let values = contents.int_contents.iter();
            values.map(|value| Given::Int((*value).into())).collect()
        }
        "INT64" => {
            let values = contents.int64_contents.iter();
            values.map(|value| Given::Int(*value)).collect()
        }
        "UINT8" | "UINT16" | "UINT32" => {
            let values = contents.uint_contents.iter();
            values.map(|value| Given::Int((*value).into())).collect()
        }
        "UINT64" => {
            let values = contents.uint64_contents.iter();
            let value = |value: &u64| {
                i64::try_from(*value).map(Given::Int).map_err(|_| {
                    Error::Request(format!(
                        "input `{}`: {value} is beyond the numbers of INT64",
                        input.name
                    ))
                })
            };
            return values.map(value).collect();
        }
        "FP32" => {
            let values = contents.fp32_contents.iter();
            values.map(|value| Given::Float(*value)).collect()
        }
        "FP64" => {
            let values = contents.fp64_contents.iter();
            values.map(|value| Given::Double(*value)).collect()
        }
        "BYTES" => {
            let values = contents.bytes_contents.iter();
            values.map(|value| Given::Text(value)).collect()
        }
        other => {
            return Err(Error::Request(format!(
                "input `{}`: unknown datatype `{}`",
                input.name,
                crate::text::shown(other)
            )));
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
