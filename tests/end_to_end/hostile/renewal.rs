//! Certificates that are renewed, end, or go while the job trains.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use trainyard_cluster_spec::Task;
use trainyard_security::{CERTIFICATE_FILE, KEY_FILE, ROOTS_FILE};
use trainyard_tests::Ledger;

use super::{PS, STRANGER, Stage};
use crate::end_to_end::security::DAY;

/// Life of a certificate that is to end while the job trains.
const SHORT: Duration = Duration::from_secs(6);

/// Agrees on TLS with a task as another one, and returns the certificate that it shows; or why not.
pub(super) fn handshake(stage: &Stage, from: Task, address: &str) -> Result<Vec<u8>, String> {
    let folder = stage
        .folder
        .path()
        .join(format!("tls-{}-{}", from.role, from.index));
    let read = |name: &str| {
        let found =
            CertificateDer::pem_file_iter(folder.join(name)).expect("a file of certificates");
        found.collect::<Result<Vec<_>, _>>().expect("certificates")
    };
    let mut roots = RootCertStore::empty();
    read(ROOTS_FILE)
        .into_iter()
        .for_each(|root| roots.add(root).expect("an authority"));
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY_FILE)).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_root_certificates(roots)
        .with_client_auth_cert(read(CERTIFICATE_FILE), key)
        .expect("a certificate and its key");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let agreed = async {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|error| error.to_string())?;
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let agreed = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await;
        let stream = agreed.map_err(|error| error.to_string())?;
        let shown = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(|chain| chain.first());
        Ok(shown.expect("a server shows one").to_vec())
    };
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(2), agreed).await })
        .map_err(|_| "late")?
}

/// The certificate that lies in the server's folder.
fn on_disk(stage: &Stage) -> Vec<u8> {
    let path = stage.folder.path().join("tls-ps-0").join(CERTIFICATE_FILE);
    CertificateDer::from_pem_file(path)
        .expect("a certificate")
        .to_vec()
}

trial!(certificates_renewed_on_disk_are_used_for_new_connections_and_the_job_goes_on);
fn certificates_renewed_on_disk_are_used_for_new_connections_and_the_job_goes_on() {
    let stage = Stage::prepare(
        Some(trainyard_security::Authority::new().expect("random numbers")),
        Ledger::ENDLESS,
    );
    stage.certify(PS, SHORT);
    let ends = SystemTime::now() + SHORT;
    let mut stage = stage.up();
    let address = stage.tasks.address(PS).to_owned();
    let shown = |stage: &Stage| handshake(stage, STRANGER, &address);
    let first = on_disk(&stage);
    assert_eq!(shown(&stage).as_ref(), Ok(&first));

    // It ends, and nobody has renewed it: connections that are open go on, and there are no new ones.
    stage.wait_until("the certificate ends", |_| {
        SystemTime::now() > ends + Duration::from_secs(1)
    });
    let reached = stage.steps();
    stage.wait_until("open connections go on", |stage| stage.steps() > reached);
    let refused = shown(&stage).expect_err("the certificate has ended");
    assert!(refused.contains("xpired"), "{refused}");

    // Renewed: new connections have the new one.
    stage.certify(PS, DAY);
    let second = on_disk(&stage);
    stage.wait_until("the new certificate is shown", |stage| {
        shown(stage).as_ref() == Ok(&second)
    });
    assert!(
        !stage
            .tasks
            .lines(PS, "certificate and key read again")
            .is_empty()
    );

    // What has ended already, or is gone, takes the place of none that is good.
    stage.certify(PS, Duration::ZERO);
    stage.wait_until("the ended one is noticed", |stage| {
        let _ = shown(stage);
        !stage.tasks.lines(PS, "are not used").is_empty()
    });
    assert_eq!(shown(&stage).as_ref(), Ok(&second));
    std::fs::remove_file(stage.folder.path().join("tls-ps-0").join(KEY_FILE)).expect("it is there");
    let told = stage.tasks.lines(PS, "are not used").len();
    stage.wait_until("the missing one is noticed", |stage| {
        let _ = shown(stage);
        stage.tasks.lines(PS, "are not used").len() > told
    });
    assert_eq!(shown(&stage).as_ref(), Ok(&second));
    assert_eq!(stage.count(super::CHIEF, "trainyard_leases_lost_total"), 0);
    // All are started once more for the end.
    stage.certify(PS, DAY);
    stage.end();
}
