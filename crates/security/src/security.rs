//! The credentials of a task or service: they prove its identity and check those of its peers.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::net::TcpStream;
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_diagnostic::Diagnostic;
use trainyard_runtime::{Answer, Arrivals, Connection, Stream, Transport};

use crate::tokens::Tokens;
use crate::{ClientProof, ClientTokens, Credentials, Identity, InnerProtocol, Owner, Protection};

/// The credentials of a task or service.
#[derive(Debug, Default)]
pub struct Security {
    role: Option<Role>,
    credentials: Option<Credentials>,
    tokens: Option<Tokens>,
    waived: bool,
    /// The task that is expected at each address.
    tasks: BTreeMap<String, Task>,
    callers: Callers,
}

/// The callers of a process.
#[derive(Debug, Default)]
enum Callers {
    /// Tasks of a cluster.
    #[default]
    Tasks,
    /// Clients of a service; absent = they send no tokens.
    Clients(Option<ClientTokens>),
}

/// Sources of the credentials of a task or service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CredentialSources<'a> {
    /// Folder of certificates.
    pub tls_dir: Option<&'a Path>,
    /// File of tokens.
    pub token_file: Option<&'a Path>,
    /// The operator declares that the surrounding network protects the port.
    pub is_waived: bool,
}

/// A connection after its handshake, and the identity of the peer.
pub type Secured = (Connection, Option<Identity>);

impl Security {
    /// Reads the credentials of a task: certificates, tokens, both or none.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(
        cluster: &ClusterSpec,
        task: Task,
        sources: CredentialSources<'_>,
    ) -> Result<Self, Diagnostic> {
        let credentials = sources
            .tls_dir
            .map(|folder| Credentials::load(folder, Owner::Task(task)))
            .transpose()?;
        let tokens = sources
            .token_file
            .map(|path| Tokens::load(path, task.role))
            .transpose()?;
        let tasks = cluster.tasks.iter().chain(&cluster.standbys);
        let tasks = tasks
            .map(|(task, address)| (address.clone(), *task))
            .collect();
        Ok(Self {
            role: Some(task.role),
            credentials,
            tokens,
            waived: sources.is_waived,
            tasks,
            callers: Callers::Tasks,
        })
    }

    /// Reads the credentials of a service, whose clients are no tasks. With tokens, a client proves itself by its
    /// token; with a certificate alone, by a certificate that an authority of `ca.crt` has signed.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn of_service(sources: CredentialSources<'_>) -> Result<Self, Diagnostic> {
        let tokens = sources.token_file.map(ClientTokens::load).transpose()?;
        let proof = match tokens {
            Some(_) => ClientProof::Token,
            None => ClientProof::Certificate,
        };
        let credentials = sources
            .tls_dir
            .map(|folder| Credentials::load(folder, Owner::Service(proof)))
            .transpose()?;
        Ok(Self {
            credentials,
            waived: sources.is_waived,
            callers: Callers::Clients(tokens),
            ..Self::default()
        })
    }

    /// Returns the protection of this process's ports.
    pub fn protection(&self) -> Protection {
        let has_tokens = self.tokens.is_some() || matches!(self.callers, Callers::Clients(Some(_)));
        match &self.credentials {
            Some(_) => Protection::Tls,
            None if self.waived => Protection::Waived,
            None if has_tokens => Protection::Tokens,
            None => Protection::Nothing,
        }
    }

    /// Returns whether the callers are clients of a service, and no tasks.
    pub fn serves_clients(&self) -> bool {
        matches!(self.callers, Callers::Clients(_))
    }

    /// Checks the header `authorization` of a client's request.
    ///
    /// # Errors
    /// This service asks for a token, and the header holds none that it knows. The message says what is needed.
    pub fn admit(&self, authorization: Option<&[u8]>) -> Result<(), &'static str> {
        match &self.callers {
            Callers::Clients(Some(tokens)) => tokens.check(authorization),
            Callers::Clients(None) | Callers::Tasks => Ok(()),
        }
    }

    /// Returns the expiry of the certificate, if there is one.
    pub fn certificate_end(&self) -> Option<SystemTime> {
        self.credentials.as_ref().map(Credentials::end)
    }

    /// Returns whether connections are encrypted.
    pub fn has_tls(&self) -> bool {
        self.credentials.is_some()
    }

    /// Returns whether callers must prove their identity.
    pub fn asks_who(&self) -> bool {
        self.credentials.is_some() || self.tokens.is_some()
    }

    /// Makes the handshake with a peer that has connected.
    ///
    /// # Errors
    /// The peer cannot prove its identity, does not speak TLS 1.3, or takes too long.
    pub async fn accept(
        &self,
        stream: impl Stream + 'static,
        inner: InnerProtocol,
    ) -> io::Result<Secured> {
        let credentials = self.credentials.as_ref();
        let credentials =
            credentials.ok_or_else(|| io::Error::other("this process has no certificate"))?;
        credentials.accept(stream, inner).await
    }

    /// Returns the identity of a caller, from its certificate (`identity`) or from its header `authorization`. If
    /// both are required, both must prove the same role.
    pub fn who(
        &self,
        identity: Option<Identity>,
        authorization: Option<&[u8]>,
    ) -> Option<Identity> {
        let by_token = || authorization.and_then(|header| self.tokens.as_ref()?.who(header));
        match (&self.credentials, &self.tokens) {
            (Some(_), None) => identity,
            (None, Some(_)) => by_token(),
            (Some(_), Some(_)) => {
                let role = by_token()?.role;
                identity.filter(|identity| identity.role == role)
            }
            (None, None) => None,
        }
    }

    async fn connect(&self, address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Some(credentials) = &self.credentials else {
            return Ok(Box::new(stream));
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let (stream, found) = credentials.connect(host, stream).await?;
        match (self.tasks.get(address), found) {
            (Some(task), Some(found)) if !found.is(*task) => Err(io::Error::other(format!(
                "the certificate there is of {found}, and {task} should be at {address}"
            ))),
            (Some(task), None) => Err(io::Error::other(format!(
                "the certificate there names no task, and {task} should be at {address}"
            ))),
            _ => Ok(stream),
        }
    }
}

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// For `tls.crt`.
    pub certificate: String,
    /// For `tls.key`: a secret.
    pub key: String,
}

/// A transport that makes calls with a task's credentials.
#[derive(Debug, Clone)]
pub struct Caller(pub Arc<Security>);

impl Transport for Caller {
    fn connect(&self, address: String) -> Answer<'static, Connection> {
        let security = Arc::clone(&self.0);
        Box::pin(async move { security.connect(&address).await })
    }

    fn listen(&self, address: String) -> Answer<'static, Box<dyn Arrivals>> {
        // A task listens on the system's sockets, and its server makes the handshakes.
        Box::pin(async move {
            Err(io::Error::other(format!(
                "{address}: only calls are made here"
            )))
        })
    }

    fn authorization(&self) -> Option<String> {
        self.0.tokens.as_ref()?.header(self.0.role?)
    }
}
