//! How tasks reach each other.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Sync + Unpin> Stream for S {}

/// A connection of a [`Transport`].
pub type Connection = Box<dyn Stream>;

/// What is waited for.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A network other than the system's.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Connects to `host:port`.
    ///
    /// The answer is an error where nobody listens there, or the network says that it cannot be reached.
    fn connect(&self, address: String) -> Answer<'static, Connection>;

    /// Listens at `host:port`.
    ///
    /// The answer is an error where somebody else does.
    fn listen(&self, address: String) -> Answer<'static, Box<dyn Arrivals>>;

    /// Returns the header `authorization` of this process's calls, if they carry one.
    fn authorization(&self) -> Option<String> {
        None
    }
}

/// Where connections arrive.
pub trait Arrivals: fmt::Debug + Send + Sync {
    /// Waits for a connection; returns it with the peer's address, for messages.
    fn accept(&self) -> Answer<'_, (Connection, String)>;
}

/// How the tasks of a process reach others.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// By the sockets of the system.
    #[default]
    System,
    /// By something else.
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
