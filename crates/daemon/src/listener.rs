//! Listener of a server: a TCP port, or a Unix socket file of this host.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_runtime::{Arrivals, Connection};

use crate::port::bind;

/// Send buffer of a Unix socket, in bytes.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// A connection from any listener.
pub(crate) type Stream = Either<Either<TcpStream, UnixStream>, Connection>;

/// A listener for connections.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket and its file. The file is removed just before the listener closes, so the file of a successor is
    /// never removed.
    Unix(SocketFile, UnixListener),
    /// A listener of a network other than the system's.
    Other(Box<dyn Arrivals>),
}

/// A socket file, which is removed on drop.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens at an address: `host:port`, or `unix:` and the absolute path of a socket file.
///
/// A file that a dead process has left is replaced. A file at which a process listens is not. Only the user of this process
/// may connect to the file.
///
/// # Errors
/// The address is not of this host, or is in use; the message names the process that uses it, if this user may see it.
pub async fn listen(address: &str) -> Result<Listener, Diagnostic> {
    let Some(path) = address.strip_prefix("unix:") else {
        return bind(address).await.map(Listener::Tcp);
    };
    let path = Path::new(path);
    let bound = match bind_private(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && left_behind(path).await => {
            let _ = std::fs::remove_file(path);
            bind_private(path)
        }
        bound => bound,
    };
    let failed = |error: io::Error| {
        let what = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another process listens at this path, or the path names a file that is no socket"
                    .to_owned()
            }
            _ => error.to_string(),
        };
        Diagnostic::error(Code::E2001, format!("cannot listen on {address}: {what}")).help(
            "stop the other program, or give another path in the cluster file, in a folder \
                that this user may write",
        )
    };
    let listener = bound.map_err(failed)?;
    Ok(Listener::Unix(SocketFile(path.to_owned()), listener))
}

/// Listens at a new socket file that only the user of this process may open.
///
/// # Errors
/// The file exists, or cannot be created.
pub fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Checks that the peer of a socket file is a process of the same user, or of the host's administrator. Between the creation
/// of the file and its permissions, others could connect; and a user may have opened the file to all.
///
/// # Errors
/// The peer is a process of another user, or the system does not tell.
pub fn check_user(stream: &UnixStream) -> io::Result<()> {
    may_connect(
        stream.peer_cred()?.uid(),
        rustix::process::geteuid().as_raw(),
    )
}

/// Checks that a process of the user `peer` may speak to one of the user `own` without a proof.
///
/// # Errors
/// The peer is another user, and not the host's administrator.
pub(crate) fn may_connect(peer: u32, own: u32) -> io::Result<()> {
    if peer == own || peer == 0 {
        return Ok(());
    }
    let what = format!(
        "a process of user {peer} may not speak to one of user {own} on this host without \
        certificates or tokens"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// Returns whether no process listens at a socket file.
async fn left_behind(path: &Path) -> bool {
    // A file that is not a socket belongs to another program, and stays.
    if !std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        return false;
    }
    match UnixStream::connect(path).await {
        Ok(_) => false,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

impl Listener {
    /// Waits for a connection. Returns it with the peer's address, for messages.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                drop(stream.set_nodelay(true));
                Ok((Either::Left(Either::Left(stream)), peer.to_string()))
            }
            Self::Unix(_, listener) => {
                let (stream, _) = listener.accept().await?;
                // The default buffer holds only a fraction of a message. The system may refuse a larger one.
                let _ =
                    rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
                Ok((
                    Either::Left(Either::Right(stream)),
                    "a process of this host".to_owned(),
                ))
            }
            Self::Other(arrivals) => {
                let (connection, peer) = arrivals.accept().await?;
                Ok((Either::Right(connection), peer))
            }
        }
    }
}

/// Returns the connection if it came through a socket file.
pub(crate) fn local(stream: &Stream) -> Option<&UnixStream> {
    match stream {
        Either::Left(Either::Right(stream)) => Some(stream),
        _ => None,
    }
}

/// Returns the addresses of the peer and of this end of a TCP connection.
pub(crate) fn remote(stream: &Stream) -> Option<(SocketAddr, SocketAddr)> {
    match stream {
        Either::Left(Either::Left(stream)) => {
            Some((stream.peer_addr().ok()?, stream.local_addr().ok()?))
        }
        _ => None,
    }
}

/// Waits for the first byte of a connection. Returns `false` if a TCP connection ends before.
pub(crate) async fn speaks(stream: &Stream) -> bool {
    match stream {
        Either::Left(Either::Left(stream)) => {
            stream.peek(&mut [0]).await.is_ok_and(|count| count > 0)
        }
        Either::Left(Either::Right(stream)) => stream.readable().await.is_ok(),
        // Other networks do not support peeking. Keepalive finds dead connections.
        Either::Right(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_file_is_replaced_when_nobody_listens_and_refused_when_somebody_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("ps.sock");
        let address = format!("unix:{}", path.display());
        let first = listen(&address).await.expect("a new file");
        let file = std::fs::metadata(&path).expect("it is there");
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        let text = listen(&address).await.expect_err("it is taken").render();
        assert!(
            text.contains("another process listens at this path"),
            "{text}"
        );
        drop(first);
        assert!(!path.exists(), "the file goes with its listener");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a file that stays behind"));
        let again = listen(&address).await.expect("nobody listens there");
        let (accepted, connected) = tokio::join!(again.accept(), UnixStream::connect(&path));
        assert!(accepted.is_ok() && connected.is_ok());
        let precious = folder.path().join("job.toml");
        std::fs::write(&precious, "mine").expect("a file");
        let text = listen(&format!("unix:{}", precious.display()))
            .await
            .expect_err("no socket")
            .render();
        assert!(
            text.contains("a file that is no socket") && precious.exists(),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_process_of_another_user_may_not_connect_to_a_socket_file() {
        let (one, other) = UnixStream::pair().expect("two ends");
        check_user(&one).expect("this process");
        drop(other);
        may_connect(0, 1000).expect("the administrator");
        may_connect(1000, 1000).expect("the same user");
        let text = may_connect(1001, 1000)
            .expect_err("another user")
            .to_string();
        assert!(
            text.contains("user 1001") && text.contains("user 1000"),
            "{text}"
        );
        may_connect(1001, 0).expect_err("another user");
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_told() {
        let text = listen("unix:/nowhere/ps.sock")
            .await
            .expect_err("there is no such folder")
            .render();
        assert!(
            text.contains("cannot listen on unix:/nowhere/ps.sock: No such file"),
            "{text}"
        );
    }
}
