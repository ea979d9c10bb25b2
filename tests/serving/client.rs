//! A client of HTTP as simple as the protocol allows.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request, and returns status and body of the answer.
pub(crate) fn request(address: &str, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream
        .set_read_timeout(Some(TIMEOUT))
        .expect("a timeout can be set");
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it is sent");
    // A server that refuses the head may close before it has read the body.
    let _ = stream.write_all(body);
    answer(&mut stream)
}

/// Reads an answer to its end.
pub(crate) fn answer(stream: &mut TcpStream) -> (u16, Vec<u8>) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    (status.expect("a status"), bytes[end + 4..].to_vec())
}

/// Sends JSON, and returns status and JSON of the answer.
pub(crate) fn post(address: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, body) = request(address, &format!("POST {path}"), body.as_bytes());
    (status, json(&body))
}

/// Asks for a page, and returns status and JSON of the answer.
pub(crate) fn get(address: &str, path: &str) -> (u16, Value) {
    let (status, body) = request(address, &format!("GET {path}"), b"");
    (status, json(&body))
}

fn json(body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(body)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(body)))
}
