//! The network between tasks: the system's sockets, or a replacement.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin> Stream for S {}

/// A connection of a [`Transport`].
pub type Connection = Box<dyn Stream>;

/// A boxed future of an I/O result.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A network other than the system's.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Connects to `host:port`.
    ///
    /// Fails if no task listens there, or the address cannot be reached.
    fn connect(&self, address: String) -> Answer<'static, Connection>;

    /// Listens at `host:port`.
    ///
    /// Fails if another task listens there.
    fn listen(&self, address: String) -> Answer<'static, Box<dyn Arrivals>>;

    /// Returns the header `authorization` of this process's calls, if they carry one.
    fn authorization(&self) -> Option<String> {
        None
    }
}

/// A listener of a [`Transport`].
pub trait Arrivals: fmt::Debug + Send + Sync {
    /// Waits for a connection. Returns it with the peer's address, for messages.
    fn accept(&self) -> Answer<'_, (Connection, String)>;
}

/// The network that the tasks of a process use.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// The sockets of the system.
    #[default]
    System,
    /// Another transport.
    Other(Arc<dyn Transport>),
}

impl Network {
    /// Returns the header `authorization` of this process's calls, if they carry one.
    pub fn authorization(&self) -> Option<String> {
        match self {
            Self::System => None,
            Self::Other(transport) => transport.authorization(),
        }
    }
}
