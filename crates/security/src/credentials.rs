//! The certificate of a task or service and the authorities that it trusts, read from files.
#![expect(
    clippy::disallowed_types,
    reason = "connections are accepted outside of the simulated clock"
)]

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{info, warn};
use trainyard_diagnostic::Diagnostic;

use crate::private_file::{check_private, unusable};
use crate::{CERTIFICATE_FILE, Certificate, ClientProof, KEY_FILE, Owner, ROOTS_FILE};

/// Interval at which the files are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// A certificate that expires within this time causes a warning.
const EXPIRY_WARNING_BEFORE: Duration = Duration::from_secs(14 * 24 * 3600);
/// Protocol inside TLS (ALPN): HTTP/2.
const PROTOCOL: &[u8] = b"h2";
/// Protocol inside TLS (ALPN): HTTP/1.1.
const PROTOCOL_HTTP1: &[u8] = b"http/1.1";
/// Version of TLS between tasks and of services.
const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// TLS configurations of a task or service.
#[derive(Debug, Clone)]
pub(crate) struct Configs {
    /// As client; absent = a service, which calls no tasks.
    pub(crate) client: Option<Arc<ClientConfig>>,
    /// As server of HTTP/2.
    pub(crate) server: Arc<ServerConfig>,
    /// As server of HTTP/1.1.
    pub(crate) server_http1: Arc<ServerConfig>,
    /// Expiry of the certificate.
    pub(crate) end: SystemTime,
}

/// The credentials in a folder. They are reloaded when the files change.
#[derive(Debug)]
pub struct Credentials {
    folder: PathBuf,
    owner: Owner,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    configs: Configs,
    stamps: Vec<Stamp>,
    looked: Instant,
}

impl Credentials {
    /// Reads `ca.crt`, `tls.crt` and `tls.key` of a folder. Certificate managers and Kubernetes use these names.
    ///
    /// # Errors
    /// A file is missing or unreadable, other users may read the key, the certificate has expired, does not name the
    /// task that owns it, or does not belong to the key. A service that asks for tokens needs no `ca.crt`.
    pub fn load(folder: &Path, owner: Owner) -> Result<Self, Diagnostic> {
        let stamps = stamps(folder);
        let configs = read(folder, owner)?;
        let state = Mutex::new(State {
            configs,
            stamps,
            looked: Instant::now(),
        });
        Ok(Self {
            folder: folder.to_owned(),
            owner,
            state,
        })
    }

    /// Returns the expiry of the certificate in use.
    pub(crate) fn end(&self) -> SystemTime {
        self.configs().end
    }

    /// Returns the configurations, reloaded if the files have changed. If the files are unusable, the previous ones
    /// stay in use.
    pub(crate) fn configs(&self) -> Configs {
        let mut state = self.state.lock();
        if state.looked.elapsed() >= RELOAD_INTERVAL {
            state.looked = Instant::now();
            match self.renew(&mut state) {
                Ok(Looked::Same) => {}
                Ok(Looked::Renewed) => {
                    info!(folder = %self.folder.display(), "certificate and key read again");
                }
                // The files may be half replaced. The next check tries again.
                Err(problem) => {
                    warn!(
                        "the credentials have changed and are not used: {}",
                        problem.message
                    );
                }
            }
        }
        state.configs.clone()
    }

    /// Reloads the files if they have changed since they were read.
    fn renew(&self, state: &mut State) -> Result<Looked, Diagnostic> {
        let stamps = stamps(&self.folder);
        if stamps == state.stamps {
            return Ok(Looked::Same);
        }
        state.configs = read(&self.folder, self.owner)?;
        state.stamps = stamps;
        Ok(Looked::Renewed)
    }
}

/// Outcome of a check of the files.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    Same,
    Renewed,
}

/// Modification time, size and inode of a file, or the error of reading them, which counts as a change too.
type Stamp = Result<(SystemTime, u64, u64), ErrorKind>;

fn stamps(folder: &Path) -> Vec<Stamp> {
    let stamp = |name| {
        let file = std::fs::metadata(folder.join(name))?;
        Ok((file.modified()?, file.len(), file.ino()))
    };
    let stamp = |name| stamp(name).map_err(|error: std::io::Error| error.kind());
    [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE].map(stamp).to_vec()
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Diagnostic> {
    let help = "trainyard pki makes certificates for trials; the file is PEM";
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| unusable(path, error).help(help))?;
    if found.is_empty() {
        Err(unusable(path, "it holds no certificate").help(help))
    } else {
        Ok(found)
    }
}

fn read(folder: &Path, owner: Owner) -> Result<Configs, Diagnostic> {
    let [roots_file, chain_file, key_file] =
        [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE].map(|name| folder.join(name));
    let roots = match owner {
        Owner::Service(ClientProof::Token) => None,
        Owner::Task(_) | Owner::Service(ClientProof::Certificate) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(&roots_file)? {
                let added = roots.add(root);
                added.map_err(|error| unusable(&roots_file, error))?;
            }
            Some(Arc::new(roots))
        }
    };
    let chain = certificates(&chain_file)?;
    let own = Certificate::read(&chain[0]).map_err(|what| unusable(&chain_file, what))?;
    check_name(&own, owner, &chain_file)?;
    check_end(&own, &chain_file)?;
    check_private(&key_file)?;
    let key =
        || PrivateKeyDer::from_pem_file(&key_file).map_err(|error| unusable(&key_file, error));
    let refused = |what: String| {
        unusable(&key_file, what).note(format!("with the certificate {}", chain_file.display()))
    };
    let server = server_config(roots.clone(), chain.clone(), key()?).map_err(refused)?;
    let mut server_http1 = server.clone();
    server_http1.alpn_protocols = vec![PROTOCOL_HTTP1.to_vec()];
    let client = match (owner, roots) {
        (Owner::Task(_), Some(roots)) => {
            Some(client_config(roots, chain, key()?).map_err(refused)?)
        }
        _ => None,
    };
    Ok(Configs {
        client: client.map(Arc::new),
        server: Arc::new(server),
        server_http1: Arc::new(server_http1),
        end: own.not_after,
    })
}

/// Checks that the certificate of a task names the task. That of a service may have any name: its clients compare it.
fn check_name(own: &Certificate, owner: Owner, file: &Path) -> Result<(), Diagnostic> {
    let Owner::Task(task) = owner else {
        return Ok(());
    };
    match own.identity {
        Some(identity) if identity.is(task) => Ok(()),
        Some(identity) => {
            let what = format!("it is of {identity}, and this task is {task}");
            Err(unusable(file, what))
        }
        None => {
            let name = crate::Identity::name(task);
            let what = format!(
                "it names no task: of {task} it must hold the URI {name} among its alternative names"
            );
            Err(unusable(file, what))
        }
    }
}

/// Checks that a certificate has not ended, and warns if it ends soon.
fn check_end(own: &Certificate, file: &Path) -> Result<(), Diagnostic> {
    match own.not_after.duration_since(SystemTime::now()) {
        Err(_) => {
            let what = format!("it has ended, on {}", own.not_after_text);
            return Err(
                unusable(file, what).help("renew it; a running task takes it over by itself")
            );
        }
        Ok(left) if left < EXPIRY_WARNING_BEFORE => {
            let days = left.as_secs() / 86_400;
            warn!(certificate = %file.display(), "the certificate ends in {days} days, on {}", own.not_after_text);
        }
        Ok(_) => {}
    }
    Ok(())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the configuration of a server of HTTP/2. Without authorities it asks its clients for no certificate.
fn server_config(
    roots: Option<Arc<RootCertStore>>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, String> {
    let text = |error: rustls::Error| error.to_string();
    let server = ServerConfig::builder_with_provider(provider());
    let server = server.with_protocol_versions(VERSIONS).map_err(text)?;
    let server = match roots {
        Some(roots) => {
            let clients = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let clients = clients.build().map_err(|error| error.to_string())?;
            server.with_client_cert_verifier(clients)
        }
        None => server.with_no_client_auth(),
    };
    let mut server = server.with_single_cert(chain, key).map_err(text)?;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(server)
}

/// Returns the configuration of a task that calls others.
fn client_config(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, String> {
    let text = |error: rustls::Error| error.to_string();
    let servers = WebPkiServerVerifier::builder_with_provider(roots, provider());
    let servers = servers.build().map_err(|error| error.to_string())?;
    let client = ClientConfig::builder_with_provider(provider());
    let client = client.with_protocol_versions(VERSIONS).map_err(text)?;
    let client = client.with_webpki_verifier(servers);
    let mut client = client.with_client_auth_cert(chain, key).map_err(text)?;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(client)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use trainyard_cluster_spec::{Role, Task};
    use trainyard_diagnostic::Code;

    use super::*;
    use crate::{Authority, Identity};

    const TASK: Task = Task {
        role: Role::Worker,
        index: 3,
    };

    fn issue(authority: &Authority, folder: &Path) {
        let until = SystemTime::now() + 2 * EXPIRY_WARNING_BEFORE;
        let issued = authority
            .issue(&Identity::name(TASK), &["127.0.0.1".to_owned()], until)
            .expect("a certificate");
        for (name, text) in [
            (ROOTS_FILE, authority.certificate()),
            (CERTIFICATE_FILE, issued.certificate.as_str()),
            (KEY_FILE, issued.key.as_str()),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("it is ours");
        }
    }

    /// Checks the files. Returns the outcome, and whether the configuration in use was replaced.
    fn look(credentials: &Credentials) -> (Result<Looked, Diagnostic>, bool) {
        let mut state = credentials.state.lock();
        let before = Arc::clone(&state.configs.server);
        let looked = credentials.renew(&mut state);
        let replaced = !Arc::ptr_eq(&before, &state.configs.server);
        (looked, replaced)
    }

    /// Replaces each file in turn by a folder, which cannot be read, and restores it.
    #[test]
    fn a_file_that_has_become_unreadable_is_told_at_each_look_and_what_was_read_stays_in_use() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new().expect("an authority");
        issue(&authority, folder.path());
        let credentials =
            Credentials::load(folder.path(), Owner::Task(TASK)).expect("good credentials");
        assert!(matches!(look(&credentials), (Ok(Looked::Same), false)));
        for name in [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE] {
            let path = folder.path().join(name);
            std::fs::remove_file(&path).expect("it was there");
            for _ in 0..2 {
                let (looked, replaced) = look(&credentials);
                let problem = looked.expect_err("the file is gone");
                assert!(
                    problem.message.contains(&path.display().to_string()),
                    "{}",
                    problem.message
                );
                assert_eq!(problem.code, Code::E7001);
                assert!(!replaced, "the credentials that were read stay in use");
            }
            std::fs::create_dir(&path).expect("its place is free");
            assert!(look(&credentials).0.is_err(), "a folder is no {name}");
            std::fs::remove_dir(&path).expect("it was there");
            issue(&authority, folder.path());
            assert!(
                matches!(look(&credentials), (Ok(Looked::Renewed), true)),
                "{name} is back"
            );
        }
    }

    /// Files that were unpacked or copied with their times may be as old as the files before them.
    #[test]
    fn a_renewed_certificate_is_found_though_its_time_is_that_of_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new().expect("an authority");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let stamp = |folder: &Path| {
            for name in [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE] {
                let file = std::fs::File::options()
                    .write(true)
                    .open(folder.join(name))
                    .expect("a file");
                file.set_modified(time).expect("it is ours");
            }
        };
        issue(&authority, folder.path());
        stamp(folder.path());
        let credentials =
            Credentials::load(folder.path(), Owner::Task(TASK)).expect("good credentials");
        let beside = tempfile::tempdir_in(folder.path()).expect("a folder");
        issue(&authority, beside.path());
        stamp(beside.path());
        for name in [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE] {
            std::fs::rename(beside.path().join(name), folder.path().join(name)).expect("renamed");
        }
        assert!(matches!(look(&credentials), (Ok(Looked::Renewed), true)));
    }

    #[test]
    fn a_service_with_tokens_needs_no_authority_and_one_with_certificates_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new().expect("an authority");
        issue(&authority, folder.path());
        let load = |proof| Credentials::load(folder.path(), Owner::Service(proof));
        let with_all = load(ClientProof::Certificate).expect("all files are there");
        assert!(
            with_all.configs().client.is_none(),
            "a service calls nobody"
        );
        std::fs::remove_file(folder.path().join(ROOTS_FILE)).expect("it was there");
        let told = load(ClientProof::Certificate).expect_err("no authority of clients");
        assert!(told.message.contains(ROOTS_FILE), "{}", told.message);
        let configs = load(ClientProof::Token)
            .expect("tokens prove clients")
            .configs();
        assert_eq!(configs.server.alpn_protocols, [PROTOCOL]);
        assert_eq!(configs.server_http1.alpn_protocols, [PROTOCOL_HTTP1]);
    }
}
