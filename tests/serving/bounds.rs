//! Small requests that describe large rows or long answers, large bodies that stop, idle connections, web pages: each
//! has a clear refusal, the memory of the server keeps within its bounds, and honest clients are answered.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::serving::bad_requests::peak_bytes;
use crate::serving::client::{answer, post, request};
use crate::serving::{LIMIT, Server, trained};

/// A row that is right.
const GOOD: &str = r#"{"instances": [{"x": 0.5, "z": -1, "word": "w1"}]}"#;
const PREDICT: &str = "/v1/models/job:predict";

fn server(folder: &std::path::Path, config: &str) -> Server {
    let job = trained(folder, 20);
    let file = folder.join("serving.toml");
    let text = format!("{config}\n[[model]]\nname = \"job\"\npath = {job:?}\n");
    std::fs::write(&file, text).expect("the configuration is written");
    let mut server = Server::start(&["--config", &file.to_string_lossy()]);
    server.wait_for_version("job", 20);
    server
}

trial!(a_small_request_does_not_become_gigabytes);
fn a_small_request_does_not_become_gigabytes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = server(folder.path(), "");
    let context = format!(
        r#"{{"context": {{"x": 1, "z": 1, "word": {:?}}}, "examples": [{}]}}"#,
        "a".repeat(500_000),
        vec!["{}"; 10_000].join(",")
    );
    let (status, told) = post(&server.address, "/v1/models/job:classify", &context);
    assert_eq!(status, 413, "{told}");
    let numbers = format!(
        r#"{{"instances": [{{"x": [{}], "z": 1, "word": "a"}}]}}"#,
        vec!["1"; 20 << 20].join(",")
    );
    let (status, told) = post(&server.address, PREDICT, &numbers);
    assert_eq!(status, 400, "{told}");
    assert!(told.to_string().contains("at most 1 value"), "{told}");
    let input = |name: &str, datatype: &str, value: &str| {
        format!(
            r#"{{"name": {name:?}, "shape": [1], "datatype": {datatype:?}, "data": [{value}]}}"#
        )
    };
    let outputs = format!(
        r#"{{"inputs": [{}, {}, {}], "outputs": [{}]}}"#,
        input("x", "FP32", "1"),
        input("z", "FP32", "1"),
        input("word", "BYTES", "\"a\""),
        vec![r#"{"name": "logistic"}"#; 20_000].join(",")
    );
    let (status, told) = post(&server.address, "/v2/models/job/infer", &outputs);
    assert_eq!(status, 400, "{told}");
    let told = told.to_string();
    assert!(told.contains("output `logistic` is given twice"), "{told}");
    let unknown = format!(r#"{{"{}": 1}}"#, "k".repeat(10 << 20));
    let (status, told) = request(
        &server.address,
        &format!("POST {PREDICT}"),
        unknown.as_bytes(),
    );
    assert!(
        status == 400 && told.len() < 4096,
        "{status}, {} bytes",
        told.len()
    );
    assert_eq!(post(&server.address, PREDICT, GOOD).0, 200);
    let peak = peak_bytes(server.program.id());
    assert!(peak < 700 << 20, "{peak} bytes of memory");
}

trial!(a_small_request_with_a_large_answer_is_refused_with_the_rows_that_fit);
fn a_small_request_with_a_large_answer_is_refused_with_the_rows_that_fit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = server(folder.path(), "body_bytes_max = 65536\n");
    let rows = |count| vec![r#"{"x":1,"z":1,"word":"a"}"#; count].join(",");
    let predict = |count| {
        let body = format!(r#"{{"instances": [{}]}}"#, rows(count));
        post(&server.address, PREDICT, &body)
    };
    let (status, told) = predict(1_500);
    assert_eq!(status, 413, "{told}");
    let told = told.to_string();
    let (_, fits) = told.split_once("have room for ").expect("the bound");
    let (fits, _) = fits.split_once(" rows").expect("rows");
    let fits: usize = fits.parse().expect("a number");
    assert!((100..1000).contains(&fits), "{told}");
    let (status, answer) = predict(fits);
    assert_eq!(status, 200, "{answer}");
    let length = answer.to_string().len();
    assert!(length < 4 * 65_536, "{length} bytes, and {fits} rows fit");
    assert_eq!(predict(fits + 1).0, 413);
    let examples = format!(r#"{{"examples": [{}]}}"#, rows(1_500));
    let (status, told) = post(&server.address, "/v1/models/job:classify", &examples);
    assert_eq!(status, 413, "{told}");
}

trial!(large_bodies_that_stop_end_and_small_requests_are_answered_meanwhile);
fn large_bodies_that_stop_end_and_small_requests_are_answered_meanwhile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = server(folder.path(), "");
    let head =
        format!("POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 62000000\r\n\r\n");
    let begin = vec![b' '; 30 << 20];
    let clients: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(&server.address).expect("the server listens");
            let wait = Some(Duration::from_secs(2));
            stream
                .set_write_timeout(wait)
                .expect("a timeout can be set");
            stream.write_all(head.as_bytes()).expect("it is sent");
            // Without budget, the rest stays on the connection.
            let _ = stream.write_all(&begin);
            stream
        })
        .collect();
    let began = Instant::now();
    assert_eq!(post(&server.address, PREDICT, GOOD).0, 200);
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    let peak = peak_bytes(server.program.id());
    assert!(peak < 2500 << 20, "{peak} bytes of memory");
    for mut stream in clients {
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("a timeout can be set");
        // A client that is refused before it has sent all may see a reset.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    assert_eq!(post(&server.address, PREDICT, GOOD).0, 200);
}

trial!(idle_connections_make_room_for_clients);
fn idle_connections_make_room_for_clients() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = server(folder.path(), "connections_max = 100");
    let idle: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(&server.address).expect("the server listens"))
        .collect();
    for _ in 0..20 {
        assert_eq!(post(&server.address, PREDICT, GOOD).0, 200);
    }
    drop(idle);
}

trial!(a_web_page_of_another_site_is_not_answered);
fn a_web_page_of_another_site_is_not_answered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = server(folder.path(), "");
    let ask = |headers: &str| {
        let mut stream = TcpStream::connect(&server.address).expect("the server listens");
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("a timeout can be set");
        let length = GOOD.len();
        let head = format!(
            "POST {PREDICT} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{GOOD}"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        answer(&mut stream).0
    };
    assert_eq!(ask("Host: localhost\r\n"), 200);
    assert_eq!(ask("Host: evil.example\r\n"), 421);
    assert_eq!(
        ask("Host: localhost\r\nOrigin: http://evil.example\r\n"),
        403
    );
    assert_eq!(ask(""), 400);
    assert_eq!(ask("Host: localhost\r\nHost: localhost\r\n"), 400);
    assert_eq!(ask("Host: localhost\r\nhost: evil.example\r\n"), 400);
    // The connection ends after a body whose length two headers may tell.
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a timeout can be set");
    let head = format!(
        "POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{GOOD}\r\n0\r\n\r\n",
        GOOD.len()
    );
    stream.write_all(head.as_bytes()).expect("it is sent");
    assert_eq!(answer(&mut stream).0, 200);
}
