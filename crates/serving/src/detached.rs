//! A model that answers without ports: fuzz targets give it the bodies of requests.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::Full;
use tonic::body::Body;
use tonic::codegen::Service as _;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_input::{NamedColumns, Options};
use trainyard_predictor::Predictor;

use crate::Error;
use crate::batching::{BatchLimits, Pool, Queue};
use crate::http_server::{ProtocolPath, Target, dispatch};
use crate::intake::{HttpLimits, Intake};
use crate::models::{Models, Version};
use crate::run::routes;
use crate::signature::Signature;
use crate::telemetry::VersionTelemetry;
use crate::unlisted::UnlistedValues;

/// Name of the model in requests.
const NAME: &str = "model";

/// A model, served under the name `model`, that answers without ports.
#[derive(Debug)]
pub struct DetachedModel {
    models: Arc<Models>,
    intake: Intake,
}

impl DetachedModel {
    /// Serves a model. `options` are those of the input of its job.
    ///
    /// # Errors
    /// The model cannot predict, or the system starts no thread.
    pub fn new(predictor: Predictor, options: &Options) -> Result<Self, Diagnostic> {
        let columns = NamedColumns::new(predictor.model().serving_schema(), options);
        let signature = Signature::of(&predictor, &columns, None)
            .map_err(|error| Diagnostic::error(Code::E9001, error.to_string()))?;
        let telemetry = Arc::new(VersionTelemetry::new(NAME, "1".to_owned()));
        let queue = Queue::new(
            Arc::new(predictor),
            BatchLimits::default(),
            Arc::new(Pool::start(1)?),
            Arc::clone(&telemetry),
            UnlistedValues::default(),
        );
        let models = Arc::<Models>::default();
        let version = Version {
            number: 1,
            written: SystemTime::UNIX_EPOCH,
            columns,
            signature,
            queue,
            telemetry,
        };
        models.add(NAME).add(version, 1);
        Ok(Self {
            models,
            intake: Intake::new(HttpLimits::default()),
        })
    }

    /// Answers a request over HTTP, whose JSON part has a length if it says one.
    ///
    /// # Errors
    /// The request is wrong.
    pub async fn http(
        &self,
        path: &str,
        header_length: Option<usize>,
        body: &Bytes,
    ) -> Result<Bytes, Error> {
        let path = ProtocolPath::parse(path)?;
        let target = Target::parse(&path)?;
        let answer = dispatch(&self.models, target, body, header_length, &self.intake);
        answer.await.map(|answer| answer.body)
    }

    /// Answers a message over gRPC, with its frame, to a path such as `/inference.GRPCInferenceService/ModelInfer`. Returns
    /// the status of the answer; nothing if it comes after the answer's messages.
    ///
    /// # Errors
    /// The path is no path.
    pub async fn grpc(&self, path: &str, frame: Bytes) -> Result<Option<String>, http::Error> {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/grpc")
            .body(Body::new(Full::new(frame)))?;
        let Ok(answer) = routes(&self.models, &self.intake).call(request).await;
        let status = answer.headers().get("grpc-status");
        Ok(status.and_then(|status| status.to_str().ok().map(str::to_owned)))
    }
}
