//! Each key of `serving.toml` does what docs/serving.md says: the same request is answered otherwise with it than without it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_tests::{Program, free_ports};

use crate::serving::client::{answer, post, request};
use crate::serving::{LIMIT, run, trained};

/// A row that is right.
const ROW: &str = r#"{"x": 0.5, "z": -1, "word": "w1"}"#;
const PREDICT: &str = "/v1/models/ctr:predict";
/// A short wait that a key asks for, in seconds, and one that no server of the default comes to.
const SHORT_SECS: u64 = 1;
const WATCHED: Duration = Duration::from_secs(3);

/// A model folder with the checkpoints 20 and 40, and what `trainyard pki` makes.
struct Site<'a> {
    folder: &'a Path,
    /// Where it starts its servers.
    scratch: tempfile::TempDir,
}

/// A running server, and the address of gRPC if it has one.
struct Served {
    program: Program,
    address: String,
    grpc: Option<String>,
}

impl Site<'_> {
    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// Starts a server by a file alone: `keys` of it, and `of_model` of its model.
    fn start(&self, keys: &str, of_model: &str) -> Served {
        let file = self.scratch.path().join("serving.toml");
        let listen = if keys.contains("listen =") {
            ""
        } else {
            "listen = \"127.0.0.1:0\"\n"
        };
        let path = self.path("model");
        let text =
            format!("{listen}{keys}\n[[model]]\nname = \"ctr\"\npath = {path:?}\n{of_model}\n");
        std::fs::write(&file, text).expect("the configuration is written");
        let file = file.to_string_lossy().into_owned();
        let mut program = Program::start("trainyard", &["serve", "--config", &file], &[]);
        let behind = |line: String| {
            let found = line.rsplit_once("address=");
            found.map(|(_, address)| address.trim().to_owned())
        };
        let line = program.wait_for("predictions are served", LIMIT);
        let address = behind(line).expect("an address");
        let grpc = keys
            .contains("listen_grpc")
            .then(|| behind(program.wait_for("gRPC is served", LIMIT)).expect("an address"));
        program.wait_for("the version answers model=ctr version=40 ", LIMIT);
        Served {
            program,
            address,
            grpc,
        }
    }
}

impl Served {
    /// The answer to a prediction of some rows: its status and text.
    fn predict(&self, rows: usize) -> (u16, String) {
        predict(&self.address, rows)
    }

    fn status_of(&self, path: &str) -> u16 {
        let body = format!(r#"{{"instances": [{ROW}]}}"#);
        post(&self.address, path, &body).0
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("a timeout can be set");
        stream
    }
}

fn predict(address: &str, rows: usize) -> (u16, String) {
    let body = format!(r#"{{"instances": [{}]}}"#, vec![ROW; rows].join(","));
    let (status, told) = post(address, PREDICT, &body);
    (status, told.to_string())
}

/// Whether a server closes a connection: it has long to do so where it must, and is watched for a while where it must not.
fn ends(stream: &mut TcpStream, must: bool) -> bool {
    let watched = if must { LIMIT } else { WATCHED };
    stream
        .set_read_timeout(Some(watched))
        .expect("a timeout can be set");
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            Err(_) => return true,
        }
    }
}

fn listen(site: &Site<'_>) {
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    let served = site.start(&format!("listen = {address:?}"), "");
    assert_eq!(served.address, address);
    assert_eq!(served.predict(1).0, 200);
}

fn listen_grpc(site: &Site<'_>) {
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    let served = site.start(&format!("listen_grpc = {address:?}"), "");
    assert_eq!(served.grpc.as_deref(), Some(&*address));
    // The server's settings are the first that HTTP/2 sends.
    let mut stream = TcpStream::connect(&address).expect("the server listens");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a timeout can be set");
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .expect("it is sent");
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a frame");
    assert_eq!(head[3], 4, "{head:?}");
}

fn tls_dir(site: &Site<'_>) {
    let mut served = site.start(&format!("tls_dir = {:?}", site.path("tls/serving")), "");
    let mut stream = served.connect();
    let _ = stream.write_all(b"GET /v1/models/ctr HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    assert!(!String::from_utf8_lossy(&told).contains("AVAILABLE"));
    served.program.wait_for("it does not speak TLS", LIMIT);
    refuses_tls_1_2(&served.address);
}

/// A greeting of TLS 1.2, which knows nothing of TLS 1.3, is refused by the alert `protocol_version` (RFC 8446, 6.2).
fn refuses_tls_1_2(address: &str) {
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    // No session, one suite (TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256), no compression.
    hello.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    // Of the extensions those that such a suite needs: a curve, its points, signatures.
    hello.extend([0, 22]);
    hello.extend([0, 10, 0, 4, 0, 2, 0, 29]);
    hello.extend([0, 11, 0, 2, 1, 0]);
    hello.extend([0, 13, 0, 4, 0, 2, 4, 3]);
    let length = hello.len() as u8;
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a timeout can be set");
    stream.write_all(&record).expect("it is sent");
    let mut alert = [0; 7];
    stream.read_exact(&mut alert).expect("an alert");
    // Type 21, fatal, 70.
    assert_eq!((alert[0], alert[5], alert[6]), (21, 2, 70), "{alert:?}");
}

fn token_file(site: &Site<'_>) {
    let tokens = site.path("tls/serving.toml");
    let served = site.start(&format!("token_file = {tokens:?}"), "");
    assert_eq!(served.predict(1).0, 401);
    let text = std::fs::read_to_string(tokens).expect("a file of tokens");
    let table: toml::Table = text.parse().expect("TOML");
    let token = table["client"].as_str().expect("a text");
    let head = format!("GET /v1/models/ctr HTTP/1.1\r\nAuthorization: Bearer {token}");
    let (head, headers) = head.split_once(" HTTP/1.1\r\n").expect("two lines");
    let mut stream = served.connect();
    let asked =
        format!("{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n\r\n");
    stream.write_all(asked.as_bytes()).expect("it is sent");
    assert_eq!(answer(&mut stream).0, 200);
}

fn connections_max(site: &Site<'_>) {
    for (keys, is_closed) in [("connections_max = 2", true), ("", false)] {
        let served = site.start(keys, "");
        let mut oldest = served.connect();
        // One without a request would be closed after 5 s.
        oldest
            .write_all(b"GET /v1/models/ctr HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("it is sent");
        let mut begin = [0; 15];
        oldest.read_exact(&mut begin).expect("an answer");
        assert_eq!(&begin, b"HTTP/1.1 200 OK");
        let others: Vec<TcpStream> = (0..2).map(|_| served.connect()).collect();
        assert_eq!(served.predict(1).0, 200);
        assert_eq!(ends(&mut oldest, is_closed), is_closed, "{keys}");
        drop(others);
    }
}

fn head_timeout_secs(site: &Site<'_>) {
    for (keys, is_closed) in [
        (format!("head_timeout_secs = {SHORT_SECS}"), true),
        (String::new(), false),
    ] {
        let served = site.start(&keys, "");
        let mut stream = served.connect();
        // The time counts from the last answer.
        stream
            .write_all(b"GET /v1/models/ctr HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("it is sent");
        assert_eq!(ends(&mut stream, is_closed), is_closed, "{keys}");
    }
}

fn body_timeout_secs(site: &Site<'_>) {
    for (keys, is_closed) in [
        (format!("body_timeout_secs = {SHORT_SECS}"), true),
        (String::new(), false),
    ] {
        let served = site.start(&keys, "");
        let mut stream = served.connect();
        let head =
            format!("POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{");
        stream.write_all(head.as_bytes()).expect("it is sent");
        if is_closed {
            assert_eq!(answer(&mut stream).0, 408, "{keys}");
        } else {
            assert!(!ends(&mut stream, false), "{keys}");
        }
    }
}

fn body_bytes_max(site: &Site<'_>) {
    let body = format!(r#"{{"instances": [{ROW}]}}{}"#, " ".repeat(2000));
    for (keys, expected) in [("body_bytes_max = 1500", 413), ("", 200)] {
        let served = site.start(keys, "");
        let (status, told) = request(&served.address, &format!("POST {PREDICT}"), body.as_bytes());
        let told = String::from_utf8_lossy(&told);
        assert_eq!(status, expected, "{keys}: {told}");
        assert!(status == 200 || told.contains("1500"), "{told}");
    }
}

fn rows_max(site: &Site<'_>) {
    let infer = |rows: usize| {
        let input = |name: &str, kind: &str, value: &str| {
            let data = vec![value; rows].join(",");
            format!(
                r#"{{"name": "{name}", "shape": [{rows}], "datatype": "{kind}", "data": [{data}]}}"#
            )
        };
        let inputs = [
            input("x", "FP32", "0.5"),
            input("z", "FP32", "-1"),
            input("word", "BYTES", "\"w1\""),
        ];
        format!(r#"{{"inputs": [{}]}}"#, inputs.join(","))
    };
    for (keys, expected) in [("rows_max = 2", 400), ("", 200)] {
        let served = site.start(keys, "");
        assert_eq!(served.predict(2).0, 200, "{keys}");
        let (status, told) = served.predict(3);
        assert_eq!(status, expected, "{keys}: {told}");
        let examples = format!(r#"{{"examples": [{}]}}"#, [ROW; 3].join(","));
        let others = [
            ("/v1/models/ctr:classify", examples),
            ("/v2/models/ctr/infer", infer(3)),
        ];
        for (path, body) in others {
            let (status, told) = post(&served.address, path, &body);
            assert_eq!(status, expected, "{keys} {path}: {told}");
        }
    }
}

/// A wait for others, and that of a request that fills its batch by itself.
fn batch_delay_max_us_and_batch_size_max(site: &Site<'_>) {
    const DELAY: Duration = Duration::from_millis(900);
    let delay = format!("batch_delay_max_us = {}", DELAY.as_micros());
    // A busy machine may be slow: the quickest of some answers counts.
    let quickest = |keys: &str| {
        let served = site.start(keys, "");
        let time = |_| {
            let began = Instant::now();
            assert_eq!(served.predict(3).0, 200);
            began.elapsed()
        };
        (0..5).map(time).min().unwrap_or_default()
    };
    let alone = quickest(&delay);
    assert!(alone >= DELAY, "{alone:?}");
    let full = quickest(&format!("{delay}\nbatch_size_max = 3"));
    assert!(full < DELAY, "{full:?}");
    let at_once = quickest("");
    assert!(at_once < DELAY, "{at_once:?}");
}

fn queue_requests_max(site: &Site<'_>) {
    const CLIENTS: usize = 12;
    for (keys, is_refused) in [("queue_requests_max = 1", true), ("", false)] {
        // They all wait for others to come.
        let served = site.start(&format!("batch_delay_max_us = 1_000_000\n{keys}"), "");
        let address = &*served.address;
        let statuses: BTreeSet<u16> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| scope.spawn(move || predict(address, 1).0))
                .collect();
            let joined = clients.into_iter().map(|client| client.join());
            joined.map(|status| status.expect("no panic")).collect()
        });
        let expected = if is_refused {
            BTreeSet::from([200, 429])
        } else {
            BTreeSet::from([200])
        };
        assert_eq!(statuses, expected, "{keys}");
    }
}

fn model_name_and_path(site: &Site<'_>) {
    let served = site.start("", "");
    assert_eq!(served.status_of(PREDICT), 200);
    assert_eq!(served.status_of("/v1/models/model:predict"), 404);
    let missing = site.scratch.path().join("serving.toml");
    let text = "[[model]]\nname = \"ctr\"\npath = \"absent.toml\"\n";
    std::fs::write(&missing, text).expect("the configuration is written");
    let missing = missing.to_string_lossy().into_owned();
    let ended = Program::start("trainyard", &["serve", "--config", &missing], &[]).wait(LIMIT);
    assert!(
        ended.code != 0 && ended.output.contains("absent.toml"),
        "{}",
        ended.output
    );
}

fn model_set(site: &Site<'_>) {
    let file = site.scratch.path().join("serving.toml");
    let path = site.path("model");
    let text = format!(
        "listen = \"127.0.0.1:0\"\n[[model]]\nname = \"ctr\"\npath = {path:?}\nset = ['input.missing=[\"none\"]']\n"
    );
    std::fs::write(&file, text).expect("the configuration is written");
    let file = file.to_string_lossy().into_owned();
    let mut program = Program::start("trainyard", &["serve", "--config", &file], &[]);
    // It is another job than the one that was trained.
    let told = program.wait_for("E2007", LIMIT);
    assert!(
        told.contains("input.missing is [\"none\"] for this job"),
        "{told}"
    );
}

fn model_versions_keep(_: &Site<'_>) {
    for (of_model, expected) in [("versions_keep = 2", 200), ("", 404)] {
        let folder = tempfile::tempdir().expect("a folder");
        let job = trained(folder.path(), 40);
        let site = Site {
            folder: folder.path(),
            scratch: tempfile::tempdir().expect("a folder"),
        };
        let mut served = site.start("", of_model);
        // The next version comes while the server runs.
        let more = ["--set", "train.max_steps=60", "--log-level", "error"];
        run(&[&["train", &job][..], &more].concat());
        served
            .program
            .wait_for("the version answers model=ctr version=60 ", LIMIT);
        for (version, expected) in [(40, expected), (60, 200)] {
            let path = format!("/v1/models/ctr/versions/{version}:predict");
            assert_eq!(served.status_of(&path), expected, "{of_model} {path}");
        }
    }
}

fn model_labels(site: &Site<'_>) {
    for (of_model, expected) in [("labels = { stable = 20 }", 200), ("", 404)] {
        let served = site.start("", of_model);
        let labelled = served.status_of("/v1/models/ctr/labels/stable:predict");
        assert_eq!(labelled, expected, "{of_model}");
    }
}

/// The keys, and what shows that they do something.
type Shown = (&'static [&'static str], fn(&Site<'_>));
const KEYS: [Shown; 15] = [
    (&["listen"], listen),
    (&["listen_grpc"], listen_grpc),
    (&["tls_dir"], tls_dir),
    (&["token_file"], token_file),
    (&["connections_max"], connections_max),
    (&["head_timeout_secs"], head_timeout_secs),
    (&["body_timeout_secs"], body_timeout_secs),
    (&["body_bytes_max"], body_bytes_max),
    (&["rows_max"], rows_max),
    (
        &["batch_delay_max_us", "batch_size_max"],
        batch_delay_max_us_and_batch_size_max,
    ),
    (&["queue_requests_max"], queue_requests_max),
    (&["model.name", "model.path"], model_name_and_path),
    (&["model.set"], model_set),
    (&["model.versions_keep"], model_versions_keep),
    (&["model.labels"], model_labels),
];

trial!(each_key_of_the_servers_file_does_what_its_page_says);
fn each_key_of_the_servers_file_does_what_its_page_says() {
    let page = include_str!("../../docs/serving.md");
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| key | default |"))
        .skip(2)
        .take_while(|line| line.starts_with("| `"));
    let documented: BTreeSet<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let tried: BTreeSet<&str> = KEYS
        .iter()
        .flat_map(|(keys, _)| keys.iter().copied())
        .collect();
    assert_eq!(documented, tried, "each documented key has a case");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let job = trained(folder, 20);
    run(&[
        "train",
        &job,
        "--set",
        "train.max_steps=40",
        "--log-level",
        "error",
    ]);
    let out = folder.join("tls").to_string_lossy().into_owned();
    let serving = ["pki", "--serving", "127.0.0.1", "--out", &out];
    run(&serving);
    run(&[&serving[..], &["--tokens"]].concat());
    std::thread::scope(|scope| {
        for (keys, shown) in KEYS {
            let shown = move || {
                shown(&Site {
                    folder,
                    scratch: tempfile::tempdir().expect("a folder"),
                });
            };
            std::thread::Builder::new()
                .name(keys.join(" "))
                .spawn_scoped(scope, shown)
                .expect("a thread");
        }
    });
}
