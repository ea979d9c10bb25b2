//! The Open Inference Protocol, version 2, over HTTP: `/v2/models/MODEL[/versions/VERSION]/infer`.

mod answer;
mod request;
mod service;

use bytes::Bytes;
use http::Method;
use tokio::time::Instant;

pub(crate) use service::{DESCRIPTORS, Service};

use crate::Error;
use crate::http_answer::Answer;
use crate::inference::request::InferRequest;
use crate::intake::Intake;
use crate::models::{Models, Wanted};
use crate::rest::version_number;
use crate::telemetry::{Protocol, count_failure};
use crate::uri_path::UriPath;

/// Header with the length of the JSON part of a body, which tensors of bytes follow.
pub(crate) const HEADER_LENGTH: &str = "inference-header-content-length";

/// Parameters of extensions of the protocol that this server does not have, with which the answer would be another one: the
/// classification, shared memory and sequence extensions.
const OTHER_EXTENSIONS: [&str; 7] = [
    "classification",
    "shared_memory_region",
    "shared_memory_byte_size",
    "shared_memory_offset",
    "sequence_id",
    "sequence_start",
    "sequence_end",
];

/// Checks that the answer does not depend on a parameter that this server does not have.
///
/// # Errors
/// It does. The message says so.
fn check_parameter(name: &str) -> Result<(), String> {
    if OTHER_EXTENSIONS.contains(&name) {
        return Err(format!(
            "the parameter {name} is of an extension that this server does not have: it has binary_tensor_data alone"
        ));
    }
    Ok(())
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/v2`.
    Server,
    /// `/v2/health/live`.
    Live,
    /// `/v2/health/ready`.
    Ready,
    /// A model, its state, or its predictions.
    Model(&'a str, Wanted<'a>, Action),
}

/// What is wanted of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Metadata,
    Ready,
    Infer,
}

impl<'a> Target<'a> {
    /// Parses a path after `/v2`.
    ///
    /// # Errors
    /// The path is none of the protocol.
    pub(crate) fn parse(path: &'a UriPath<'_>) -> Result<Self, Error> {
        let parts: Vec<&str> = path.parts().filter(|part| !part.is_empty()).collect();
        let number = |text: &str| {
            version_number(text).map(Wanted::Number).ok_or_else(|| {
                Error::Request(format!(
                    "a version must be a whole number, given `{}`",
                    crate::text::shown(text)
                ))
            })
        };
        let action = |name: &[&str]| match name {
            [] => Some(Action::Metadata),
            ["ready"] => Some(Action::Ready),
            ["infer"] => Some(Action::Infer),
            _ => None,
        };
        let found = match parts.as_slice() {
            [] => Some(Self::Server),
            ["health", "live"] => Some(Self::Live),
            ["health", "ready"] => Some(Self::Ready),
            ["models", model, "versions", version, rest @ ..] => {
                let wanted = number(version)?;
                action(rest).map(|action| Self::Model(model, wanted, action))
            }
            ["models", model, rest @ ..] => {
                action(rest).map(|action| Self::Model(model, Wanted::Newest, action))
            }
            _ => None,
        };
        found.ok_or_else(|| {
            Error::Path(
                "the path must be /v2, /v2/health/live, /v2/health/ready or /v2/models/MODEL[/versions/VERSION], and after \
                 it nothing, /ready or /infer"
                    .to_owned(),
            )
        })
    }

    /// Returns the HTTP method that the path needs.
    pub(crate) fn method(&self) -> Method {
        match self {
            Self::Model(_, _, Action::Infer) => Method::POST,
            _ => Method::GET,
        }
    }
}

/// Answers a request, whose body has arrived. `header_length` is the length of its JSON part, if it says one.
///
/// # Errors
/// The request is wrong, or cannot be answered now.
pub(crate) async fn respond(
    models: &Models,
    target: Target<'_>,
    body: &Bytes,
    header_length: Option<usize>,
    intake: &Intake,
) -> Result<Answer, Error> {
    match target {
        Target::Server => Ok(Answer::json(answer::server())),
        // The protocol asks for the status alone. Clients of KServe read the body, too.
        Target::Live => Ok(Answer::json(r#"{"live":true}"#.to_owned())),
        Target::Ready => {
            let models = models.all();
            let waiting = models.iter().find(|(_, model)| model.newest().is_none());
            match waiting {
                None => Ok(Answer::json(r#"{"ready":true}"#.to_owned())),
                Some((name, _)) => Err(Error::Unavailable(format!(
                    "model `{name}` has no version that answers yet"
                ))),
            }
        }
        Target::Model(name, wanted, Action::Ready) => {
            models.version(name, wanted)?;
            Ok(Answer::json(answer::model_ready(name)))
        }
        Target::Model(name, wanted, Action::Metadata) => {
            let version = models.version(name, wanted)?;
            let versions = models.model(name)?.versions();
            Ok(Answer::json(answer::metadata(name, &version, &versions)))
        }
        Target::Model(name, wanted, Action::Infer) => {
            let outcome = infer(models, (name, wanted), body, header_length, intake).await;
            outcome.inspect_err(|error| count_failure(name, Protocol::InferenceRest, error))
        }
    }
}

async fn infer(
    models: &Models,
    (name, wanted): (&str, Wanted<'_>),
    body: &Bytes,
    header_length: Option<usize>,
    intake: &Intake,
) -> Result<Answer, Error> {
    let began = Instant::now();
    let version = models.version(name, wanted)?;
    version.queue.check_room()?;
    let model = (&version.columns, &version.signature);
    let read = || InferRequest::read(body, header_length, model, intake.bounds);
    let InferRequest { id, filled, wanted } = intake.parse(body.len(), read).await?;
    let rows = filled.batch.rows;
    let (predictions, room) = version.predict(filled, intake).await?;
    let answer = answer::infer(name, &version, id.as_deref(), &wanted, &predictions);
    version
        .telemetry
        .answered(Protocol::InferenceRest, rows, began.elapsed());
    Ok(answer.held_by(room))
}
