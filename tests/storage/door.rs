//! A door in front of a store: every request passes it, and what becomes of its answer is decided there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// The answer of a store to those who may not.
const DENIED: &str = "HTTP/1.1 403 Forbidden\r\nContent-Length: 40\r\nConnection: close\r\n\r\n\
                      <Error><Code>AccessDenied</Code></Error>";

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is answered.
    Answered,
    /// The store is not asked: whoever asked may not write.
    Denied,
    /// The store is asked without the condition.
    Unconditioned,
    /// The store does what is asked; the connection breaks off before the answer.
    Lost,
    /// The store is not asked, and nobody answers.
    HeldBefore,
    /// The store does what is asked, and nobody answers.
    HeldAfter,
}

/// A listening door. It stays open until the process ends.
pub(crate) struct Door {
    /// Where it listens, `host:port`.
    pub(crate) address: String,
    /// Told of the requests that are held.
    pub(crate) held: Receiver<String>,
    writes: Arc<AtomicUsize>,
}

impl Door {
    /// Opens a door. `judge` is told the number of a request that writes, from 0, and its first line. Others are answered.
    pub(crate) fn new(
        target: &str,
        judge: impl Fn(usize, &str) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it listens").to_string();
        let (sender, held) = channel();
        let target = target.to_owned();
        let judge = Arc::new(judge);
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&writes);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let target = target.clone();
                let judge = Arc::clone(&judge);
                let counted = Arc::clone(&counted);
                let sender = sender.clone();
                std::thread::spawn(move || pass(stream, &target, &*judge, &counted, &sender));
            }
        });
        Self {
            address,
            held,
            writes,
        }
    }

    /// Returns the requests that wrote, or tried to.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

/// Lets one request through: with its answer the connection ends. Whoever asked may have gone meanwhile.
fn pass(
    stream: TcpStream,
    target: &str,
    judge: &(impl Fn(usize, &str) -> Fate + ?Sized),
    writes: &AtomicUsize,
    held: &Sender<String>,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    let mut head = String::new();
    let mut bytes = 0;
    reader
        .read_line(&mut first)
        .ok()
        .filter(|count| *count > 0)?;
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
        if line == "\r\n" {
            break;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            bytes = length.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body).ok()?;
    let fate = if first.starts_with("GET ") || first.starts_with("HEAD ") {
        Fate::Answered
    } else {
        judge(writes.fetch_add(1, Ordering::SeqCst), &first)
    };
    match fate {
        Fate::HeldBefore => return hold(stream, first, held),
        Fate::Denied => return (&stream).write_all(DENIED.as_bytes()).ok(),
        Fate::Unconditioned => {
            let kept = head
                .lines()
                .filter(|line| !line.to_ascii_lowercase().starts_with("if-none-match"));
            head = kept.map(|line| format!("{line}\r\n")).collect();
        }
        Fate::Answered | Fate::Lost | Fate::HeldAfter => {}
    }
    let mut server = TcpStream::connect(target).ok()?;
    server
        .write_all(format!("{first}Connection: close\r\n{head}\r\n").as_bytes())
        .ok()?;
    server.write_all(&body).ok()?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).ok()?;
    match fate {
        Fate::HeldAfter => hold(stream, first, held),
        Fate::Lost => stream.shutdown(Shutdown::Both).ok(),
        _ => (&stream).write_all(&answer).ok(),
    }
}

/// Says that a request is held, and waits for whoever asked to go.
fn hold(mut stream: TcpStream, first: String, held: &Sender<String>) -> Option<()> {
    held.send(first).ok()?;
    stream.read(&mut [0]).ok().map(drop)
}
