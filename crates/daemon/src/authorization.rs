//! Authorization: a layer before all services that identifies the caller and checks that its role may call the method.

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
use trainyard_security::{Identity, Security, is_for_clients, roles_of};

use crate::log_rate_limit::LogRateLimit;

/// Metadata key of the reason of a refusal, and the two reasons that this layer uses. The table of the protocol crate
/// has them, too. This crate must not depend on the protocol crate, because the evaluator must not.
const REASON_KEY: &str = "trainyard-reason";
const UNPROVED: &str = "unproved";
const NOT_ALLOWED: &str = "not_allowed";
/// Address of a caller that did not come through a connection of this daemon.
const UNKNOWN_ADDRESS: &str = "unknown";
/// Most characters of a refusal in the log. A path may be as long as a header.
const SHOWN_CHARS_MAX: usize = 512;

fn refusal(code: Code, reason: &'static str, message: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(REASON_KEY, MetadataValue::from_static(reason));
    Status::with_metadata(code, message, metadata)
}

/// The peer of a connection, by its certificate.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    /// No certificate was requested, or the certificate names no task.
    Unknown,
    /// A task.
    Known(Identity),
    /// A process of the same user, through a socket file.
    SameHost,
}

/// The caller of a request, by its credentials and its address. Its identity is unknown if credentials are not required;
/// then the caller may act as any task.
#[derive(Debug, Clone)]
pub struct Caller {
    identity: Option<Identity>,
    address: Arc<str>,
    refusals: Arc<LogRateLimit>,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            identity: None,
            address: UNKNOWN_ADDRESS.into(),
            refusals: Arc::default(),
        }
    }
}

impl Caller {
    /// Returns the caller of a request that the layer has let pass.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Returns the address of the caller, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns whether the caller has the credentials of a chief, or credentials are not required.
    pub fn may_be_chief(&self) -> bool {
        self.identity
            .is_none_or(|identity| identity.role == Role::Chief)
    }

    /// Checks that the caller is the task that its message names. All chiefs, leading and standby, are `chief:0` there.
    ///
    /// # Errors
    /// The caller is another task (`PERMISSION_DENIED`).
    pub fn speaks_as(&self, task: Task) -> Result<(), Status> {
        match self.identity {
            Some(identity)
                if !identity.is(task)
                    && (identity.role, task.role) != (Role::Chief, Role::Chief) =>
            {
                counter!("trainyard_calls_refused_total").increment(1);
                let message = format!("{identity} may not send requests as {task}");
                if let Some(unsaid) = self.refusals.may() {
                    warn!(peer = %self.address, unsaid, "call refused: {message}");
                }
                Err(refusal(Code::PermissionDenied, NOT_ALLOWED, message))
            }
            _ => Ok(()),
        }
    }
}

/// Peer and address of a connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    pub(crate) address: Arc<str>,
}

/// Layer that passes on only permitted requests.
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

    /// Identifies the caller of a request, and checks that it may call the method. Nothing is returned if credentials are
    /// not required.
    ///
    /// # Errors
    /// The reason of the refusal.
    fn identity<B>(&self, request: &Request<B>) -> Result<Option<Identity>, Status> {
        if self.security.serves_clients() {
            return self.client(request).map(|()| None);
        }
        let peer = request
            .extensions()
            .get::<ConnectionInfo>()
            .map_or(Peer::Unknown, |met| met.peer);
        if !self.security.asks_who() || matches!(peer, Peer::SameHost) {
            return Ok(None);
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
                "{path}: the caller has not proved which task it is: start the caller with a \
                certificate that names its task, or with the token of its role"
            );
            return Err(refusal(Code::Unauthenticated, UNPROVED, message));
        };
        match roles_of(path) {
            None => Err(Status::unimplemented(format!(
                "{path}: no such method exists"
            ))),
            Some(roles) if roles.contains(&identity.role) => Ok(Some(identity)),
            Some(_) => Err(refusal(
                Code::PermissionDenied,
                NOT_ALLOWED,
                format!("{path}: {identity} may not call this method"),
            )),
        }
    }

    /// Checks that a client of a service has proved itself, and that the method is for clients.
    ///
    /// # Errors
    /// The reason of the refusal.
    fn client<B>(&self, request: &Request<B>) -> Result<(), Status> {
        let path = request.uri().path();
        let authorization = request.headers().get(header::AUTHORIZATION);
        let admitted = self
            .security
            .admit(authorization.map(|value| value.as_bytes()));
        admitted
            .map_err(|what| refusal(Code::Unauthenticated, UNPROVED, format!("{path}: {what}")))?;
        if is_for_clients(path) {
            return Ok(());
        }
        Err(Status::unimplemented(format!(
            "{path}: no such method exists"
        )))
    }
}

/// A service behind the authorization layer.
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
        let address = request
            .extensions()
            .get::<ConnectionInfo>()
            .map_or_else(|| UNKNOWN_ADDRESS.into(), |met| Arc::clone(&met.address));
        let refusals = &self.authorization.refusals;
        match self.authorization.identity(&request) {
            Ok(identity) => {
                let caller = Caller {
                    identity,
                    address,
                    refusals: Arc::clone(refusals),
                };
                request.extensions_mut().insert(caller);
                Either::Left(self.service.call(request))
            }
            Err(status) => {
                counter!("trainyard_calls_refused_total").increment(1);
                if let Some(unsaid) = refusals.may() {
                    let told = trainyard_diagnostic::escape(status.message());
                    warn!(
                        peer = %address,
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
