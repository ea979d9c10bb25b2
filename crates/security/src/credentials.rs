//! The certificate of a task and the authorities that it trusts, read from files.
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
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tracing::{info, warn};
use trainyard_cluster_spec::Task;
use trainyard_diagnostic::Diagnostic;

use crate::private_file::{check_private, unusable};
use crate::{CERTIFICATE_FILE, Certificate, KEY_FILE, ROOTS_FILE};

/// Interval at which the files are checked for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// A certificate that expires within this time causes a warning.
const EXPIRY_WARNING_BEFORE: Duration = Duration::from_secs(14 * 24 * 3600);
/// Protocol inside TLS (ALPN): HTTP/2.
const PROTOCOL: &[u8] = b"h2";

/// TLS configurations of a task, as client and as server.
#[derive(Debug, Clone)]
pub(crate) struct Configs {
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
    /// Expiry of the task's certificate.
    pub(crate) end: SystemTime,
}

/// The credentials in a folder. They are reloaded when the files change.
#[derive(Debug)]
pub struct Credentials {
    folder: PathBuf,
    task: Task,
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
    /// A file is missing or unreadable, other users may read the key, the certificate has expired, names another task
    /// than `task`, or does not belong to the key.
    pub fn load(folder: &Path, task: Task) -> Result<Self, Diagnostic> {
        let stamps = stamps(folder);
        let configs = read(folder, task)?;
        let state = Mutex::new(State {
            configs,
            stamps,
            looked: Instant::now(),
        });
        Ok(Self {
            folder: folder.to_owned(),
            task,
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
        state.configs = read(&self.folder, self.task)?;
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

fn read(folder: &Path, task: Task) -> Result<Configs, Diagnostic> {
    let [roots_file, chain_file, key_file] =
        [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE].map(|name| folder.join(name));
    let mut roots = RootCertStore::empty();
    for root in certificates(&roots_file)? {
        roots
            .add(root)
            .map_err(|error| unusable(&roots_file, error))?;
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
        return Err(unusable(
            &chain_file,
            format!("it is of {identity}, and this task is {task}"),
        ));
    }
    match own.not_after.duration_since(SystemTime::now()) {
        Err(_) => {
            let what = format!("it has ended, on {}", own.not_after_text);
            return Err(unusable(&chain_file, what)
                .help("renew it; a running task takes it over by itself"));
        }
        Ok(left) if left < EXPIRY_WARNING_BEFORE => {
            let days = left.as_secs() / 86_400;
            warn!(certificate = %chain_file.display(), "the certificate ends in {days} days, on {}", own.not_after_text);
        }
        Ok(_) => {}
    }
    check_private(&key_file)?;
    let key =
        || PrivateKeyDer::from_pem_file(&key_file).map_err(|error| unusable(&key_file, error));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let made = configs(provider, Arc::new(roots), chain, (key()?, key()?));
    let (client, server) = made.map_err(|what| {
        unusable(&key_file, what).note(format!("with the certificate {}", chain_file.display()))
    })?;
    Ok(Configs {
        client,
        server,
        end: own.not_after,
    })
}

fn configs(
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    keys: (PrivateKeyDer<'static>, PrivateKeyDer<'static>),
) -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), String> {
    let versions = &[&rustls::version::TLS13];
    let text = |error: rustls::Error| error.to_string();
    let servers =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
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
    Ok((Arc::new(client), Arc::new(server)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use trainyard_cluster_spec::Role;
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
        let credentials = Credentials::load(folder.path(), TASK).expect("good credentials");
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
        let credentials = Credentials::load(folder.path(), TASK).expect("good credentials");
        let beside = tempfile::tempdir_in(folder.path()).expect("a folder");
        issue(&authority, beside.path());
        stamp(beside.path());
        for name in [ROOTS_FILE, CERTIFICATE_FILE, KEY_FILE] {
            std::fs::rename(beside.path().join(name), folder.path().join(name)).expect("renamed");
        }
        assert!(matches!(look(&credentials), (Ok(Looked::Renewed), true)));
    }
}
