//! Requests that are wrong, too large or too slow: each has a clear answer, and the server goes on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::serving::client::{answer, get, post, request};
use crate::serving::{LIMIT, Server, trained};

/// A row that is right.
const GOOD: &str = r#"{"instances": [{"x": 0.5, "z": -1, "word": "w1"}]}"#;

trial!(a_wrong_request_is_told_what_is_wrong_and_the_server_goes_on);
fn a_wrong_request_is_told_what_is_wrong_and_the_server_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let mut server = Server::start(&[&job]);
    server.wait_for_version("job", 20);
    let address = server.address.clone();
    let predict = "/v1/models/job:predict";
    let infer = "/v2/models/job/infer";
    let (status, good) = post(&address, predict, GOOD);
    assert_eq!(status, 200, "{good}");
    let input = |name: &str, datatype: &str, data: &str| {
        format!("{{\"name\":{name:?},\"shape\":[1],\"datatype\":{datatype:?},\"data\":[{data}]}}")
    };
    let of = |inputs: &[String]| format!("{{\"inputs\":[{}]}}", inputs.join(","));
    let x = input("x", "FP32", "0.5");
    let z = input("z", "FP32", "-1");
    let word = input("word", "BYTES", "\"w1\"");
    let inferred = post(&address, infer, &of(&[x.clone(), z.clone(), word.clone()]));
    let logistic = inferred.1["outputs"]
        .as_array()
        .and_then(|outputs| outputs.iter().find(|output| output["name"] == "logistic"));
    assert_eq!(
        logistic.map(|output| &output["data"]),
        Some(&good["predictions"][0]["logistic"]),
        "{inferred:?}"
    );
    let cases: &[(&str, &str, u16, &str)] = &[
        (
            predict,
            r#"{"instances": [{"x": 1, "z": 1, "wrod": "a"}]}"#,
            400,
            "did you mean `word`?",
        ),
        (
            predict,
            r#"{"instances": [{"x": 1, "z": 1}]}"#,
            400,
            "row 1 lacks the column `word`",
        ),
        (
            predict,
            r#"{"instances": [{"x": "old", "z": 1, "word": "a"}]}"#,
            400,
            "column `x`: expected a number, given the text \"old\"",
        ),
        (
            predict,
            r#"{"instances": [{"x": Infinity, "z": 1, "word": "a"}]}"#,
            400,
            "an infinite number, which JSON does not have",
        ),
        (
            predict,
            r#"{"instances": [{"x": 1e99, "z": 1, "word": "a"}]}"#,
            400,
            "is beyond the floats of 32 bits",
        ),
        (
            predict,
            r#"{"instances": [{"x": null, "z": 1, "word": "a"}]}"#,
            400,
            "missing and has no default",
        ),
        (
            predict,
            r#"{"instances": [{"x": 1, "x": 1, "z": 1, "word": "a"}]}"#,
            400,
            "gives `x` twice",
        ),
        (
            predict,
            r#"{"inputs": {"x": [1], "z": [1, 2], "word": ["a"]}}"#,
            400,
            "has 1 rows, others have 2",
        ),
        (
            predict,
            r#"{"instances": [{"x": 1, "z": 1, "word": {"b64": "?"}}]}"#,
            400,
            "no base64",
        ),
        (
            predict,
            r#"{"instance": []}"#,
            400,
            "unknown key `instance`",
        ),
        (predict, "{", 400, "expected"),
        (
            predict,
            r#"{"signature_name": "other", "instances": []}"#,
            400,
            "no signature `other`",
        ),
        ("/v1/models/jb:predict", GOOD, 404, "did you mean `job`?"),
        (
            "/v1/models/job/versions/7:predict",
            GOOD,
            404,
            "no version 7; versions: 20",
        ),
        (
            "/v1/models/job/labels/stable:predict",
            GOOD,
            404,
            "no label `stable`",
        ),
        (
            "/v1/models/job:explain",
            GOOD,
            404,
            "methods: predict, classify, regress",
        ),
        ("/v3/models/job", GOOD, 404, "must begin with /v1/models/"),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP16","data":[1]}]}"#,
            400,
            "unknown datatype `FP16`",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1]}]}"#,
            400,
            "2 x 1 values, given 1",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[9999999999,9999999999],"datatype":"FP32","data":[1]}]}"#,
            400,
            "too many values",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"UINT8","data":[300]}]}"#,
            400,
            "input `x`: 300 is no UINT8",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[1.5]}]}"#,
            400,
            "input `x`: 1.5 is no INT64",
        ),
        (
            "/v2/models/%zz/infer",
            GOOD,
            400,
            "without two hexadecimal digits",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32"}]}"#,
            400,
            "either `data` or",
        ),
        (infer, r#"{"inputs":[]}"#, 400, "column `x` is missing"),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r"}}]}"#,
            400,
            "the parameter shared_memory_region is of an extension",
        ),
        (
            infer,
            r#"{"inputs":[],"outputs":[{"name":"logits","parameters":{"classification":1}}]}"#,
            400,
            "the parameter classification is of an extension",
        ),
        (
            infer,
            r#"{"inputs":[],"parameters":{"sequence_id":7}}"#,
            400,
            "the parameter sequence_id is of an extension",
        ),
        (
            infer,
            r#"{"inputs":[],"inputs":[]}"#,
            400,
            "the key `inputs` of the request is given twice",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1],"data":[2]}]}"#,
            400,
            "the key `data` of an input is given twice",
        ),
        (
            infer,
            r#"{"inputs":[],"output":[{"name":"logistic"}]}"#,
            400,
            "unknown key `output` of the request; keys: id, model_name, parameters, inputs, outputs",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"word","shape":[1],"datatype":"FP32","data":[7]}]}"#,
            400,
            "column `word`: expected a text or a whole number, given 7",
        ),
        (
            infer,
            r#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[16777217]}]}"#,
            400,
            "16777217 is no FP32: the nearest one is 16777216",
        ),
        (
            predict,
            r#"{"instances": [], "instances": []}"#,
            400,
            "the key `instances` of the body is given twice",
        ),
    ];
    for (path, body, code, told) in cases {
        let (status, answer) = post(&address, path, body);
        let message = answer["error"].as_str().unwrap_or_default();
        assert!(
            status == *code && message.contains(told),
            "{path} {body}: {status} {answer}"
        );
    }
    let (status, body) = request(
        &address,
        &format!("POST {predict}"),
        b"{\"instances\": \"\xff\"}",
    );
    let text = String::from_utf8_lossy(&body);
    assert!(status == 400 && text.contains("not UTF-8"), "{text}");
    let rows = r#"{"x":1,"z":1,"word":"a"},"#.repeat(16_385);
    let many = format!("{{\"instances\":[{}]}}", rows.trim_end_matches(','));
    let (status, answer) = post(&address, predict, &many);
    assert!(
        status == 400
            && answer["error"]
                .as_str()
                .is_some_and(|text| text.contains("16384 rows")),
        "{answer}"
    );
    let (status, _) = get(&address, predict);
    assert_eq!(status, 400, "the method is told");
    let deep = "[".repeat(1 << 20);
    assert_eq!(post(&address, predict, &deep).0, 400);
    assert_eq!(post(&address, predict, GOOD), (200, good));
    assert!(server.program.runs());
}

trial!(slow_and_oversized_clients_keep_nobody_out);
fn slow_and_oversized_clients_keep_nobody_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let file = folder.path().join("serving.toml");
    let text = format!(
        "head_timeout_secs = 2\nbody_timeout_secs = 2\nconnections_max = 400\n[[model]]\nname = \"job\"\npath = {job:?}\n"
    );
    std::fs::write(&file, text).expect("the configuration is written");
    let mut server = Server::start(&["--config", &file.to_string_lossy()]);
    server.wait_for_version("job", 20);
    let address = server.address.clone();
    let slow = |head: &str| {
        let mut stream = TcpStream::connect(&address).expect("the server listens");
        stream.write_all(head.as_bytes()).expect("it is sent");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a timeout can be set");
        stream
    };
    let heads: Vec<TcpStream> = (0..150).map(|_| slow("POST /v1/mo")).collect();
    let half =
        "POST /v1/models/job:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    let bodies: Vec<TcpStream> = (0..150).map(|_| slow(half)).collect();
    assert_eq!(post(&address, "/v1/models/job:predict", GOOD).0, 200);
    // A gigabyte is refused by its head.
    let large = "POST /v1/models/job:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n";
    let (status, body) = answer(&mut slow(large));
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert!(status == 413, "{status} {body}");
    for mut stream in heads {
        let mut rest = Vec::new();
        stream
            .read_to_end(&mut rest)
            .expect("the connection is closed in time");
    }
    for mut stream in bodies {
        let (status, body) = answer(&mut stream);
        let text = String::from_utf8_lossy(&body);
        assert!(
            status == 408 && text.contains("within 2 s"),
            "{status} {text}"
        );
    }
    assert_eq!(post(&address, "/v1/models/job:predict", GOOD).0, 200);
    server.program.signal(rustix::process::Signal::TERM);
    assert_eq!(server.program.wait(Duration::from_secs(20)).code, 0);
}

trial!(a_body_without_end_is_refused_when_it_is_too_large);
fn a_body_without_end_is_refused_when_it_is_too_large() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let mut server = Server::start(&[&job]);
    server.wait_for_version("job", 20);
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    let set = stream.set_read_timeout(Some(LIMIT));
    set.expect("a timeout can be set");
    let head = "POST /v1/models/job:predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is sent");
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    // A gigabyte, of which the server reads its bound.
    let sent = (0..1024)
        .take_while(|_| stream.write_all(chunk.as_bytes()).is_ok())
        .count();
    assert!((64..1000).contains(&sent), "{sent} MiB were sent");
    let peak = peak_bytes(server.program.id());
    assert!(peak < 600 << 20, "{peak} bytes of memory");
    let (status, told) = answer(&mut stream);
    let told = String::from_utf8_lossy(&told);
    assert!(
        status == 413 && told.contains("67108864 bytes"),
        "{status} {told}"
    );
    assert_eq!(post(&server.address, "/v1/models/job:predict", GOOD).0, 200);
}

/// Returns the most memory that a process has had (`VmHWM` of proc(5)).
pub(crate) fn peak_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    let kibibytes = kibibytes.and_then(|kibibytes| kibibytes.parse::<u64>().ok());
    kibibytes.expect("a number of kB") << 10
}

/// Clients that send a byte a second.
const TRICKLING_CLIENTS: usize = 1000;

trial!(a_thousand_clients_that_send_a_byte_a_second_keep_nobody_out);
fn a_thousand_clients_that_send_a_byte_a_second_keep_nobody_out() {
    // Connections of this process and, as its child, of the server.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = trained(folder.path(), 20);
    let file = folder.path().join("serving.toml");
    let text = format!(
        "head_timeout_secs = 3\nbody_timeout_secs = 3\n[[model]]\nname = \"job\"\npath = {job:?}\n"
    );
    std::fs::write(&file, text).expect("the configuration is written");
    let mut server = Server::start(&["--config", &file.to_string_lossy()]);
    server.wait_for_version("job", 20);
    let address = server.address.clone();
    let head =
        "POST /v1/models/job:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n";
    let clients: Vec<TcpStream> = (0..TRICKLING_CLIENTS)
        .map(|client| {
            let mut stream = TcpStream::connect(&address).expect("the server listens");
            // Half of them are slow with their heads, and half with their bodies.
            if client % 2 == 0 {
                stream.write_all(head.as_bytes()).expect("it is sent");
            }
            stream
        })
        .collect();
    let began = Instant::now();
    let mut beats = 0;
    let mut slowest = Duration::ZERO;
    let mut open = clients;
    while !open.is_empty() {
        assert!(began.elapsed() < LIMIT, "{} are still open", open.len());
        if began.elapsed() >= Duration::from_secs(beats) {
            beats += 1;
            open.retain_mut(|stream| stream.write_all(b"P").is_ok() && !is_closed(stream));
        }
        let asked = Instant::now();
        assert_eq!(post(&address, "/v1/models/job:predict", GOOD).0, 200);
        slowest = slowest.max(asked.elapsed());
    }
    // Bytes that come one by one do not lengthen the time of a request.
    let lasted = began.elapsed();
    assert!(lasted < Duration::from_secs(20), "open for {lasted:?}");
    assert!(
        slowest < Duration::from_secs(2),
        "an answer took {slowest:?}"
    );
    println!("closed after {lasted:?}; the slowest answer took {slowest:?}");
    assert!(server.program.runs());
}

/// Returns whether the server has closed a connection, perhaps after an answer.
fn is_closed(stream: &mut TcpStream) -> bool {
    let set = stream.set_nonblocking(true);
    set.expect("a connection can be made nonblocking");
    let mut rest = [0; 4096];
    let closed = loop {
        match stream.read(&mut rest) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    let set = stream.set_nonblocking(false);
    set.expect("a connection can be made blocking");
    closed
}
