//! Admin port: `/metrics`, `/healthz`, `/readyz`, and the page of a role that has one.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics::{describe_gauge, gauge};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::hosts::Hosts;
use crate::pending_handshakes::PendingHandshakes;
use crate::supervision::Supervision;
use crate::{Page, Readiness, Telemetry};

/// Most connections at a time. A further connection closes the oldest one: clients that poll can reconnect.
const CONNECTIONS_MAX: usize = 128;
/// Timeout for the head of a request, from the first byte of the connection or from the last response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after an error of accept, mostly for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// State that the admin port serves.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    telemetry: Telemetry,
    readiness: Readiness,
    page: Page,
    role: String,
    task: String,
}

impl Shared {
    pub(crate) fn new(telemetry: Telemetry, supervision: &Supervision) -> Self {
        describe_gauge!(
            "trainyard_ready",
            "1 if the task does its work, 0 if it starts or waits."
        );
        Self {
            telemetry,
            readiness: supervision.readiness.clone(),
            page: supervision.page.clone(),
            role: supervision.role.clone(),
            task: supervision.task.clone(),
        }
    }
}

/// Serves the admin port until `stop` is cancelled. It refuses requests to names that are not its own.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Shared,
    hosts: Hosts,
    stop: CancellationToken,
) {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/", get(page))
        .route("/{*path}", get(page))
        .layer(from_fn_with_state(Arc::new(hosts), refuse_strange_names))
        .with_state(shared);
    let mut pending_handshakes = PendingHandshakes::new(CONNECTIONS_MAX);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let service = TowerToHyperService::new(routes.clone());
        pending_handshakes
            .spawn(async move {
                let mut server = http1::Builder::new();
                server
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIMEOUT);
                // Errors are ignored: the peer has closed the connection, or hyper has already replied.
                drop(server.serve_connection(TokioIo::new(stream), service).await);
            })
            .await;
    }
}

/// Refuses requests whose `Host` is not a name of this task, see [`Hosts`].
async fn refuse_strange_names(
    State(hosts): State<Arc<Hosts>>,
    request: Request,
    next: Next,
) -> Response {
    let names: Vec<&HeaderValue> = request.headers().get_all(header::HOST).iter().collect();
    if names.len() > 1 {
        // A proxy may take another of them than this server (RFC 9112, section 3.2).
        let text = "a request must have one header Host, given several\n";
        return (StatusCode::BAD_REQUEST, text).into_response();
    }
    if names.iter().all(|name| hosts.are(name.as_bytes())) {
        next.run(request).await
    } else {
        let text = "the host name of the request does not belong to this task: use its address, \
            localhost, or a name in the cluster file or in --admin-listen\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    }
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    gauge!("trainyard_ready").set(f64::from(u8::from(shared.readiness.get().ready)));
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        shared.telemetry.render(),
    )
}

async fn page(State(shared): State<Shared>, address: Uri) -> Response {
    shared.page.respond(address.path().to_owned()).await
}

async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    let standing = shared.readiness.get();
    let status = if standing.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = serde_json::json!({
        "role": shared.role, "task": shared.task, "state": standing.state,
        "ready": standing.ready, "waiting_for": standing.waiting_for,
    });
    (status, Json(body))
}
