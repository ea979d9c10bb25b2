//! How `trainyard up` is spoken to while it runs: a socket file of its own, found through the model folder.
//!
//! One order and its answers a connection, each a line of JSON. The socket lies in a temporary folder, because the name
//! of a socket holds 107 bytes and a model folder may lie deep; `model_dir/up/control.json` says where.

use std::io;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::warn;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::folder::Folder;

/// Longest order, in bytes.
const ORDER_BYTES_MAX: u64 = 4096;
/// Longest wait for a peer to send its order, or to take an answer.
const PEER: Duration = Duration::from_secs(5);
/// Answers that may wait to be written.
const ANSWERS_QUEUE: usize = 16;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// Workers that are to run.
    pub(crate) workers: usize,
}

/// What is said to it. The last answer is one of the other two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Something has happened.
    Note(String),
    /// It is done.
    Done {
        /// Workers that ran.
        from: usize,
        /// Workers that run.
        to: usize,
    },
    /// It is not done.
    Refused {
        /// Name of the message's code.
        code: String,
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
}

impl Answer {
    /// Returns a refusal.
    pub(super) fn refused(code: Code, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Refused {
            code: code.name.to_owned(),
            message: message.into(),
            help: help.into(),
        }
    }
}

/// Where an `up` listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    /// Its socket.
    pub(crate) socket: PathBuf,
    /// Its process.
    pub(crate) process_id: u32,
}

impl Address {
    fn file(model_dir: &Path) -> PathBuf {
        model_dir.join("up/control.json")
    }

    /// Reads where the `up` of a model folder listens, or did; nothing where there was none.
    pub(crate) fn read(model_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::file(model_dir)).ok()?).ok()
    }

    /// Connects; fails where it does not run any more.
    pub(crate) fn connect(&self) -> io::Result<BlockingStream> {
        BlockingStream::connect(&self.socket)
    }
}

/// An order, and where the answers to it go.
pub(super) type Request = (Order, mpsc::Sender<Answer>);

/// The listening side. Ends with this value, which takes its files along.
#[derive(Debug)]
pub(super) struct Control {
    requests: mpsc::Receiver<Request>,
    listening: JoinHandle<()>,
    file: PathBuf,
    /// Holds the socket.
    _folder: Folder,
}

impl Control {
    /// Begins to listen for orders to the `up` of a model folder.
    ///
    /// # Errors
    /// Another one runs for the same folder, or a file cannot be made.
    pub(super) fn open(model_dir: &Path) -> Result<Self, Diagnostic> {
        if let Some(other) = Address::read(model_dir).filter(|address| address.connect().is_ok()) {
            let folder = model_dir.display();
            let id = other.process_id;
            let message = format!("another `trainyard up` runs with model_dir {folder}: pid {id}");
            return Err(Diagnostic::error(Code::E2008, message)
                .help("stop it first, or give this one another --model-dir"));
        }
        let failed = |what: &Path, error: &dyn std::fmt::Display| {
            Diagnostic::error(
                Code::E9002,
                format!("{} cannot be made: {error}", what.display()),
            )
            .help("check the folder, or give another one with --model-dir")
        };
        let folder = Folder::new()?;
        let socket = folder.path().join("control.sock");
        let listener = UnixListener::bind(&socket).map_err(|error| failed(&socket, &error))?;
        let file = Address::file(model_dir);
        let address = Address {
            socket,
            process_id: std::process::id(),
        };
        let text = serde_json::to_string(&address).map_err(|error| failed(&file, &error))? + "\n";
        std::fs::create_dir_all(model_dir.join("up")).map_err(|error| failed(&file, &error))?;
        trainyard_checkpoint::write_atomically(&file, text.as_bytes())
            .map_err(|error| failed(&file, &error))?;
        let (sender, requests) = mpsc::channel(1);
        let listening = tokio::spawn(listen(listener, sender));
        Ok(Self {
            requests,
            listening,
            file,
            _folder: folder,
        })
    }

    /// Returns the next order; never, where none comes.
    pub(super) async fn next(&mut self) -> Request {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.listening.abort();
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Takes one order after the other: who comes meanwhile waits in the listener's queue.
async fn listen(listener: UnixListener, requests: mpsc::Sender<Request>) {
    loop {
        let served = match listener.accept().await {
            Ok((stream, _)) => serve(stream, &requests).await,
            Err(error) => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                Err(error)
            }
        };
        if let Err(error) = served {
            warn!(%error, "an order could not be taken or answered");
        }
        if requests.is_closed() {
            return;
        }
    }
}

async fn serve(mut stream: UnixStream, requests: &mpsc::Sender<Request>) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(ORDER_BYTES_MAX));
    if tokio::time::timeout(PEER, reader.read_line(&mut line)).await?? == 0 {
        // Somebody looked whether anybody is here.
        return Ok(());
    }
    let order: Order = match serde_json::from_str(&line) {
        Ok(order) => order,
        Err(error) => {
            let message = format!("the order is not understood: {error}");
            let answer = Answer::refused(Code::E2007, message, "run the release of `trainyard up`");
            return say(&mut write, &answer).await;
        }
    };
    let (sender, mut answers) = mpsc::channel(ANSWERS_QUEUE);
    if requests.send((order, sender)).await.is_err() {
        return Ok(());
    }
    while let Some(answer) = answers.recv().await {
        say(&mut write, &answer).await?;
    }
    Ok(())
}

async fn say(write: &mut (impl tokio::io::AsyncWrite + Unpin), answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    tokio::time::timeout(PEER, write.write_all(line.as_bytes())).await?
}
