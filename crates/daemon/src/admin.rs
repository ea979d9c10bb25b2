//! The admin port: `/metrics`, `/healthz`, `/readyz`.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use trainyard_cluster_spec::Task;

use crate::{Readiness, Telemetry};

#[derive(Debug, Clone)]
struct Shared {
    telemetry: Telemetry,
    readiness: Readiness,
    task: Task,
}

/// Serves the admin port until told to stop.
pub(crate) async fn serve(
    listener: TcpListener,
    telemetry: Telemetry,
    readiness: Readiness,
    task: Task,
    stop: CancellationToken,
) {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(Shared { telemetry, readiness, task });
    let served = axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = served.await {
        tracing::warn!(%error, "the admin port has failed");
    }
}

async fn metrics(State(shared): State<Shared>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], shared.telemetry.render())
}

async fn ready(State(shared): State<Shared>) -> impl IntoResponse {
    let standing = shared.readiness.get();
    let status = if standing.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = serde_json::json!({
        "role": shared.task.role, "task": shared.task.to_string(), "state": standing.state,
        "ready": standing.ready, "waiting_for": standing.waiting_for,
    });
    (status, Json(body))
}
