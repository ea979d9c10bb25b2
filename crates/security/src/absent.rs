//! Stand-ins for certificates in a program that is built without the feature `tls`.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use tokio::net::TcpStream;
use trainyard_diagnostic::{Code, Diagnostic, not_built_help};
use trainyard_runtime::Stream;

use crate::{InnerProtocol, Issued, Owner, Secured};

const FEATURE: &str = "tls";

/// The certificate of a task or service. No value exists.
#[derive(Debug)]
pub enum Credentials {}

impl Credentials {
    /// Returns the error that certificates need the feature `tls`.
    ///
    /// # Errors
    /// This program was built without TLS.
    pub fn load(folder: &Path, _owner: Owner) -> Result<Self, Diagnostic> {
        let message = format!(
            "{}: this program was built without `{FEATURE}`",
            folder.display()
        );
        Err(Diagnostic::error(Code::E7001, message).help(not_built_help(FEATURE)))
    }

    pub(crate) fn end(&self) -> SystemTime {
        match *self {}
    }

    pub(crate) async fn accept(
        &self,
        _stream: impl Stream + 'static,
        _inner: InnerProtocol,
    ) -> io::Result<Secured> {
        match *self {}
    }

    pub(crate) async fn connect(&self, _host: &str, _stream: TcpStream) -> io::Result<Secured> {
        match *self {}
    }
}

/// An authority that signs certificates. No value exists.
#[derive(Debug)]
pub enum Authority {}

impl Authority {
    fn refused() -> String {
        format!(
            "this program was built without `{FEATURE}`: {}",
            not_built_help(FEATURE)
        )
    }

    /// Returns the error that certificates need the feature `tls`.
    ///
    /// # Errors
    /// This program was built without TLS.
    pub fn new() -> Result<Self, String> {
        Err(Self::refused())
    }

    /// Returns the error that certificates need the feature `tls`.
    ///
    /// # Errors
    /// This program was built without TLS.
    pub fn from_pem(_certificate: &str, _key: &str) -> Result<Self, String> {
        Err(Self::refused())
    }

    /// Returns the certificate of the authority, as PEM.
    pub fn certificate(&self) -> &str {
        match *self {}
    }

    /// Returns the key of the authority, as PEM. It is a secret.
    pub fn key(&self) -> String {
        match *self {}
    }

    /// Makes a certificate.
    ///
    /// # Errors
    /// Never: no authority exists.
    pub fn issue(
        &self,
        _name: &str,
        _hosts: &[String],
        _until: SystemTime,
    ) -> Result<Issued, String> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use trainyard_cluster_spec::{Role, Task};

    use super::*;

    #[test]
    fn a_folder_of_certificates_is_refused_with_the_feature_that_it_needs() {
        let task = Task {
            role: Role::Ps,
            index: 0,
        };
        let told = Credentials::load("certificates".as_ref(), Owner::Task(task))
            .expect_err("there is no TLS")
            .render();
        assert!(
            told.contains("certificates") && told.contains("--features tls"),
            "{told}"
        );
        assert!(
            Authority::new()
                .expect_err("there is no TLS")
                .contains("--features tls")
        );
    }
}
