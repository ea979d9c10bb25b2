//! What a task says at its admin port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest time for an answer: a task that stands still gives none.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(500);

/// Asks `host:port` for a page, and returns the head and the body of the answer; nothing where nobody answers in time.
pub fn get(address: &str, page: &str, patience: Duration) -> Option<(String, String)> {
    let address: SocketAddr = address.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream
        .write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes())
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Returns a metric without labels of the task whose admin port is `host:port`; nothing while it does not answer, or has
/// not recorded it.
pub fn metric(admin: &str, name: &str) -> Option<f64> {
    let (_, body) = get(admin, "/metrics", REQUEST_TIMEOUT)?;
    let value = body
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

/// Whether a task does its work.
pub fn is_ready(admin: &str) -> bool {
    get(admin, "/readyz", REQUEST_TIMEOUT)
        .is_some_and(|(head, _)| head.split_whitespace().nth(1) == Some("200"))
}
