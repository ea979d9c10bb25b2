//! The gate in front of all services: who calls, and whether that role may.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use metrics::counter;
use tokio_util::either::Either;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Extensions, Request, Response, header};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tracing::warn;
use trainyard_cluster_spec::{Role, Task};
use trainyard_security::{Identity, Security, roles_of};

use crate::log_rate_limit::LogRateLimit;

/// Metadata key of the reason of a refusal, and the two reasons that are given here. The protocol's table has them too; this crate does not know
/// it, as the evaluator must not.
const REASON_KEY: &str = "trainyard-reason";
const UNPROVED: &str = "unproved";
const NOT_ALLOWED: &str = "not_allowed";
/// Characters of a refusal in the log: a path may be as long as a header.
const SHOWN_CHARS_MAX: usize = 512;

fn refusal(code: Code, reason: &'static str, message: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(REASON_KEY, MetadataValue::from_static(reason));
    Status::with_metadata(code, message, metadata)
}

/// Who is at the other end of a connection, as its certificate says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    /// Nobody has asked, or its certificate names no task.
    Unknown,
    /// A task.
    Known(Identity),
    /// A process of this host that may open the socket's file.
    SameHost,
}

/// Who calls, as its credentials say. Nobody where none are asked for: then it may say that it is any task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caller(Option<Identity>);

impl Caller {
    /// Returns who has made a request that has come through the gate.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or_default()
    }

    /// Returns whether the caller has the credentials of a chief, or credentials are not required.
    pub fn may_be_chief(self) -> bool {
        self.0.is_none_or(|identity| identity.role == Role::Chief)
    }

    /// Checks that the caller is the task that its message names. Chiefs that stand by for one another are all `chief:0` there.
    ///
    /// # Errors
    /// It is another (`PERMISSION_DENIED`).
    pub fn speaks_as(self, task: Task) -> Result<(), Status> {
        match self.0 {
            Some(identity)
                if !identity.is(task)
                    && (identity.role, task.role) != (Role::Chief, Role::Chief) =>
            {
                counter!("trainyard_calls_refused_total").increment(1);
                let message = format!("{identity} may not speak as {task}");
                warn!("call refused: {message}");
                Err(refusal(Code::PermissionDenied, NOT_ALLOWED, message))
            }
            _ => Ok(()),
        }
    }
}

/// Who has connected, and from where.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    pub(crate) address: Arc<str>,
}

/// Passes on what a caller may ask for.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    security: Arc<Security>,
    refusals: Arc<LogRateLimit>,
}

impl Authorization {
    pub(crate) fn new(security: Arc<Security>) -> Self {
        Self {
            security,
            refusals: Arc::default(),
        }
    }

    /// Who makes a request.
    ///
    /// # Errors
    /// Why it is refused.
    fn caller<B>(&self, request: &Request<B>) -> Result<Caller, Status> {
        let peer = request
            .extensions()
            .get::<ConnectionInfo>()
            .map_or(Peer::Unknown, |met| met.peer);
        if !self.security.asks_who() || matches!(peer, Peer::SameHost) {
            return Ok(Caller::default());
        }
        let certified = if let Peer::Known(identity) = peer {
            Some(identity)
        } else {
            None
        };
        let authorization = request
            .headers()
            .get(header::AUTHORIZATION)
            .map(|value| value.as_bytes());
        let path = request.uri().path();
        let Some(identity) = self.security.who(certified, authorization) else {
            let message = format!(
                "{path}: the caller has not proved which task it is: it needs a certificate that names one, or its role's token"
            );
            return Err(refusal(Code::Unauthenticated, UNPROVED, message));
        };
        match roles_of(path) {
            None => Err(Status::unimplemented(format!(
                "{path}: there is no such method"
            ))),
            Some(roles) if roles.contains(&identity.role) => Ok(Caller(Some(identity))),
            Some(_) => Err(refusal(
                Code::PermissionDenied,
                NOT_ALLOWED,
                format!("{path}: {identity} may not call it"),
            )),
        }
    }
}

/// A service behind the gate.
#[derive(Debug, Clone)]
pub(crate) struct Authorized<S> {
    authorization: Authorization,
    service: S,
}

impl<S> tower::Layer<S> for Authorization {
    type Service = Authorized<S>;

    fn layer(&self, service: S) -> Authorized<S> {
        Authorized {
            authorization: self.clone(),
            service,
        }
    }
}

impl<S, B> Service<Request<B>> for Authorized<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.authorization.caller(&request) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Either::Left(self.service.call(request))
            }
            Err(status) => {
                counter!("trainyard_calls_refused_total").increment(1);
                if let Some(unsaid) = self.authorization.refusals.may() {
                    let told = trainyard_diagnostic::escape(status.message());
                    let from = request
                        .extensions()
                        .get::<ConnectionInfo>()
                        .map_or("unknown", |met| &met.address);
                    warn!(
                        peer = from,
                        unsaid,
                        "call refused: {}",
                        told.chars().take(SHOWN_CHARS_MAX).collect::<String>()
                    );
                }
                Either::Right(ready(Ok(status.into_http())))
            }
        }
    }
}
