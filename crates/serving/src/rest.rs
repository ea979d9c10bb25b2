//! TensorFlow Serving's REST interface: `/v1/models/MODEL[/versions/VERSION|/labels/LABEL][:METHOD]`.

mod answer;
mod cells;
mod request;

use http::Method;
use tokio::time::Instant;

pub(crate) use answer::write_float;
pub(crate) use cells::{Value, append, missing, read_value, unknown};

use crate::Error;
use crate::http_answer::Answer;
use crate::intake::Intake;
use crate::json::write_text;
use crate::models::{Models, Wanted};
use crate::rest::request::{PredictRequest, read_examples};
use crate::signature::Method as SignatureMethod;
use crate::telemetry::{Protocol, count_failure};
use crate::text::message;
use crate::uri_path::UriPath;

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    model: &'a str,
    wanted: Wanted<'a>,
    action: Action<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action<'a> {
    Status,
    Metadata,
    Method(&'a str),
}

impl<'a> Target<'a> {
    /// Parses a path after `/v1/models/`.
    ///
    /// # Errors
    /// The path is none of the interface.
    pub(crate) fn parse(path: &'a UriPath<'_>) -> Result<Self, Error> {
        let unknown = || {
            Error::Path(
                "the path must be /v1/models/MODEL[/versions/VERSION|/labels/LABEL], and after it nothing, /metadata, \
                 :predict, :classify or :regress"
                    .to_owned(),
            )
        };
        let mut parts = path.parts();
        let model = parts
            .next()
            .filter(|name| !name.is_empty())
            .ok_or_else(unknown)?;
        let mut action = path
            .method
            .as_deref()
            .map_or(Action::Status, Action::Method);
        let mut wanted = Wanted::Newest;
        while let Some(part) = parts.next() {
            match (part, wanted, action) {
                ("versions", Wanted::Newest, _) => {
                    let text = parts.next().unwrap_or_default();
                    let number = version_number(text).ok_or_else(|| {
                        Error::Request(format!(
                            "a version must be a whole number, given `{}`",
                            crate::text::shown(text)
                        ))
                    })?;
                    wanted = Wanted::Number(number);
                }
                ("labels", Wanted::Newest, _) => {
                    wanted = Wanted::Label(parts.next().ok_or_else(unknown)?);
                }
                ("metadata", _, Action::Status) => action = Action::Metadata,
                _ => return Err(unknown()),
            }
        }
        Ok(Self {
            model,
            wanted,
            action,
        })
    }

    /// Returns the HTTP method that the path needs.
    pub(crate) fn method(&self) -> Method {
        match self.action {
            Action::Status | Action::Metadata => Method::GET,
            Action::Method(_) => Method::POST,
        }
    }
}

/// Returns the number of a version: digits, without a sign.
pub(crate) fn version_number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Answers a request, whose body has arrived. Returns the body of the answer.
///
/// # Errors
/// The request is wrong, or cannot be answered now.
pub(crate) async fn respond(
    models: &Models,
    target: Target<'_>,
    body: &[u8],
    intake: &Intake,
) -> Result<Answer, Error> {
    match target.action {
        Action::Status => {
            let model = models.model(target.model)?;
            let versions = match target.wanted {
                Wanted::Newest => model.versions(),
                wanted => vec![models.version(target.model, wanted)?],
            };
            Ok(Answer::json(answer::status(&model, &versions)))
        }
        Action::Metadata => {
            let version = models.version(target.model, target.wanted)?;
            Ok(Answer::json(answer::metadata(target.model, &version)))
        }
        Action::Method(method) => {
            let outcome = answer_method(models, target, method, body, intake).await;
            outcome
                .inspect_err(|error| count_failure(target.model, Protocol::TensorFlowRest, error))
        }
    }
}

async fn answer_method(
    models: &Models,
    target: Target<'_>,
    method: &str,
    body: &[u8],
    intake: &Intake,
) -> Result<Answer, Error> {
    let began = Instant::now();
    let version = models.version(target.model, target.wanted)?;
    version.queue.check_room()?;
    let columns = &version.columns;
    let bounds = intake.bounds;
    let examples = async |method| {
        let read = || read_examples(body, columns, bounds, method);
        intake.parse(body.len(), read).await
    };
    let (rows, text, room) = match method {
        "predict" => {
            let read = || PredictRequest::read(body, columns, bounds);
            let request = intake.parse(body.len(), read).await?;
            let rows = request.filled.batch.rows;
            let (predictions, room) = version.predict(request.filled, intake).await?;
            let outputs = &version.signature.outputs;
            let text = answer::predictions(&predictions, outputs, request.layout);
            (rows, text, room)
        }
        "classify" => {
            let filled = examples(SignatureMethod::Classify).await?;
            let rows = filled.batch.rows;
            let (predictions, room) = version.predict(filled, intake).await?;
            (rows, answer::classifications(&predictions)?, room)
        }
        "regress" => {
            let filled = examples(SignatureMethod::Regress).await?;
            let rows = filled.batch.rows;
            let (predictions, room) = version.predict(filled, intake).await?;
            (rows, answer::regressions(&predictions)?, room)
        }
        other => {
            return Err(Error::Path(format!(
                "no method `{}`; methods: predict, classify, regress",
                crate::text::shown(other)
            )));
        }
    };
    let telemetry = &version.telemetry;
    telemetry.answered(Protocol::TensorFlowRest, rows, began.elapsed());
    Ok(Answer::json(text).held_by(room))
}

/// Returns the body of an error, which both protocols have in the same form.
pub(crate) fn error_body(error: &Error) -> String {
    let mut text = "{\"error\":".to_owned();
    write_text(&mut text, &message(&error.to_string()));
    text.push('}');
    text
}
