//! `tensorflow.serving.PredictionService`: predictions for columns and for examples.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message as _;
use prost_types::Any;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use trainyard_input::NamedColumns;
use trainyard_tensorflow_formats::generated::{DataType, TensorProto};

use crate::Error;
use crate::admitted::with_room;
use crate::batching::Predictions;
use crate::filling::Filled;
use crate::intake::{AnswerRoom, Intake};
use crate::models::{Models, Version};
use crate::results::{classes, numbers};
use crate::signature::Method;
use crate::telemetry::{Protocol, count_failure};
use crate::tensorflow_serving::examples::{read_input, read_serialized};
use crate::tensorflow_serving::generated::prediction_service_server::{
    PredictionService, PredictionServiceServer,
};
use crate::tensorflow_serving::generated::{
    Class, ClassificationRequest, ClassificationResponse, ClassificationResult, Classifications,
    GetModelMetadataRequest, GetModelMetadataResponse, InferenceResult, Input, ModelSpec,
    MultiInferenceRequest, MultiInferenceResponse, PredictRequest, PredictResponse, Regression,
    RegressionRequest, RegressionResponse, RegressionResult, inference_result,
};
use crate::tensorflow_serving::metadata::signatures;
use crate::tensorflow_serving::{answered_by, find, given, tensor_proto};
use crate::tensors::Inputs;
use crate::text::shown;

/// The field of the metadata, which TensorFlow Serving names so.
const SIGNATURE_DEF: &str = "signature_def";

/// Names of the input that holds serialized examples, in the signatures that Estimator exports.
const EXAMPLES: [&str; 2] = ["examples", "inputs"];

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    models: Arc<Models>,
    intake: Intake,
}

/// The predictions of the examples of a request.
struct Answered {
    began: Instant,
    version: Arc<Version>,
    rows: Predictions,
    room: AnswerRoom,
}

impl Answered {
    /// Records the request, whose answer is made.
    fn record(&self) {
        let took = self.began.elapsed();
        let telemetry = &self.version.telemetry;
        telemetry.answered(Protocol::TensorFlowGrpc, self.rows.len(), took);
    }
}

impl Service {
    /// Returns the server of the service.
    pub(crate) fn server(models: Arc<Models>, intake: Intake) -> PredictionServiceServer<Self> {
        let most = intake.body_bytes_max;
        PredictionServiceServer::new(Self { models, intake })
            .max_decoding_message_size(most)
            .max_encoding_message_size(usize::MAX)
    }

    async fn predict_columns(
        &self,
        request: &PredictRequest,
    ) -> Result<(PredictResponse, AnswerRoom), Error> {
        let began = Instant::now();
        let spec = given(request.model_spec.as_ref())?;
        let version = find(&self.models, spec)?;
        let signature_name = match spec.signature_name.as_str() {
            "" => Method::Predict.signatures()[0],
            name if Method::Predict.signatures().contains(&name) => name,
            other => {
                return Err(Error::Precondition(format!(
                    "{}; Predict answers {}",
                    no_signature(other),
                    Method::Predict.signatures().join(", ")
                )));
            }
        };
        version.queue.check_room()?;
        let outputs = wanted_outputs(&version, &request.output_filter)?;
        let read = || self.read_columns(&version, &request.inputs);
        let filled = self.intake.parse(request.encoded_len(), read).await?;
        let count = filled.batch.rows;
        let (rows, room) = version.predict(filled, &self.intake).await?;
        let outputs = outputs.into_iter().map(|place| {
            let key = &version.signature.outputs[place];
            (key.name.clone(), tensor_proto::write(&rows, key))
        });
        let answer = PredictResponse {
            outputs: outputs.collect(),
            model_spec: Some(answered_by(spec, &version, signature_name)),
        };
        let telemetry = &version.telemetry;
        telemetry.answered(Protocol::TensorFlowGrpc, count, began.elapsed());
        Ok((answer, room))
    }

    fn read_columns(
        &self,
        version: &Version,
        given: &HashMap<String, TensorProto>,
    ) -> Result<Filled, Error> {
        let columns = &version.columns;
        if let Some(tensor) = examples(columns, given) {
            return read_serialized(&tensor.string_val, columns, self.intake.bounds);
        }
        let mut inputs = Inputs::new(columns, self.intake.bounds);
        for (name, tensor) in given {
            tensor_proto::read(&mut inputs, name, tensor)?;
        }
        inputs.finish()
    }

    /// Predicts examples for a method other than Predict.
    async fn predict_examples(
        &self,
        spec: &ModelSpec,
        input: Option<&Input>,
        methods: &[Method],
    ) -> Result<Answered, Error> {
        let began = Instant::now();
        let version = find(&self.models, spec)?;
        for method in methods {
            check_signature(*method, &spec.signature_name)?;
        }
        version.queue.check_room()?;
        let bytes = input.map_or(0, Input::encoded_len);
        let read = || read_input(input, &version.columns, self.intake.bounds);
        let filled = self.intake.parse(bytes, read).await?;
        let (rows, room) = version.predict(filled, &self.intake).await?;
        Ok(Answered {
            began,
            version,
            rows,
            room,
        })
    }

    async fn classify_examples(
        &self,
        request: &ClassificationRequest,
    ) -> Result<(ClassificationResponse, AnswerRoom), Error> {
        let spec = given(request.model_spec.as_ref())?;
        let input = request.input.as_ref();
        let answered = self
            .predict_examples(spec, input, &[Method::Classify])
            .await?;
        let result = classified(&answered.rows)?;
        answered.record();
        let answer = ClassificationResponse {
            result: Some(result),
            model_spec: Some(answered_by(spec, &answered.version, &spec.signature_name)),
        };
        Ok((answer, answered.room))
    }

    async fn regress_examples(
        &self,
        request: &RegressionRequest,
    ) -> Result<(RegressionResponse, AnswerRoom), Error> {
        let spec = given(request.model_spec.as_ref())?;
        let input = request.input.as_ref();
        let answered = self
            .predict_examples(spec, input, &[Method::Regress])
            .await?;
        let result = regressed(&answered.rows)?;
        answered.record();
        let answer = RegressionResponse {
            result: Some(result),
            model_spec: Some(answered_by(spec, &answered.version, &spec.signature_name)),
        };
        Ok((answer, answered.room))
    }

    async fn infer_tasks(
        &self,
        request: &MultiInferenceRequest,
    ) -> Result<(MultiInferenceResponse, AnswerRoom), Error> {
        let mut tasks = Vec::new();
        for task in &request.tasks {
            let method = Method::named(&task.method_name)?;
            let spec = given(task.model_spec.as_ref())?;
            check_signature(method, &spec.signature_name)?;
            // As TensorFlow Serving: each task is an answer for all rows.
            let is_same = |(other, have): &(Method, &ModelSpec)| {
                *other == method && name_of(&have.signature_name) == name_of(&spec.signature_name)
            };
            if tasks.iter().any(is_same) {
                let name = name_of(&spec.signature_name);
                return Err(Error::Request(format!(
                    "Duplicate evaluation of signature: {name}"
                )));
            }
            tasks.push((method, spec));
        }
        let Some((_, first)) = tasks.first().copied() else {
            let text = "the request must have at least one task, given none";
            return Err(Error::Request(text.to_owned()));
        };
        let is_other = |spec: &ModelSpec| {
            spec.name != first.name || spec.version_choice != first.version_choice
        };
        if tasks.iter().any(|(_, spec)| is_other(spec)) {
            let text = "all tasks of a request must name one version of one model";
            return Err(Error::Request(text.to_owned()));
        }
        let input = request.input.as_ref();
        let answered = self.predict_examples(first, input, &[]).await?;
        let results = tasks.into_iter().map(|(method, spec)| {
            let result = match method {
                Method::Regress => {
                    inference_result::Result::RegressionResult(regressed(&answered.rows)?)
                }
                _ => inference_result::Result::ClassificationResult(classified(&answered.rows)?),
            };
            Ok(InferenceResult {
                model_spec: Some(answered_by(spec, &answered.version, &spec.signature_name)),
                result: Some(result),
            })
        });
        let results = results.collect::<Result<_, Error>>()?;
        answered.record();
        Ok((MultiInferenceResponse { results }, answered.room))
    }

    fn metadata(
        &self,
        request: &GetModelMetadataRequest,
    ) -> Result<GetModelMetadataResponse, Error> {
        let spec = given(request.model_spec.as_ref())?;
        let fields = &request.metadata_field;
        if fields.is_empty() || fields.iter().any(|field| field != SIGNATURE_DEF) {
            return Err(Error::Request(format!(
                "metadata_field must be [\"{SIGNATURE_DEF}\"], given {}",
                shown(&fields.join(", "))
            )));
        }
        let version = find(&self.models, spec)?;
        let value = Any {
            type_url: "type.googleapis.com/tensorflow.serving.SignatureDefMap".to_owned(),
            value: signatures(&version.signature).encode_to_vec(),
        };
        Ok(GetModelMetadataResponse {
            model_spec: Some(answered_by(spec, &version, "")),
            metadata: HashMap::from([(SIGNATURE_DEF.to_owned(), value)]),
        })
    }
}

/// Returns the serialized examples, if the request has them in place of columns.
fn examples<'a>(
    columns: &NamedColumns,
    given: &'a HashMap<String, TensorProto>,
) -> Option<&'a TensorProto> {
    let mut inputs = given.iter();
    let (name, tensor) = inputs.next()?;
    let is_alone = inputs.next().is_none();
    let is_examples = EXAMPLES.contains(&name.as_str()) && columns.place(name).is_none();
    let is_text = tensor.dtype() == DataType::DtString;
    (is_alone && is_examples && is_text).then_some(tensor)
}

fn name_of(signature: &str) -> &str {
    if signature.is_empty() {
        "serving_default"
    } else {
        signature
    }
}

fn no_signature(name: &str) -> String {
    let name = crate::text::shown(name);
    format!("this method has no signature `{name}`")
}

/// Checks the signature of a method that takes examples.
fn check_signature(method: Method, name: &str) -> Result<(), Error> {
    let known = method.signatures();
    if name.is_empty() || known.contains(&name) {
        return Ok(());
    }
    Err(Error::Request(format!(
        "{}; signatures: {}",
        no_signature(name),
        known.join(", ")
    )))
}

/// Returns the places of the outputs in the signature: those that the filter names, or all.
fn wanted_outputs(version: &Version, filter: &[String]) -> Result<Vec<usize>, Error> {
    if filter.is_empty() {
        return Ok((0..version.signature.outputs.len()).collect());
    }
    let places = filter.iter();
    let places = places.map(|name| version.signature.output_place(name));
    let places = places.collect::<Result<Vec<usize>, Error>>()?;
    version.signature.check_once(places.iter().copied())?;
    Ok(places)
}

fn classified(rows: &Predictions) -> Result<ClassificationResult, Error> {
    let of_row = |row| {
        let found = classes(row)?;
        let named = found.names.iter().zip(found.scores);
        let classes = named.map(|(name, score)| Class {
            label: name.clone(),
            score: *score,
        });
        Ok(Classifications {
            classes: classes.collect(),
        })
    };
    Ok(ClassificationResult {
        classifications: rows.iter().map(of_row).collect::<Result<_, Error>>()?,
    })
}

fn regressed(rows: &Predictions) -> Result<RegressionResult, Error> {
    let of_row = |row| match numbers(row)? {
        [value] => Ok(Regression { value: *value }),
        several => Err(Error::Request(format!(
            "the model predicts {} numbers for a row, and a regression has one: use Predict",
            several.len()
        ))),
    };
    Ok(RegressionResult {
        regressions: rows.iter().map(of_row).collect::<Result<_, Error>>()?,
    })
}

/// Returns the answer to a request, and counts one that failed.
fn counted<T>(
    spec: Option<&ModelSpec>,
    outcome: Result<(T, AnswerRoom), Error>,
) -> Result<Response<T>, Status> {
    outcome.map(with_room).map_err(|error| {
        if let Some(spec) = spec {
            count_failure(&spec.name, Protocol::TensorFlowGrpc, &error);
        }
        error.grpc()
    })
}

#[tonic::async_trait]
impl PredictionService for Service {
    async fn classify(
        &self,
        request: Request<ClassificationRequest>,
    ) -> Result<Response<ClassificationResponse>, Status> {
        let request = request.into_inner();
        let outcome = self.classify_examples(&request).await;
        counted(request.model_spec.as_ref(), outcome)
    }

    async fn regress(
        &self,
        request: Request<RegressionRequest>,
    ) -> Result<Response<RegressionResponse>, Status> {
        let request = request.into_inner();
        let outcome = self.regress_examples(&request).await;
        counted(request.model_spec.as_ref(), outcome)
    }

    async fn predict(
        &self,
        request: Request<PredictRequest>,
    ) -> Result<Response<PredictResponse>, Status> {
        let request = request.into_inner();
        let outcome = self.predict_columns(&request).await;
        counted(request.model_spec.as_ref(), outcome)
    }

    async fn multi_inference(
        &self,
        request: Request<MultiInferenceRequest>,
    ) -> Result<Response<MultiInferenceResponse>, Status> {
        let request = request.into_inner();
        let outcome = self.infer_tasks(&request).await;
        let first = request.tasks.first();
        counted(first.and_then(|task| task.model_spec.as_ref()), outcome)
    }

    async fn get_model_metadata(
        &self,
        request: Request<GetModelMetadataRequest>,
    ) -> Result<Response<GetModelMetadataResponse>, Status> {
        let answer = self.metadata(request.get_ref());
        answer.map(Response::new).map_err(|error| error.grpc())
    }
}
