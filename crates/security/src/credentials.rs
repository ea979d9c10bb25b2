//! The certificate of a task and the authority it believes in, as files.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{info, warn};
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::{Code, Diagnostic};

use crate::Certificate;

/// File of the certificates of the authorities that sign tasks' certificates (PEM).
pub const ROOTS_FILE: &str = "ca.crt";
/// File of the task's certificate, and those between it and the authority's (PEM).
pub const CERTIFICATE_FILE: &str = "tls.crt";
/// File of the task's private key (PEM).
pub const KEY_FILE: &str = "tls.key";
/// Time between two looks whether the files have changed.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// A certificate that ends sooner is warned of.
const ENDS_SOON: Duration = Duration::from_secs(14 * 24 * 3600);
/// What is spoken inside (HTTP/2).
const PROTOCOL: &[u8] = b"h2";
/// Rights of a file's group and of others to read it.
const OTHERS: u32 = 0o007;

/// How a task speaks TLS, in both directions.
#[derive(Debug, Clone)]
pub(crate) struct Configs {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

/// The credentials in a folder, read again when its files change.
#[derive(Debug)]
pub struct Credentials {
    folder: PathBuf,
    task: Task,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    configs: Configs,
    changed: Vec<Option<SystemTime>>,
    looked: Instant,
}

impl Credentials {
    /// Reads `ca.crt`, `tls.crt` and `tls.key` of a folder, as certificate managers and Kubernetes name them.
    ///
    /// # Errors
    /// A file is missing or unreadable, others may read the key, the certificate has ended, names another task than
    /// `task`, or does not belong to the key.
    pub fn load(folder: &Path, task: Task) -> Result<Self, Diagnostic> {
        let changed = changes(folder);
        let configs = read(folder, task)?;
        let state = Mutex::new(State { configs, changed, looked: Instant::now() });
        Ok(Self { folder: folder.to_owned(), task, state })
    }

    /// Returns what the files say; as before where they have become unreadable.
    pub(crate) fn configs(&self) -> Configs {
        let mut state = self.state.lock();
        if state.looked.elapsed() >= LOOK_AGAIN {
            state.looked = Instant::now();
            let changed = changes(&self.folder);
            if changed != state.changed {
                match read(&self.folder, self.task) {
                    Ok(configs) => {
                        info!(folder = %self.folder.display(), "certificate and key read again");
                        (state.configs, state.changed) = (configs, changed);
                    }
                    // They may be half replaced: another look follows.
                    Err(problem) => {
                        warn!("the credentials have changed and are not used: {}", problem.message);
                    }
                }
            }
        }
        state.configs.clone()
    }
}

fn changes(folder: &Path) -> Vec<Option<SystemTime>> {
    let changed = |name| std::fs::metadata(folder.join(name)).and_then(|file| file.modified()).ok();
    [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE].map(changed).to_vec()
}

fn unusable(path: &Path, what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::E7001, format!("{} cannot be used: {what}", path.display()))
}

/// Refuses a file of secrets that others than its owner and group may read.
pub(crate) fn check_private(path: &Path) -> Result<(), Diagnostic> {
    let file = std::fs::metadata(path).map_err(|error| unusable(path, error.kind()))?;
    match file.mode() & OTHERS {
        0 => Ok(()),
        _ => {
            let mode = file.mode() & 0o777;
            let what = format!("it may be read by others, mode {mode:04o}");
            Err(unusable(path, what).help(format!("chmod 0600 {}", path.display())))
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Diagnostic> {
    let help = "trainyard pki makes certificates for trials; the file is PEM";
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| unusable(path, error).help(help))?;
    if found.is_empty() { Err(unusable(path, "it holds no certificate").help(help)) } else { Ok(found) }
}

fn read(folder: &Path, task: Task) -> Result<Configs, Diagnostic> {
    let [roots_file, chain_file, key_file] =
        [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE].map(|name| folder.join(name));
    let mut roots = RootCertStore::empty();
    for root in certificates(&roots_file)? {
        roots.add(root).map_err(|error| unusable(&roots_file, error))?;
    }
    let chain = certificates(&chain_file)?;
    let own = Certificate::read(&chain[0]).map_err(|what| unusable(&chain_file, what))?;
    let identity = own.identity.ok_or_else(|| {
        let what = format!(
            "it names no task: of {task} it must hold the URI {} among its alternative names",
            crate::Identity::name(task)
        );
        unusable(&chain_file, what)
    })?;
    if !identity.is(task) {
        return Err(unusable(&chain_file, format!("it is of {identity}, and this task is {task}")));
    }
    match own.not_after.duration_since(SystemTime::now()) {
        Err(_) => {
            let what = format!("it has ended, on {}", own.not_after_text);
            return Err(unusable(&chain_file, what).help("renew it; a running task takes it over by itself"));
        }
        Ok(left) if left < ENDS_SOON => {
            let days = left.as_secs() / 86_400;
            warn!(certificate = %chain_file.display(), "the certificate ends in {days} days, on {}", own.not_after_text);
        }
        Ok(_) => {}
    }
    check_private(&key_file)?;
    let key = || PrivateKeyDer::from_pem_file(&key_file).map_err(|error| unusable(&key_file, error));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    configs(provider, Arc::new(roots), chain, (key()?, key()?)).map_err(|what| {
        unusable(&key_file, what).note(format!("with the certificate {}", chain_file.display()))
    })
}

fn configs(
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    keys: (PrivateKeyDer<'static>, PrivateKeyDer<'static>),
) -> Result<Configs, String> {
    let versions = &[&rustls::version::TLS13];
    let text = |error: rustls::Error| error.to_string();
    let servers = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
    let servers = servers.build().map_err(|error| error.to_string())?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let clients = clients.build().map_err(|error| error.to_string())?;
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let mut client = client
        .with_protocol_versions(versions)
        .map_err(text)?
        .with_webpki_verifier(servers)
        .with_client_auth_cert(chain.clone(), keys.0)
        .map_err(text)?;
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(text)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, keys.1)
        .map_err(text)?;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Configs { client: Arc::new(client), server: Arc::new(server) })
}
