//! Who may ask for predictions: certificates, tokens, addresses.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::runtime::Runtime;
use tonic::Code;
use tonic::body::Body;
use trainyard_cluster_client::channel_over;
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_protocol::unary_call;
use trainyard_runtime::Network;
use trainyard_security::{
    CERTIFICATE_FILE, Caller, CredentialSources, KEY_FILE, ROOTS_FILE, Security,
};
use trainyard_tests::Program;

use crate::serving::{LIMIT, Server, run, trained};

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(20);
const LIVE: &str = "/inference.GRPCInferenceService/ServerLive";
/// A task whose certificate the authority of a test has signed, too.
const WORKER: Task = Task {
    role: Role::Worker,
    index: 0,
};

/// A trained job, and what `trainyard pki` makes for its server.
struct Site {
    folder: tempfile::TempDir,
    job: String,
}

impl Site {
    /// Trains the job, and makes two authorities, `tls` and `other`, and a file of tokens of each.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = trained(folder.path(), 20);
        let site = Self { folder, job };
        let cluster = site.path("cluster.toml");
        let text = "[cluster]\nchief = [\"127.0.0.1:1\"]\nps = [\"127.0.0.1:2\"]\nworker = [\"127.0.0.1:3\"]\n";
        std::fs::write(&cluster, text).expect("the cluster is written");
        for out in ["tls", "other"] {
            let out = site.text(out);
            let serving = ["pki", "--serving", "127.0.0.1", "--out", &out];
            run(&[&serving[..], &["--cluster", &cluster.to_string_lossy()]].concat());
            run(&[&serving[..], &["--tokens"]].concat());
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Returns the token in a file that `pki` has written.
    fn token(&self, out: &str) -> String {
        let path = self.path(out).join("serving.toml");
        let text = std::fs::read_to_string(path).expect("a file of tokens");
        let table: toml::Table = text.parse().expect("TOML");
        table["client"].as_str().expect("a text").to_owned()
    }

    /// Starts the server, and returns it with the address of gRPC.
    fn start(&self, more: &[&str]) -> (Server, String) {
        let usual = [self.job.as_str(), "--listen-grpc", "127.0.0.1:0"];
        let mut server = Server::start(&[&usual[..], more].concat());
        server.wait_for_version("job", 20);
        let line = server.program.wait_for("gRPC is served", LIMIT);
        let grpc = line.rsplit_once("address=").expect("an address").1.trim();
        (server, grpc.to_owned())
    }

    /// Connects by TLS with the authority `tls`, perhaps with a certificate of a folder.
    fn config(&self, certificate: Option<&str>) -> ClientConfig {
        let read = |path: &Path| {
            let found = CertificateDer::pem_file_iter(path).expect("a file of certificates");
            found.collect::<Result<Vec<_>, _>>().expect("certificates")
        };
        let mut roots = RootCertStore::empty();
        for root in read(&self.path("tls").join(ROOTS_FILE)) {
            roots.add(root).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("a version")
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => config.with_no_client_auth(),
            Some(folder) => {
                let folder = self.path(folder);
                let key = PrivateKeyDer::from_pem_file(folder.join(KEY_FILE)).expect("a key");
                config
                    .with_client_auth_cert(read(&folder.join(CERTIFICATE_FILE)), key)
                    .expect("a certificate and its key")
            }
        };
        // As curl does. A server of HTTP/1.1 must choose that.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }

    /// Asks for the state of the model over TLS, and returns the answer, or why there is none.
    fn ask(
        &self,
        address: &str,
        certificate: Option<&str>,
        token: Option<&str>,
    ) -> Result<String, String> {
        let stream = connected(address);
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let config = Arc::new(self.config(certificate));
        let connection = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
        exchange(StreamOwned::new(connection, stream), token)
    }

    /// Calls a method over gRPC, and returns its status.
    fn call(&self, address: &str, path: &str, sources: CredentialSources<'_>) -> Code {
        let runtime = Runtime::new().expect("a runtime");
        let cluster = ClusterSpec::without_tasks();
        let network = if sources == CredentialSources::default() {
            Network::System
        } else {
            let security = Security::load(&cluster, WORKER, sources).expect("good credentials");
            Network::Other(Arc::new(Caller(Arc::new(security))))
        };
        let _inside = runtime.enter();
        let channel = channel_over(&network, WORKER, address).expect("an address");
        // The head of a message of no bytes.
        let body = Body::new("\0\0\0\0\0".to_owned());
        let called = runtime.block_on(async {
            let called = unary_call::call::<()>(&channel, path, None, body, 1 << 20);
            tokio::time::timeout(TIMEOUT, called).await
        });
        let called = called.expect("an answer in time");
        called.map_or_else(|status| status.code(), |_| Code::Ok)
    }
}

/// Writes a file that only its owner may read.
fn secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("it is written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("it is ours");
}

fn connected(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    let set = stream.set_read_timeout(Some(TIMEOUT));
    set.expect("a timeout can be set");
    stream
}

/// Asks for the state of the model, and returns the answer, or why there is none.
fn exchange(
    mut stream: impl std::io::Read + std::io::Write,
    token: Option<&str>,
) -> Result<String, String> {
    let token = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let head =
        format!("GET /v1/models/job HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{token}\r\n");
    stream
        .write_all(head.as_bytes())
        .map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    // The end of TLS may be missing; the answer has its length.
    let ended = stream.read_to_end(&mut answer);
    if answer.is_empty() {
        return Err(ended.map_or_else(|error| error.to_string(), |_| "no answer".to_owned()));
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn assert_answered(outcome: &Result<String, String>) {
    let answer = outcome.as_ref().expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("AVAILABLE"),
        "{answer}"
    );
}

fn assert_unproved(outcome: &Result<String, String>, told: &str) {
    let answer = outcome.as_ref().expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 401")
            && answer.to_lowercase().contains("www-authenticate: bearer")
            && answer.contains(told),
        "{answer}"
    );
    assert!(!answer.contains("AVAILABLE"), "{answer}");
}

trial!(a_server_with_a_certificate_answers_the_clients_of_its_authority_and_nobody_else);
fn a_server_with_a_certificate_answers_the_clients_of_its_authority_and_nobody_else() {
    let site = Site::new();
    let (mut server, grpc) = site.start(&["--tls-dir", &site.text("tls/serving")]);
    let http = server.address.clone();
    assert_answered(&site.ask(&http, Some("tls/client"), None));
    let none = site.ask(&http, None, None);
    assert!(none.is_err(), "{none:?}");
    server.program.wait_for("it shows no certificate", LIMIT);
    let other = site.ask(&http, Some("other/client"), None);
    assert!(other.is_err(), "{other:?}");
    server.program.wait_for("invalid peer certificate", LIMIT);
    let plain = exchange(connected(&http), None);
    assert!(
        plain
            .as_ref()
            .map_or(true, |answer| !answer.contains("AVAILABLE")),
        "{plain:?}"
    );
    server.program.wait_for("it does not speak TLS", LIMIT);

    let with = |folder: &Path, path: &str| {
        let sources = CredentialSources {
            tls_dir: Some(folder),
            ..CredentialSources::default()
        };
        site.call(&grpc, path, sources)
    };
    let own = site.path("tls/worker-0");
    assert_eq!(with(&own, LIVE), Code::Ok);
    let of_a_task = "/trainyard.v1.ParameterService/Status";
    assert_eq!(with(&own, of_a_task), Code::Unimplemented);
    // It trusts this server, and the server does not know its authority.
    let stranger = site.path("other/worker-0");
    std::fs::copy(site.path("tls/ca.crt"), stranger.join(ROOTS_FILE)).expect("it is copied");
    assert_ne!(with(&stranger, LIVE), Code::Ok);
    assert_ne!(
        site.call(&grpc, LIVE, CredentialSources::default()),
        Code::Ok
    );
    assert_answered(&site.ask(&http, Some("tls/client"), None));
}

trial!(a_server_with_tokens_answers_requests_with_one_of_them_and_tells_others_what_is_missing);
fn a_server_with_tokens_answers_requests_with_one_of_them_and_tells_others_what_is_missing() {
    let site = Site::new();
    let tls = site.text("tls/serving");
    let tokens = site.text("tls/serving.toml");
    let (mut server, grpc) = site.start(&["--tls-dir", &tls, "--token-file", &tokens]);
    let http = server.address.clone();
    let own = site.token("tls");
    let other = site.token("other");
    assert_ne!(own, other);
    assert_answered(&site.ask(&http, None, Some(&own)));
    assert_unproved(&site.ask(&http, None, None), "no token");
    assert_unproved(
        &site.ask(&http, None, Some(&other)),
        "must be `Bearer TOKEN`",
    );
    assert_unproved(
        &site.ask(&http, None, Some(&own[1..])),
        "must be `Bearer TOKEN`",
    );
    // A certificate is no token.
    assert_unproved(&site.ask(&http, Some("tls/client"), None), "no token");

    let worker = site.path("tls/worker-0");
    let with = |token: &str| {
        let file = site.path("worker.toml");
        secret(&file, &format!("worker = \"{token}\"\n"));
        let sources = CredentialSources {
            tls_dir: Some(&worker),
            token_file: Some(&file),
            ..CredentialSources::default()
        };
        site.call(&grpc, LIVE, sources)
    };
    assert_eq!(with(&own), Code::Ok);
    assert_eq!(with(&other), Code::Unauthenticated);
    server.program.wait_for("call refused", LIMIT);
    let without = CredentialSources {
        tls_dir: Some(&worker),
        ..CredentialSources::default()
    };
    assert_eq!(site.call(&grpc, LIVE, without), Code::Unauthenticated);
    server.program.signal(rustix::process::Signal::TERM);
    let output = server.program.wait(LIMIT).output;
    assert!(
        !output.contains(&own) && !output.contains(&other),
        "a secret was logged"
    );
}

trial!(a_server_listens_for_other_hosts_only_if_its_port_is_protected);
fn a_server_listens_for_other_hosts_only_if_its_port_is_protected() {
    let site = Site::new();
    let tls = site.text("tls/serving");
    let tokens = site.text("tls/serving.toml");
    let open = ["serve", &site.job, "--listen", "0.0.0.0:0"];
    for (more, told) in [
        (&[][..], "without TLS"),
        (
            &["--token-file", &tokens][..],
            "with tokens but without TLS",
        ),
    ] {
        let ended = Program::start("trainyard", &[&open[..], more].concat(), &[]).wait(LIMIT);
        let output = ended.output;
        assert_eq!(ended.code, 78, "{output}");
        assert!(
            output.contains("error[E7002]")
                && output.contains(told)
                && output.contains("could ask for predictions")
                && output.contains("trainyard pki --serving"),
            "{output}"
        );
    }
    let grpc = [
        "serve",
        &site.job,
        "--listen",
        "127.0.0.1:0",
        "--listen-grpc",
        "0.0.0.0:0",
    ];
    let ended = Program::start("trainyard", &grpc, &[]).wait(LIMIT);
    assert_eq!(ended.code, 78, "{}", ended.output);
    for more in [&["--tls-dir", &tls][..], &["--insecure-no-auth"][..]] {
        let mut program = Program::start("trainyard", &[&open[..], more].concat(), &[]);
        program.wait_for("predictions are served", LIMIT);
    }
}
