//! Connections to a server of predictions: HTTP/1.1 and gRPC, with a deadline for each answer.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use trainyard_diagnostic::{Code, Diagnostic};

use super::requests::{Body, Tensor, binary_body, grpc_message, json_body};
use crate::bench::arguments::ServeProtocol;

/// Longest wait for a connection or an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Status of gRPC for a request that was refused because too many wait.
const RESOURCE_EXHAUSTED: &str = "8";

/// The server and the model that requests go to.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: String,
    pub(super) model: String,
    pub(super) protocol: ServeProtocol,
}

/// End of a request that the server has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Answered,
    /// Too many requests wait.
    Refused,
    /// Any other answer: status and the beginning of its text.
    Failed(String),
}

impl Target {
    /// Returns the bytes of a request with these columns.
    ///
    /// # Errors
    /// The request is too large for a message.
    pub(super) fn request(&self, tensors: &[Tensor]) -> Result<Bytes, Diagnostic> {
        let body = match self.protocol {
            ServeProtocol::Http => binary_body(tensors),
            ServeProtocol::HttpJson => json_body(tensors),
            ServeProtocol::Grpc => return frame(&grpc_message(&self.model, tensors)),
        };
        Ok(self.http_request(&body))
    }

    /// Returns the bytes of a request over HTTP.
    pub(super) fn http_request(&self, body: &Body) -> Bytes {
        let mut head = format!(
            "POST /v2/models/{}/infer HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            self.model,
            self.address,
            body.bytes.len()
        );
        if let Some(length) = body.json_bytes {
            head.push_str(&format!("Inference-Header-Content-Length: {length}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &body.bytes].concat().into()
    }

    /// Connects to the server.
    ///
    /// # Errors
    /// The server does not accept the connection.
    pub(super) fn connect(&self) -> io::Result<Connection> {
        let mut addresses = self.address.to_socket_addrs()?;
        let address = addresses
            .next()
            .ok_or_else(|| io::Error::other(format!("{} is no address", self.address)))?;
        let stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_nodelay(true)?;
        match self.protocol {
            ServeProtocol::Http | ServeProtocol::HttpJson => {
                stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
                stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                Ok(Connection::Http(Http {
                    reader: BufReader::new(stream),
                    line: String::new(),
                    body: Vec::new(),
                }))
            }
            ServeProtocol::Grpc => Grpc::over(stream, &self.address).map(Connection::Grpc),
        }
    }
}

/// Returns a message of gRPC: a byte that says that it is not compressed, its length, and itself.
fn frame(message: &[u8]) -> Result<Bytes, Diagnostic> {
    let length = u32::try_from(message.len()).map_err(|_| {
        let message = format!(
            "a request must be under 4 GiB, given {} bytes",
            message.len()
        );
        Diagnostic::error(Code::E1000, message).help("lower --rows")
    })?;
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(length);
    framed.put_slice(message);
    Ok(framed.freeze())
}

/// A connection.
#[derive(Debug)]
pub(super) enum Connection {
    Http(Http),
    Grpc(Grpc),
}

impl Connection {
    /// Sends a request, and waits for its answer.
    ///
    /// # Errors
    /// The connection is lost, or the answer is late.
    pub(super) fn call(&mut self, request: &Bytes) -> io::Result<Ending> {
        match self {
            Self::Http(http) => http.call(request),
            Self::Grpc(grpc) => grpc.call(request),
        }
    }
}

/// A connection of HTTP/1.1.
#[derive(Debug)]
pub(super) struct Http {
    reader: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Http {
    fn call(&mut self, request: &[u8]) -> io::Result<Ending> {
        self.reader.get_mut().write_all(request)?;
        let status = self
            .read_line()?
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        let mut length = 0;
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                let invalid = |_| io::Error::other(format!("the length `{value}` of an answer"));
                length = value.trim().parse().map_err(invalid)?;
            }
        }
        self.body.clear();
        let body = self.reader.by_ref().take(length);
        let read = { body }.read_to_end(&mut self.body)?;
        if (read as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(match status.as_str() {
            "200" => Ending::Answered,
            "429" => Ending::Refused,
            _ => {
                let shown = &self.body[..self.body.len().min(200)];
                Ending::Failed(format!("{status} {}", String::from_utf8_lossy(shown)))
            }
        })
    }

    /// Returns the next line of the head, without its end.
    fn read_line(&mut self) -> io::Result<&str> {
        self.line.clear();
        if self.reader.read_line(&mut self.line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.line.trim_end())
    }
}

/// A connection of HTTP/2, which its thread drives.
#[derive(Debug)]
pub(super) struct Grpc {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
    uri: String,
}

impl Grpc {
    fn over(stream: TcpStream, address: &str) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        stream.set_nonblocking(true)?;
        let sender = runtime.block_on(async {
            let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream)?);
            let shaken = http2::handshake(TokioExecutor::new(), stream);
            let (sender, connection) = shaken.await.map_err(io::Error::other)?;
            // It ends with the runtime. A lost connection is the error of a request.
            tokio::spawn(connection);
            Ok::<_, io::Error>(sender)
        })?;
        Ok(Self {
            runtime,
            sender,
            uri: format!("http://{address}/inference.GRPCInferenceService/ModelInfer"),
        })
    }

    fn call(&mut self, request: &Bytes) -> io::Result<Ending> {
        let request = Request::post(&self.uri)
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(Full::new(request.clone()))
            .map_err(io::Error::other)?;
        let sender = &mut self.sender;
        let called = async {
            let response = sender.send_request(request).await;
            let (head, body) = response.map_err(io::Error::other)?.into_parts();
            let collected = body.collect().await.map_err(io::Error::other)?;
            let trailers = collected.trailers().cloned().unwrap_or_default();
            Ok::<_, io::Error>((head.status, head.headers, trailers))
        };
        let answer = self
            .runtime
            .block_on(async { timeout(ANSWER_TIMEOUT, called).await });
        let (status, headers, trailers) = answer.map_err(|_| io::ErrorKind::TimedOut)??;
        let text = |name: &str| {
            let of = |map: &HeaderMap| map.get(name)?.to_str().ok().map(str::to_owned);
            of(&trailers).or_else(|| of(&headers)).unwrap_or_default()
        };
        let code = text("grpc-status");
        Ok(match (status, code.as_str()) {
            (StatusCode::OK, "0") => Ending::Answered,
            (StatusCode::OK, RESOURCE_EXHAUSTED) => Ending::Refused,
            _ => Ending::Failed(format!("{status}, status {code}: {}", text("grpc-message"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_are_told_apart_by_their_status_and_read_to_their_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().expect("a connection").0;
            for answer in [
                "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfour",
                "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nno such",
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            ] {
                let mut request = [0; 4];
                stream.read_exact(&mut request).expect("a request");
                stream.write_all(answer.as_bytes()).expect("it is read");
            }
        });
        let target = Target {
            address,
            model: "m".into(),
            protocol: ServeProtocol::Http,
        };
        let mut connection = target.connect().expect("the server listens");
        let mut call = || connection.call(&Bytes::from_static(b"call"));
        assert_eq!(call().expect("an answer"), Ending::Answered);
        assert_eq!(call().expect("an answer"), Ending::Refused);
        assert_eq!(
            call().expect("an answer"),
            Ending::Failed("404 no such".into())
        );
        let error = call().expect_err("the answer is cut short");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        server.join().expect("the server ends");
    }
}
