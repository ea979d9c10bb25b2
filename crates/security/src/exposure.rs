//! The rule that a port which other hosts can reach must be protected.

use std::net::SocketAddr;

use trainyard_diagnostic::{Code, Diagnostic};

/// The protection of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// No protection.
    Nothing,
    /// Tokens over unencrypted connections.
    Tokens,
    /// Mutual TLS.
    Tls,
    /// No protection but the surrounding network's, as the operator has declared.
    Waived,
}

/// Checks that a port that other hosts reach is protected.
///
/// # Errors
/// The port is not protected, and the operator has not waived protection.
pub fn check_exposure(address: SocketAddr, protection: Protection) -> Result<(), Diagnostic> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let what = match protection {
        Protection::Tls | Protection::Waived => return Ok(()),
        Protection::Nothing => "without TLS",
        Protection::Tokens => {
            "with tokens but without TLS, so that everyone who reads the network traffic learns them"
        }
    };
    let message = format!("{address} can be reached from other hosts, {what}");
    Err(Diagnostic::error(Code::E7002, message)
        .note("everyone who reaches it could read and change the parameters")
        .help("give --tls-dir DIR (`trainyard pki` makes one for each task), or, where the network around the cluster protects it, --insecure-no-auth"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_other_hosts_reach_needs_protection() {
        let check = |address: &str, protection| {
            check_exposure(address.parse().expect("an address"), protection)
                .map_err(|problem| problem.code)
        };
        for local in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert_eq!(check(local, Protection::Nothing), Ok(()), "{local}");
        }
        for open in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1"] {
            assert_eq!(check(open, Protection::Nothing), Err(Code::E7002), "{open}");
            assert_eq!(check(open, Protection::Tokens), Err(Code::E7002), "{open}");
            assert_eq!(check(open, Protection::Tls), Ok(()), "{open}");
            assert_eq!(check(open, Protection::Waived), Ok(()), "{open}");
        }
    }
}
