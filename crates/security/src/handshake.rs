//! The TLS handshake as client and as server, and the messages for its failures.

use std::io;
use std::time::Duration;

use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use trainyard_runtime::Stream;

use crate::{Certificate, Credentials, Identity, InnerProtocol, Secured};

/// Timeout of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

impl Credentials {
    /// Makes the handshake with a peer that has connected.
    pub(crate) async fn accept(
        &self,
        stream: impl Stream + 'static,
        inner: InnerProtocol,
    ) -> io::Result<Secured> {
        let configs = self.configs();
        let acceptor = TlsAcceptor::from(match inner {
            InnerProtocol::Http1 => configs.server_http1,
            InnerProtocol::Http2 => configs.server,
        });
        let stream = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream))
            .await
            .map_err(late)?
            .map_err(told)?;
        let identity = identity(stream.get_ref().1.peer_certificates());
        Ok((Box::new(stream), identity))
    }

    /// Makes the handshake with the host that was called.
    pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Secured> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            io::Error::other(format!("`{host}` is no name that a certificate may hold"))
        })?;
        let client = self.configs().client;
        let client = client.ok_or_else(|| io::Error::other("a service calls no tasks"))?;
        let connector = TlsConnector::from(client);
        let stream = timeout(HANDSHAKE_TIMEOUT, connector.connect(name, stream))
            .await
            .map_err(late)?;
        let stream = stream.map_err(explained)?;
        let identity = identity(stream.get_ref().1.peer_certificates());
        Ok((Box::new(stream), identity))
    }
}

fn identity(chain: Option<&[CertificateDer<'_>]>) -> Option<Identity> {
    Certificate::read(chain?.first()?).ok()?.identity
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    let message = format!(
        "TLS was not agreed on within {} s",
        HANDSHAKE_TIMEOUT.as_secs()
    );
    io::Error::new(io::ErrorKind::TimedOut, message)
}

/// Adds the likely cause to an error of rustls about a caller.
fn told(error: io::Error) -> io::Error {
    let told = error.to_string();
    let help = if told.contains("InvalidContentType") || told.contains("corrupt message") {
        "it does not speak TLS: a task must be started with --tls-dir, a client must use https"
    } else if told.contains("NoCertificatesPresented") || told.contains("sent no certificates") {
        "it shows no certificate: a task must be started with --tls-dir, a client with a certificate"
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{told}: {help}"))
}

/// Adds a remedy to an error of rustls about the called host.
fn explained(error: io::Error) -> io::Error {
    let told = error.to_string();
    let help = if told.contains("InvalidContentType") || told.contains("corrupt message") {
        "it does not speak TLS: was it started without --tls-dir?"
    } else if told.contains("UnknownIssuer") {
        "another authority has signed its certificate than those in ca.crt here"
    } else if told.contains("Expired") {
        "its certificate has ended: renew it there"
    } else if told.contains("NotValidForName") || told.contains("not valid for name") {
        "its certificate does not hold this host's name: the address in the cluster file must be one of its alternative names"
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{told}: {help}"))
}
