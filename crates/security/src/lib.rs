//! Who a peer is, and what it may ask for.
//!
//! A task proves its role and index by a certificate (mutual TLS 1.3), or its role by a token. What each role may call is
//! one table.

mod authority;
mod certificate;
mod credentials;
mod exposure;
mod identity;
mod rights;
mod security;
mod tokens;

pub use authority::{Authority, Issued};
pub use certificate::Certificate;
pub use credentials::{CERTIFICATE_FILE, Credentials, KEY_FILE, ROOTS_FILE};
pub use exposure::{Protection, check_exposure};
pub use identity::Identity;
pub use rights::roles_of;
pub use security::{Caller, Secured, Security};
pub use tokens::Tokens;
