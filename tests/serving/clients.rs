//! Clients of others: Triton's and KServe's over HTTP and gRPC, and TensorFlow Serving's over gRPC.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use trainyard_tests::Need;

use crate::serving::client::post;
use crate::serving::{LIMIT, Server, trained};

/// A server of one model, whose answers are known.
struct Served {
    /// Its job and its checkpoint, removed at the end.
    _folder: tempfile::TempDir,
    server: Server,
    /// Address of gRPC.
    grpc: String,
    /// Columns of a request and the `logistic` that answers it, as JSON.
    case: String,
}

impl Served {
    /// Trains and serves a model, `job`, whose version is 20.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = trained(folder.path(), 20);
        let mut server = Server::start(&[&job, "--listen-grpc", "127.0.0.1:0"]);
        server.wait_for_version("job", 20);
        let line = server.program.wait_for("gRPC is served", LIMIT);
        let grpc = line.rsplit_once("address=").expect("an address").1.trim();
        let columns =
            json!({"x": [0.5, -0.25, 3.0], "z": [-1.0, 0.125, 2.0], "word": ["w1", "w2", "ü"]});
        let body = json!({ "inputs": columns }).to_string();
        let (status, answer) = post(&server.address, "/v1/models/job:predict", &body);
        assert_eq!(status, 200, "{answer}");
        let rows = answer["outputs"]["logistic"].as_array().expect("rows");
        let logistic: Vec<Value> = rows.iter().map(|row| row[0].clone()).collect();
        Self {
            case: json!({"columns": columns, "logistic": logistic}).to_string(),
            grpc: grpc.to_owned(),
            server,
            _folder: folder,
        }
    }

    /// Runs a client, which compares its answers with the case, and returns what it prints.
    fn asked_by(&self, need: Need, arguments: &[&str]) -> String {
        let mut client = Command::new(need.program())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the Python starts");
        let mut input = client.stdin.take().expect("piped");
        input.write_all(self.case.as_bytes()).expect("it is read");
        drop(input);
        let output = client.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        text.trim().to_owned()
    }
}

trial!(the_clients_of_triton_get_the_same_answers_over_http_and_grpc, needs TritonClients);
fn the_clients_of_triton_get_the_same_answers_over_http_and_grpc() {
    let served = Served::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/serving/clients.py");
    let arguments = [script, &served.server.address, &served.grpc, "job"];
    let told = served.asked_by(Need::TritonClients, &arguments);
    assert_eq!(told, "compared 3");
}

trial!(the_client_of_tensorflow_serving_gets_the_same_answers, needs TensorFlowServing);
fn the_client_of_tensorflow_serving_gets_the_same_answers() {
    let served = Served::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/serving/tensorflow_clients.py");
    let arguments = [script, &served.grpc, "job", "20"];
    let told = served.asked_by(Need::TensorFlowServing, &arguments);
    assert_eq!(told, "compared 8");
}

trial!(the_clients_of_kserve_get_the_same_answers_over_http_and_grpc, needs KserveClients);
fn the_clients_of_kserve_get_the_same_answers_over_http_and_grpc() {
    let served = Served::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/serving/kserve_clients.py");
    let arguments = [script, &served.server.address, &served.grpc, "job"];
    let told = served.asked_by(Need::KserveClients, &arguments);
    assert_eq!(told, "compared 5");
}
