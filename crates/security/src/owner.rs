//! The owner of a certificate, and the peers that it serves.

use trainyard_cluster_spec::Task;

/// The owner of a folder of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A task of a cluster. Its certificate holds its name, and its peers are tasks with certificates of their own.
    Task(Task),
    /// A service whose clients are no tasks.
    Service(ClientProof),
}

/// The proof that a service needs of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProof {
    /// A certificate that an authority of `ca.crt` has signed.
    Certificate,
    /// A token in each request. No certificate is asked for.
    Token,
}

/// The protocol inside TLS (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InnerProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, which gRPC uses.
    Http2,
}
