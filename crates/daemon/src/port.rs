//! Binding of a port. The error for a port in use names its owner.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::port_owner::port_owner;

/// Most connections that wait to be accepted. A connection beyond them waits for its next attempt, a second and more; the
/// default of the library, 128, is fewer than a burst of clients. The system may have a lower bound (`somaxconn`).
const BACKLOG: i32 = 4096;

/// Listens at a port (`host:port`).
///
/// # Errors
/// The address is not of this host, or is in use; the message names the process that uses it, if this user may see it.
/// The name cannot be resolved; this is temporary: at boot, the name of a host is often unknown for a while.
pub(crate) async fn bind(address: &str) -> Result<TcpListener, Diagnostic> {
    let found = tokio::net::lookup_host(address)
        .await
        .map(Iterator::collect::<Vec<SocketAddr>>);
    let listener = match found {
        Ok(found) => TcpListener::bind(&found[..]).await.and_then(with_backlog),
        // The address does not have the form `host:port`.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Err(error),
        Err(error) => return Err(unknown(address, &error)),
    };
    listener.map_err(|error| {
        let what = match error.kind() {
            std::io::ErrorKind::AddrInUse => "address already in use".to_owned(),
            std::io::ErrorKind::AddrNotAvailable => {
                "this host does not have this address".to_owned()
            }
            _ => error.to_string(),
        };
        let port = address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        let owner = port
            .and_then(port_owner)
            .filter(|_| error.kind() == std::io::ErrorKind::AddrInUse);
        let message = format!("cannot listen on {address}: {what}");
        match owner {
            // The same program at the address of this task is this task.
            Some(owner) if owner.is_ours => Diagnostic::error(Code::E2008, message)
                .note(format!("this task is already served by: {}", owner.name))
                .help(
                    "leave that process running, or stop it first; another task needs its own \
                    index and address",
                ),
            Some(owner) => Diagnostic::error(Code::E2001, message)
                .note(format!("held by: {}", owner.name))
                .help("stop the other program, or choose another port in the cluster file"),
            None if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
                Diagnostic::error(Code::E2001, message).help(
                    "run this task on the host that the cluster file names for it; if other \
                    tasks reach this host at another address, give the local address with \
                    --listen",
                )
            }
            None => Diagnostic::error(Code::E2001, message)
                .help("stop the other program, or choose another port in the cluster file"),
        }
    })
}

/// Lets more connections wait to be accepted. A socket that listens may be told to listen again.
fn with_backlog(listener: TcpListener) -> std::io::Result<TcpListener> {
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Returns the error of an address whose name cannot be resolved.
fn unknown(address: &str, error: &std::io::Error) -> Diagnostic {
    let message = format!("cannot listen on {address}: its host name cannot be resolved: {error}");
    Diagnostic::error(Code::E2002, message).help(
        "check whether this host can resolve the name (`getent hosts NAME`), or give an IP \
            address in the cluster file; a service manager may start this task again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_this_program_has_taken_is_told_with_its_owner() {
        let first = bind("127.0.0.1:0").await.unwrap();
        let address = first.local_addr().unwrap().to_string();
        let refused = bind(&address).await.unwrap_err();
        assert_eq!(refused.code, Code::E2008);
        let text = refused.render();
        assert!(
            text.contains(&format!(
                "cannot listen on {address}: address already in use"
            )),
            "{text}"
        );
        assert!(
            text.contains(&format!("already served by: pid {}", std::process::id())),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_looked_up_passes_and_an_address_of_another_host_does_not() {
        // The label is too long, so no name server is queried.
        let nowhere = format!("{}.invalid:0", "x".repeat(64));
        let refused = bind(&nowhere).await.unwrap_err();
        assert_eq!((refused.code, refused.exit_code()), (Code::E2002, 69));
        assert!(
            refused.render().contains("cannot be resolved"),
            "{}",
            refused.render()
        );
        // 192.0.2.1 is an address for documentation (RFC 5737).
        for lasting in ["192.0.2.1:0", "127.0.0.1"] {
            let refused = bind(lasting).await.unwrap_err();
            assert_eq!(
                (refused.code, refused.exit_code()),
                (Code::E2001, 73),
                "{lasting}"
            );
        }
    }

    /// A burst of clients connects before the first is accepted. Without room for them, the system drops their requests, and
    /// they try again after a second.
    #[tokio::test]
    async fn a_burst_of_clients_is_connected_before_the_first_is_accepted() {
        let listener = bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut clients = Vec::new();
        for _ in 0..400 {
            let connected = tokio::net::TcpStream::connect(address);
            let connected = tokio::time::timeout(std::time::Duration::from_secs(10), connected);
            clients.push(connected.await.expect("in time").expect("a connection"));
        }
        assert_eq!(clients.len(), 400);
    }
}
