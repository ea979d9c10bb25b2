//! Requests of several clients that are predicted together: each client gets the answers of its own rows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use serde_json::{Value, json};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;
use trainyard_tests::{Draw, free_ports, metric};

use crate::serving::client::post;
use crate::serving::{LIMIT, Server, run, trained};

/// Rows that clients ask for, each with an answer of its own.
const ROWS: usize = 500;
/// Most rows of a request.
const ROWS_OF_REQUEST_MAX: u64 = 4;
/// Clients of each protocol.
const CLIENTS: usize = 3;
/// Answers that all clients of a protocol wait for before the version changes, and behind it.
const ANSWERS: usize = 150;

/// What a client was told: its rows, the probability of each, and the version, where the protocol names it.
#[derive(Debug, Clone)]
struct Answer {
    rows: Vec<usize>,
    values: Vec<f32>,
    version: Option<u64>,
}

/// Rows of a request, column by column.
struct Request {
    rows: Vec<usize>,
    x: Vec<f32>,
    z: Vec<f32>,
    word: Vec<String>,
}

impl Request {
    /// Returns some of the rows.
    fn drawn(draw: &mut Draw) -> Self {
        let count = 1 + draw.below(ROWS_OF_REQUEST_MAX);
        let rows: Vec<usize> = (0..count)
            .map(|_| draw.below(ROWS as u64) as usize)
            .collect();
        Self {
            x: rows.iter().map(|row| x(*row)).collect(),
            z: rows.iter().map(|row| z(*row)).collect(),
            word: rows.iter().map(|row| word(*row)).collect(),
            rows,
        }
    }
}

// Eighths and such have the same digits as text and as number.
fn x(row: usize) -> f32 {
    row as f32 / 128.0 - 2.0
}

fn z(row: usize) -> f32 {
    (row * 7 % 33) as f32 / 16.0 - 1.0
}

fn word(row: usize) -> String {
    format!("w{}", row % 5)
}

fn floats(values: &Value) -> Vec<f32> {
    let values = values.as_array().expect("values");
    let number = |value: &Value| value.as_f64().expect("a number") as f32;
    values.iter().map(number).collect()
}

/// A protocol, and what asks by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Rest,
    OpenInference,
    OpenInferenceGrpc,
    TensorFlowServing,
}

const PROTOCOLS: [Protocol; 4] = [
    Protocol::Rest,
    Protocol::OpenInference,
    Protocol::OpenInferenceGrpc,
    Protocol::TensorFlowServing,
];

/// A client of one protocol.
struct Client {
    protocol: Protocol,
    http: String,
    grpc: Channel,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    fn of(protocol: Protocol, http: &str, grpc: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let endpoint = Channel::from_shared(format!("http://{grpc}")).expect("an address");
        let grpc = runtime
            .block_on(endpoint.connect())
            .expect("the server listens");
        Self {
            protocol,
            http: http.to_owned(),
            grpc,
            runtime,
        }
    }

    fn call<A: Message + Send + Sync + 'static, B: Message + Default + Send + Sync + 'static>(
        &self,
        path: &'static str,
        request: A,
    ) -> B {
        let mut client = tonic::client::Grpc::new(self.grpc.clone());
        let codec = ProstCodec::<A, B>::default();
        let answer = self.runtime.block_on(async {
            client.ready().await.expect("a connection");
            let request = tonic::Request::new(request);
            client
                .unary(request, PathAndQuery::from_static(path), codec)
                .await
        });
        answer.expect("an answer").into_inner()
    }

    fn ask(&self, request: &Request) -> Answer {
        let rows = request.rows.clone();
        match self.protocol {
            Protocol::Rest => {
                let columns = json!({"x": request.x, "z": request.z, "word": request.word});
                let body = json!({ "inputs": columns }).to_string();
                let (status, answer) = post(&self.http, "/v1/models/model:predict", &body);
                assert_eq!(status, 200, "{answer}");
                let logistic = answer["outputs"]["logistic"].as_array().expect("rows");
                Answer {
                    rows,
                    values: logistic.iter().flat_map(floats).collect(),
                    version: None,
                }
            }
            Protocol::OpenInference => {
                let count = rows.len();
                let input = |name: &str, datatype: &str, data: Value| json!({"name": name, "datatype": datatype, "shape": [count], "data": data});
                let inputs = [
                    input("x", "FP32", json!(request.x)),
                    input("z", "FP32", json!(request.z)),
                    input("word", "BYTES", json!(request.word)),
                ];
                let outputs = json!([{"name": "logistic"}]);
                let body = json!({"inputs": inputs, "outputs": outputs}).to_string();
                let (status, answer) = post(&self.http, "/v2/models/model/infer", &body);
                assert_eq!(status, 200, "{answer}");
                let version = answer["model_version"].as_str().expect("a version");
                Answer {
                    rows,
                    values: floats(&answer["outputs"][0]["data"]),
                    version: version.parse().ok(),
                }
            }
            Protocol::OpenInferenceGrpc => {
                let input = |name: &str, datatype: &str, contents| InferInput {
                    name: name.to_owned(),
                    datatype: datatype.to_owned(),
                    shape: vec![rows.len() as i64],
                    contents: Some(contents),
                };
                let numbers = |values: &[f32]| Contents {
                    fp32: values.to_vec(),
                    bytes: Vec::new(),
                };
                let texts = request.word.iter().map(|word| word.clone().into_bytes());
                let asked = InferRequest {
                    model_name: "model".to_owned(),
                    inputs: vec![
                        input("x", "FP32", numbers(&request.x)),
                        input("z", "FP32", numbers(&request.z)),
                        input(
                            "word",
                            "BYTES",
                            Contents {
                                fp32: Vec::new(),
                                bytes: texts.collect(),
                            },
                        ),
                    ],
                    outputs: vec![RequestedOutput {
                        name: "logistic".to_owned(),
                    }],
                };
                let answer: InferResponse =
                    self.call("/inference.GRPCInferenceService/ModelInfer", asked);
                let values = answer.outputs.into_iter().flat_map(|output| {
                    assert_eq!(output.name, "logistic");
                    output.contents.unwrap_or_default().fp32
                });
                let raw = answer
                    .raw_output_contents
                    .iter()
                    .flat_map(|raw| raw.chunks_exact(4));
                let raw = raw.map(|bytes| f32::from_le_bytes(bytes.try_into().expect("4 bytes")));
                Answer {
                    rows,
                    values: values.chain(raw).collect(),
                    version: answer.model_version.parse().ok(),
                }
            }
            Protocol::TensorFlowServing => {
                let tensor = |dtype, floats: &[f32], texts: Vec<Vec<u8>>| Tensor {
                    dtype,
                    shape: Some(Shape {
                        dim: vec![Dim {
                            size: rows.len() as i64,
                        }],
                    }),
                    content: Vec::new(),
                    floats: floats.to_vec(),
                    texts,
                };
                let texts = request.word.iter().map(|word| word.clone().into_bytes());
                let inputs = [
                    ("x".to_owned(), tensor(1, &request.x, Vec::new())),
                    ("z".to_owned(), tensor(1, &request.z, Vec::new())),
                    ("word".to_owned(), tensor(7, &[], texts.collect())),
                ];
                let asked = PredictRequest {
                    model: Some(ModelSpec {
                        name: "model".to_owned(),
                        version: None,
                    }),
                    inputs: inputs.into(),
                    output_filter: vec!["logistic".to_owned()],
                };
                let answer: PredictResponse =
                    self.call("/tensorflow.serving.PredictionService/Predict", asked);
                let tensor = &answer.outputs["logistic"];
                let content = tensor.content.chunks_exact(4);
                let content =
                    content.map(|bytes| f32::from_le_bytes(bytes.try_into().expect("4 bytes")));
                let version = answer.model.and_then(|model| model.version);
                Answer {
                    rows,
                    values: tensor.floats.iter().copied().chain(content).collect(),
                    version: version.map(|version| version.value as u64),
                }
            }
        }
    }
}

/// Writes the rows, and returns what `predict` says to each from the newest checkpoint.
fn predicted(job: &str, folder: &Path) -> Vec<f32> {
    let mut text = "x,z,word\n".to_owned();
    for row in 0..ROWS {
        text += &format!("{},{},{}\n", x(row), z(row), word(row));
    }
    let input = folder.join("asked.csv");
    let output = folder.join("told.jsonl");
    std::fs::write(&input, text).expect("the rows are written");
    run(&[
        "predict",
        job,
        "--input",
        &input.to_string_lossy(),
        "--output",
        &output.to_string_lossy(),
    ]);
    let lines = std::fs::read_to_string(&output).expect("the predictions");
    let probability = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        floats(&line["logistic"])[0]
    };
    let values: Vec<f32> = lines.lines().map(probability).collect();
    assert_eq!(values.len(), ROWS);
    values
}

/// Asks until told to stop, and returns what came.
fn ask(client: &Client, seed: u64, count: &AtomicUsize, stop: &AtomicBool) -> Vec<Answer> {
    let mut draw = Draw::new(seed);
    let mut answers = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        answers.push(client.ask(&Request::drawn(&mut draw)));
        count.fetch_add(1, Ordering::Relaxed);
    }
    answers
}

/// Waits for further answers by every protocol.
fn wait_for_answers(counts: &[AtomicUsize]) {
    let before: Vec<usize> = counts
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .collect();
    let until = Instant::now() + LIMIT;
    let has_enough =
        |(count, before): (&AtomicUsize, &usize)| count.load(Ordering::Relaxed) >= before + ANSWERS;
    while !counts.iter().zip(&before).all(has_enough) {
        assert!(
            Instant::now() < until,
            "answers after {before:?}: {counts:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

trial!(clients_whose_requests_are_predicted_together_get_the_answers_of_their_own_rows_while_versions_change);
fn clients_whose_requests_are_predicted_together_get_the_answers_of_their_own_rows_while_versions_change()
 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = trained(folder, 20);
    let mut of_version = BTreeMap::from([(20, predicted(&job, folder))]);
    let config = folder.join("serving.toml");
    // Requests wait for each other, so that most batches are of several.
    std::fs::write(
        &config,
        "batch_delay_max_us = 4000\nbatch_size_max = 16\n[[model]]\nname = \"model\"\npath = \"model\"\n",
    )
    .expect("the configuration is written");
    let admin = format!("127.0.0.1:{}", free_ports(1)[0]);
    let mut server = Server::start(&[
        "--admin-listen",
        &admin,
        "--config",
        &config.to_string_lossy(),
        "--listen-grpc",
        "127.0.0.1:0",
    ]);
    server.wait_for_version("model", 20);
    let line = server.program.wait_for("gRPC is served", LIMIT);
    let grpc = line.rsplit_once("address=").expect("an address").1.trim();
    let http = server.address.clone();
    let seed = trainyard_tests::seed("clients get the answers of their own rows");
    let stop = AtomicBool::new(false);
    let counts: Vec<AtomicUsize> = PROTOCOLS.iter().map(|_| AtomicUsize::new(0)).collect();
    let told: Vec<(Protocol, Vec<Answer>)> = std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for (protocol, count) in PROTOCOLS.into_iter().zip(&counts) {
            for number in 0..CLIENTS {
                let (http, stop) = (&http, &stop);
                let clients_seed = seed + (clients.len() * CLIENTS + number) as u64;
                clients.push((
                    protocol,
                    scope.spawn(move || {
                        let client = Client::of(protocol, http, grpc);
                        ask(&client, clients_seed, count, stop)
                    }),
                ));
            }
        }
        wait_for_answers(&counts);
        let end = "train.max_steps=60";
        run(&["train", &job, "--set", end, "--log-level", "error"]);
        server.wait_for_version("model", 60);
        wait_for_answers(&counts);
        stop.store(true, Ordering::Relaxed);
        let told = clients
            .into_iter()
            .map(|(protocol, client)| (protocol, client.join().expect("every call is answered")));
        told.collect()
    });
    of_version.insert(60, predicted(&job, folder));
    let differ = (0..ROWS).filter(|row| of_version[&20][*row] != of_version[&60][*row]);
    assert!(differ.count() > ROWS * 9 / 10, "the versions answer alike");
    for (protocol, answers) in &told {
        let mut newest = 0;
        for answer in answers {
            let is_of = |version: &u64| {
                let expected = &of_version[version];
                answer.values.len() == answer.rows.len()
                    && answer
                        .rows
                        .iter()
                        .zip(&answer.values)
                        .all(|(row, value)| value.to_bits() == expected[*row].to_bits())
            };
            let version = of_version.keys().copied().find(is_of);
            let version = version.unwrap_or_else(|| {
                panic!("{protocol:?}: neither version predicts {answer:?} for these rows")
            });
            if let Some(named) = answer.version {
                assert_eq!(named, version, "{protocol:?}: {answer:?}");
            }
            assert!(
                version >= newest,
                "{protocol:?} went back to version {version}"
            );
            newest = version;
        }
        assert_eq!(
            newest, 60,
            "{protocol:?}: the last answers are of the newer version"
        );
    }
    let batches = metric(
        &admin,
        "trainyard_serving_batch_rows_count{model=\"model\"}",
    );
    let batches = batches.expect("a count of batches");
    let requests: usize = told.iter().map(|(_, answers)| answers.len()).sum();
    assert!(
        batches < 0.8 * requests as f64,
        "{requests} requests were predicted in {batches} batches: too few shared one"
    );
}

#[derive(Clone, PartialEq, Message)]
struct InferRequest {
    #[prost(string, tag = "1")]
    model_name: String,
    #[prost(message, repeated, tag = "5")]
    inputs: Vec<InferInput>,
    #[prost(message, repeated, tag = "6")]
    outputs: Vec<RequestedOutput>,
}

#[derive(Clone, PartialEq, Message)]
struct InferInput {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    datatype: String,
    #[prost(int64, repeated, tag = "3")]
    shape: Vec<i64>,
    #[prost(message, optional, tag = "5")]
    contents: Option<Contents>,
}

#[derive(Clone, PartialEq, Message)]
struct RequestedOutput {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Contents {
    #[prost(float, repeated, tag = "6")]
    fp32: Vec<f32>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    bytes: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct InferResponse {
    #[prost(string, tag = "2")]
    model_version: String,
    #[prost(message, repeated, tag = "5")]
    outputs: Vec<InferInput>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    raw_output_contents: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct PredictRequest {
    #[prost(message, optional, tag = "1")]
    model: Option<ModelSpec>,
    #[prost(btree_map = "string, message", tag = "2")]
    inputs: BTreeMap<String, Tensor>,
    #[prost(string, repeated, tag = "3")]
    output_filter: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct PredictResponse {
    #[prost(btree_map = "string, message", tag = "1")]
    outputs: BTreeMap<String, Tensor>,
    #[prost(message, optional, tag = "2")]
    model: Option<ModelSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct ModelSpec {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    version: Option<Int64Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Int64Value {
    #[prost(int64, tag = "1")]
    value: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
    #[prost(bytes = "vec", tag = "4")]
    content: Vec<u8>,
    #[prost(float, repeated, tag = "5")]
    floats: Vec<f32>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    texts: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "2")]
    dim: Vec<Dim>,
}

#[derive(Clone, PartialEq, Message)]
struct Dim {
    #[prost(int64, tag = "1")]
    size: i64,
}
