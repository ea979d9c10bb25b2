//! Authentication and authorization of peers.
//!
//! A task proves its role and index by a certificate (mutual TLS 1.3), or its role by a token. One table has the
//! methods that each role may call. A service, whose clients are no tasks, asks them for a certificate or a token.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod authority;
#[cfg(feature = "tls")]
mod certificate;
mod client_tokens;
#[cfg(feature = "tls")]
mod credentials;
mod exposure;
#[cfg(feature = "tls")]
mod handshake;
mod identity;
mod owner;
mod private_file;
mod rights;
mod security;
mod token_file;
mod tokens;

#[cfg(not(feature = "tls"))]
pub use absent::{Authority, Credentials};
#[cfg(feature = "tls")]
pub use authority::Authority;
#[cfg(feature = "tls")]
pub use certificate::Certificate;
pub use client_tokens::ClientTokens;
#[cfg(feature = "tls")]
pub use credentials::Credentials;
pub use exposure::{Protection, check_exposure};
pub use identity::Identity;
pub use owner::{ClientProof, InnerProtocol, Owner};
pub use rights::{is_for_clients, roles_of};
pub use security::{Caller, CredentialSources, Issued, Secured, Security};
pub use tokens::Tokens;

/// File of the certificates of the authorities that sign tasks' certificates (PEM).
pub const ROOTS_FILE: &str = "ca.crt";
/// File of the task's certificate and the intermediate certificates (PEM).
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// File of the task's private key (PEM).
pub const KEY_FILE: &str = "tls.key";
