//! What a task says at its admin port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest time for an answer: a task that stands still gives none.
const PATIENCE: Duration = Duration::from_millis(500);

/// Asks for a page, and returns the whole answer; nothing where nobody answers in time.
fn ask(admin: &str, page: &str) -> Option<String> {
    let address: SocketAddr = admin.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns a metric without labels of the task whose admin port is `host:port`; nothing while it does not answer, or has
/// not recorded it.
pub fn metric(admin: &str, name: &str) -> Option<f64> {
    let text = ask(admin, "/metrics")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse().ok()
}

/// Whether a task does its work.
pub fn is_ready(admin: &str) -> bool {
    ask(admin, "/readyz").is_some_and(|text| text.split_whitespace().nth(1) == Some("200"))
}
