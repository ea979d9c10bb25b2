//! Control socket of a running `trainyard up`, found through the model directory.
//!
//! Each connection carries one order and its answers, as lines of JSON. The socket lies in a temporary folder, because
//! the name of a socket holds 107 bytes and the path of a model directory may be long. `local_dir/up/control.json`
//! holds its path.

use std::fs::{File, TryLockError};
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
use trainyard_daemon::{bind_private, check_user};
use trainyard_diagnostic::{Code, Diagnostic, system_problem};
use trainyard_storage::open_lock;

use crate::folder::Folder;

/// Longest order, in bytes.
const ORDER_BYTES_MAX: u64 = 4096;
/// Timeout for a client to send its order, or to accept an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most answers that wait to be written.
const ANSWERS_QUEUE: usize = 16;

/// Order of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// Number of workers to run.
    pub(crate) workers: usize,
}

/// Answer to an order. The last answer is `Done` or `Refused`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Progress of the order.
    Note(String),
    /// The order was carried out.
    Done {
        /// Number of workers before.
        from: usize,
        /// Number of workers now.
        to: usize,
    },
    /// The order was not carried out.
    Refused {
        /// Code of the diagnostic.
        code: String,
        /// Message of the diagnostic.
        message: String,
        /// Help of the diagnostic.
        help: String,
    },
}

impl Answer {
    /// Makes a refusal.
    pub(super) fn refused(code: Code, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Refused {
            code: code.name.to_owned(),
            message: message.into(),
            help: help.into(),
        }
    }
}

/// Address of a running `trainyard up`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    /// Path of its socket.
    pub(crate) socket: PathBuf,
    /// Id of its process.
    pub(crate) process_id: u32,
}

impl Address {
    fn file(model_dir: &Path) -> PathBuf {
        model_dir.join("up/control.json")
    }

    /// Reads the address of the `up` of a model directory, which may have ended. Returns `None` if there was none.
    pub(crate) fn read(model_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(Self::file(model_dir)).ok()?).ok()
    }

    /// Connects. Fails if the `up` has ended.
    pub(crate) fn connect(&self) -> io::Result<BlockingStream> {
        BlockingStream::connect(&self.socket)
    }
}

/// An order, and the channel for its answers.
pub(super) type Request = (Order, mpsc::Sender<Answer>);

/// Server of the control socket. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Control {
    requests: mpsc::Receiver<Request>,
    listening: JoinHandle<()>,
    file: PathBuf,
    /// Holds the folder of the socket.
    _folder: Folder,
    /// Locked while this `up` runs.
    _lock: File,
}

impl Control {
    /// Starts to listen for orders to the `up` of a model directory.
    ///
    /// # Errors
    /// Another `up` runs for the same model directory, or a file cannot be created.
    pub(super) fn open(model_dir: &Path) -> Result<Self, Diagnostic> {
        let failed = |what: &Path, error: &std::io::Error| {
            let otherwise = (
                Code::E9002,
                "check the folder, or give another one with --model-dir",
            );
            let message = format!("{} cannot be made: {error}", what.display());
            system_problem(error, message, otherwise)
        };
        let up = model_dir.join("up");
        std::fs::create_dir_all(&up).map_err(|error| failed(&up, &error))?;
        let path = up.join("lock");
        let lock = open_lock(&path).map_err(|error| failed(&path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let folder = model_dir.display();
                // One that has just begun has not said its address yet.
                let pid = Address::read(model_dir)
                    .filter(|address| address.connect().is_ok())
                    .map_or_else(String::new, |other| format!(": pid {}", other.process_id));
                let message = format!("another `trainyard up` runs with model_dir {folder}{pid}");
                return Err(Diagnostic::error(Code::E2008, message)
                    .help("stop it first, or give this one another --model-dir"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
        }
        let file = Address::file(model_dir);
        trainyard_model_dir::refuse_unless_own::<Address>(&file)?;
        let folder = Folder::new()?;
        let socket = folder.path().join("control.sock");
        let listener = bind_private(&socket).map_err(|error| failed(&socket, &error))?;
        let address = Address {
            socket,
            process_id: std::process::id(),
        };
        let text = serde_json::to_string(&address);
        let text = text.map_err(|error| failed(&file, &error.into()))? + "\n";
        trainyard_model_dir::write_atomically(&file, text.as_bytes())?;
        let (sender, requests) = mpsc::channel(1);
        let listening = tokio::spawn(listen(listener, sender));
        Ok(Self {
            requests,
            listening,
            file,
            _folder: folder,
            _lock: lock,
        })
    }

    /// Returns the next order. Waits forever if no client can send one.
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

/// Handles one order after another. Further clients wait in the listener's queue.
async fn listen(listener: UnixListener, requests: mpsc::Sender<Request>) {
    loop {
        let served = match listener.accept().await {
            Ok((stream, _)) => match check_user(&stream) {
                Ok(()) => serve(stream, &requests).await,
                refused => refused,
            },
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
    if tokio::time::timeout(CLIENT_TIMEOUT, reader.read_line(&mut line)).await?? == 0 {
        // The client only checked whether an `up` is running.
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
    tokio::time::timeout(CLIENT_TIMEOUT, write.write_all(line.as_bytes())).await?
}
