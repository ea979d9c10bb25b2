//! Metrics of the server of predictions.

use std::time::Duration;

use metrics::{
    Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

/// Protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// TensorFlow Serving over HTTP.
    TensorFlowRest,
    /// TensorFlow Serving over gRPC.
    TensorFlowGrpc,
    /// Open Inference Protocol over HTTP.
    InferenceRest,
    /// Open Inference Protocol over gRPC.
    InferenceGrpc,
}

impl Protocol {
    /// Returns the value of the label `protocol`.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::TensorFlowRest => "tensorflow-rest",
            Self::TensorFlowGrpc => "tensorflow-grpc",
            Self::InferenceRest => "inference-rest",
            Self::InferenceGrpc => "inference-grpc",
        }
    }
}

/// Describes the metrics.
pub(crate) fn describe() {
    describe_counter!(
        "trainyard_serving_requests_total",
        "Requests for predictions, by model, protocol and outcome."
    );
    describe_counter!("trainyard_serving_rows_total", "Rows predicted, by model.");
    describe_histogram!(
        "trainyard_serving_request_seconds",
        "Time from the last byte of a request to its answer, by model, version and protocol."
    );
    describe_histogram!(
        "trainyard_serving_batch_rows",
        "Rows that were predicted together, by model."
    );
    describe_gauge!(
        "trainyard_serving_queue_requests",
        "Requests that wait for their prediction, by model."
    );
    describe_gauge!(
        "trainyard_serving_model_version",
        "Newest version that answers, by model."
    );
    describe_gauge!(
        "trainyard_serving_model_age_seconds",
        "Time since the newest version that answers was written, by model."
    );
    describe_counter!(
        "trainyard_serving_versions_refused_total",
        "Versions that could not be loaded, by model."
    );
    describe_gauge!(
        "trainyard_serving_connections",
        "Connections of clients that are open."
    );
    describe_counter!(
        "trainyard_serving_connections_refused_total",
        "Connections of clients refused because too many are open."
    );
    counter!("trainyard_serving_connections_refused_total").absolute(0);
}

/// Metrics of one version of a model.
#[derive(Debug)]
pub(crate) struct VersionTelemetry {
    model: String,
    version: String,
    pub(crate) queue: Gauge,
    pub(crate) batch_rows: Histogram,
}

impl VersionTelemetry {
    pub(crate) fn new(model: &str, version: u64) -> Self {
        let model = model.to_owned();
        Self {
            queue: gauge!("trainyard_serving_queue_requests", "model" => model.clone()),
            batch_rows: histogram!("trainyard_serving_batch_rows", "model" => model.clone()),
            version: version.to_string(),
            model,
        }
    }

    /// Records a request that was answered.
    pub(crate) fn answered(&self, protocol: Protocol, rows: usize, took: Duration) {
        let model = self.model.clone();
        counter!("trainyard_serving_rows_total", "model" => model.clone()).increment(rows as u64);
        histogram!(
            "trainyard_serving_request_seconds",
            "model" => model,
            "version" => self.version.clone(),
            "protocol" => protocol.label()
        )
        .record(took);
    }
}

/// Records the outcome of a request.
pub(crate) fn count(model: &str, protocol: Protocol, outcome: &'static str) {
    counter!(
        "trainyard_serving_requests_total",
        "model" => model.to_owned(),
        "protocol" => protocol.label(),
        "outcome" => outcome
    )
    .increment(1);
}
