//! Channel to a peer. Each call carries the credentials of the caller.

use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{HeaderValue, Request, Response, header};
use tonic::transport::channel::ResponseFuture;
use tonic::transport::{Channel as Transport, Error};

/// A channel, and the caller's token if tokens are in use.
#[derive(Debug, Clone)]
pub struct Channel {
    transport: Transport,
    /// Value of the header `authorization`. It is marked as sensitive, so it is never shown.
    authorization: Option<HeaderValue>,
}

impl Channel {
    /// Returns a channel whose calls carry the header `authorization`. An invalid header value is omitted; the peer
    /// then refuses the calls.
    pub fn new(transport: Transport, authorization: Option<&str>) -> Self {
        let authorization = authorization.and_then(|value| {
            let mut value = HeaderValue::from_str(value).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self {
            transport,
            authorization,
        }
    }
}

impl From<Transport> for Channel {
    fn from(transport: Transport) -> Self {
        Self {
            transport,
            authorization: None,
        }
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.transport.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> ResponseFuture {
        if let Some(authorization) = &self.authorization {
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, authorization.clone());
        }
        self.transport.call(request)
    }
}
