//! Metrics of the server of predictions.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use crate::Error;

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
    const ALL: [Self; 4] = [
        Self::TensorFlowRest,
        Self::TensorFlowGrpc,
        Self::InferenceRest,
        Self::InferenceGrpc,
    ];

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
    describe_counter!(
        "trainyard_serving_cuts_applied_total",
        "Published cuts that have answered, by model."
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
    describe_counter!(
        "trainyard_serving_looks_failed_total",
        "Looks for new versions that failed because the model's folder or bucket could not be read, by model."
    );
    describe_gauge!(
        "trainyard_serving_connections",
        "Connections of clients that are open."
    );
    describe_counter!(
        "trainyard_serving_connections_refused_total",
        "Connections of clients refused because too many are open, or their TLS handshake failed."
    );
    counter!("trainyard_serving_connections_refused_total").absolute(0);
}

/// Metrics of one version of a model. The handles are kept, because looking one up takes as long as parsing a row.
#[derive(Debug)]
pub(crate) struct VersionTelemetry {
    pub(crate) model: String,
    rows: Counter,
    protocols: Vec<ProtocolTelemetry>,
    pub(crate) queue: Gauge,
    pub(crate) batch_rows: Histogram,
}

/// Metrics of the requests of one protocol that a version has answered.
#[derive(Debug)]
struct ProtocolTelemetry {
    protocol: Protocol,
    answered: Counter,
    seconds: Histogram,
}

impl VersionTelemetry {
    /// Returns the metrics of a version, by the value of its label.
    pub(crate) fn new(model: &str, version: String) -> Self {
        let model = model.to_owned();
        let protocols = Protocol::ALL.map(|protocol| ProtocolTelemetry {
            protocol,
            answered: requests(&model, protocol, "answered"),
            seconds: histogram!(
                "trainyard_serving_request_seconds",
                "model" => model.clone(),
                "version" => version.clone(),
                "protocol" => protocol.label()
            ),
        });
        Self {
            rows: counter!("trainyard_serving_rows_total", "model" => model.clone()),
            protocols: protocols.into(),
            queue: gauge!("trainyard_serving_queue_requests", "model" => model.clone()),
            batch_rows: histogram!("trainyard_serving_batch_rows", "model" => model.clone()),
            model,
        }
    }

    /// Records a request that was answered.
    pub(crate) fn answered(&self, protocol: Protocol, rows: usize, took: Duration) {
        self.rows.increment(rows as u64);
        let mut all = self.protocols.iter();
        if let Some(telemetry) = all.find(|telemetry| telemetry.protocol == protocol) {
            telemetry.answered.increment(1);
            telemetry.seconds.record(took);
        }
    }
}

/// Records a request that was not answered.
pub(crate) fn count_failure(model: &str, protocol: Protocol, error: &Error) {
    // A name that is not served is no label: a caller could make any number of them.
    if !matches!(error, Error::NotFound(_)) {
        requests(model, protocol, error.outcome()).increment(1);
    }
}

fn requests(model: &str, protocol: Protocol, outcome: &'static str) -> Counter {
    counter!(
        "trainyard_serving_requests_total",
        "model" => model.to_owned(),
        "protocol" => protocol.label(),
        "outcome" => outcome
    )
}
