//! TensorFlow Serving over gRPC: `tensorflow.serving.PredictionService` and `tensorflow.serving.ModelService`.

mod examples;
mod metadata;
mod model_service;
mod prediction_service;
mod tensor_proto;

use std::sync::Arc;

pub(crate) use model_service::Service as ModelServer;
pub(crate) use prediction_service::Service as PredictionServer;

use crate::Error;
use crate::models::{Models, Version, Wanted};

/// Generated messages and servers of the package `tensorflow.serving`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod generated {
    include!("generated/tensorflow.serving.rs");
}

use generated::ModelSpec;
use generated::model_spec::VersionChoice;

/// Returns the model spec of a request.
fn given(spec: Option<&ModelSpec>) -> Result<&ModelSpec, Error> {
    spec.ok_or_else(|| {
        Error::Request("the request must have a model_spec, which names the model".to_owned())
    })
}

/// Returns the version that a model spec names.
fn wanted(spec: &ModelSpec) -> Result<Wanted<'_>, Error> {
    match &spec.version_choice {
        None => Ok(Wanted::Newest),
        Some(VersionChoice::VersionLabel(label)) => Ok(Wanted::Label(label)),
        Some(VersionChoice::Version(number)) => match u64::try_from(*number) {
            Ok(number) => Ok(Wanted::Number(number)),
            Err(_) => {
                let name = crate::text::shown(&spec.name);
                Err(Error::NotFound(format!(
                    "model `{name}` has no version {number}: versions are 0 or more"
                )))
            }
        },
    }
}

/// Returns the version of a model that a model spec names.
fn find(models: &Models, spec: &ModelSpec) -> Result<Arc<Version>, Error> {
    models.version(&spec.name, wanted(spec)?)
}

/// Returns the model spec of an answer.
fn answered_by(spec: &ModelSpec, version: &Version, signature_name: &str) -> ModelSpec {
    ModelSpec {
        name: spec.name.clone(),
        version_choice: Some(VersionChoice::Version(version.number as i64)),
        signature_name: signature_name.to_owned(),
    }
}
