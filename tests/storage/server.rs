//! An S3 server of moto, and one that refuses at first.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use trainyard_tests::Need;

/// Longest wait for an answer of the server.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A server with the bucket `data`. It ends when it is dropped.
pub(crate) struct Server {
    _process: Process,
    /// Where it listens, `host:port`.
    pub(crate) address: String,
}

impl Server {
    /// Starts the server at a port of its own.
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1")
    }

    /// Starts the server at an address of this machine, at a port of its own.
    pub(crate) fn start_at(host: &str) -> Self {
        let installed = Need::S3.program();
        // The interpreter that it was installed for.
        let beside = installed.with_file_name("python");
        let program = if beside.exists() {
            beside
        } else {
            "python3".into()
        };
        let mut command = Command::new(&program);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("storage/one_at_a_time.py"));
        command
            .args(["-H", host, "-p", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let started = command.stderr(Stdio::piped()).spawn();
        let mut child = started
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()));
        let mut lines = BufReader::new(child.stderr.take().expect("piped"))
            .lines()
            .map_while(Result::ok);
        let address = lines.find_map(|line| {
            let rest = line.split_once("Running on http://")?.1;
            Some(rest.trim().to_owned())
        });
        // What else it says must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        let server = Self {
            _process: Process(child),
            address: address.expect("the server says where it listens"),
        };
        server.request("PUT", "data", b"");
        server
    }

    /// Puts an object, `bucket/key`, that everybody may read.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        self.request("PUT", name, content);
    }

    /// Returns the keys of the bucket `data` that begin so, in order.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let listed = self.request("GET", &format!("data?list-type=2&prefix={prefix}"), b"");
        let listed = String::from_utf8_lossy(&listed);
        assert!(
            listed.contains("<IsTruncated>false</IsTruncated>"),
            "{listed}"
        );
        let keys = listed
            .split("<Key>")
            .skip(1)
            .filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    /// Returns an object of the bucket `data`.
    pub(crate) fn get(&self, key: &str) -> Vec<u8> {
        self.request("GET", &format!("data/{key}"), b"")
    }

    /// Copies all objects of the bucket `data` that begin so into a folder.
    pub(crate) fn fetch(&self, prefix: &str, folder: &Path) {
        for key in self.keys(prefix) {
            let path = folder.join(&key);
            std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
            std::fs::write(path, self.get(&key)).expect("the object is written");
        }
    }

    fn request(&self, method: &str, name: &str, content: &[u8]) -> Vec<u8> {
        ask(&self.address, method, name, content)
    }
}

/// Returns the answer of a store to a request.
///
/// # Panics
/// It is none of success.
pub(crate) fn ask(address: &str, method: &str, name: &str, content: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream
        .set_read_timeout(Some(ANSWER_MAX))
        .expect("the system sets it");
    let length = content.len();
    let head = format!(
        "{method} /{name} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nx-amz-acl: public-read\r\nAuthorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request\r\nConnection: close\r\n\r\n"
    );
    stream
        .write_all(head.as_bytes())
        .expect("the request is sent");
    stream.write_all(content).expect("the content is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the server answers");
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("it ends its head");
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    answer.split_off(end + 4)
}

/// A process that ends when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Listens in front of a server: the first `count` requests are answered with 503, all others passed on. Returns where.
pub(crate) fn refusing(target: &str, count: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it listens").to_string();
    let target = target.to_owned();
    std::thread::spawn(move || {
        for (nth, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let target = target.clone();
            std::thread::spawn(move || {
                if nth < count {
                    refuse(stream)
                } else {
                    pass(&stream, &target)
                }
            });
        }
    });
    address
}

fn refuse(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().expect("a handle"))
        .lines()
        .map_while(Result::ok);
    lines.find(String::is_empty);
    // Who is refused may have gone.
    let _ = stream
        .write_all(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

fn pass(stream: &TcpStream, target: &str) {
    let server = TcpStream::connect(target).expect("the server listens");
    let copy = |from: &TcpStream, to: &TcpStream| {
        let mut from = from.try_clone().expect("a handle");
        let mut to = to.try_clone().expect("a handle");
        std::thread::spawn(move || {
            // The end of either is the end of both.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Both);
        })
    };
    let there = copy(stream, &server);
    let back = copy(&server, stream);
    let _ = (there.join(), back.join());
}
