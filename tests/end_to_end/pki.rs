//! Clusters that use what `trainyard pki` writes, as it is written.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use trainyard_tests::{Program, TestCluster};

use crate::end_to_end::LIMIT;
use crate::end_to_end::solo::trainyard;

/// A chief, two servers and so many workers. Each server has a host of its own, so that a certificate of another one's host does
/// not do.
struct Site {
    cluster: TestCluster,
    text: String,
}

impl Site {
    fn new(workers: usize) -> Self {
        let cluster = TestCluster::new(2, workers, 2000, "");
        let mut text = std::fs::read_to_string(&cluster.cluster).expect("the cluster was written");
        let servers = &cluster.addresses[1 + workers..];
        for (host, address) in ["127.0.0.2", "127.0.0.3"].into_iter().zip(servers) {
            text = text.replace(address, &address.replace("127.0.0.1", host));
        }
        let site = Self { cluster, text };
        site.say("");
        site
    }

    /// Writes the cluster file with this section `[security]`.
    fn say(&self, security: &str) {
        std::fs::write(&self.cluster.cluster, format!("{}{security}", self.text))
            .expect("it is written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cluster.folder.path().join(name)
    }

    /// Runs `pki` for this cluster, and returns what it says.
    fn pki(&self, out: &str, more: &[&str]) -> String {
        let cluster = self.cluster.cluster.to_string_lossy();
        let out = self.path(out);
        let out = out.to_string_lossy();
        trainyard(
            &[&["pki", "--cluster", &cluster, "--out", &out], more].concat(),
            0,
        )
    }

    /// Starts the servers, and the chief, which trains nothing itself.
    fn start_all_but_workers(&self, more: &[&str]) -> Vec<Program> {
        let mut chief = vec!["--set", "strategy.chief_trains=false"];
        chief.extend(more);
        vec![
            self.cluster.start("ps", 0, more),
            self.cluster.start("ps", 1, more),
            self.cluster.start("chief", 0, &chief),
        ]
    }

    /// Starts a worker that is to be refused, and returns what it says.
    fn refused(&self, more: &[&str], code: i32) -> String {
        self.refused_of(&self.cluster.cluster, more, code)
    }

    /// The same, of a worker with another cluster file.
    fn refused_of(&self, cluster: &Path, more: &[&str], code: i32) -> String {
        let job = self.cluster.job.to_string_lossy();
        let cluster = cluster.to_string_lossy();
        let usual = [
            "--job",
            &job,
            "--cluster",
            &cluster,
            "--index",
            "0",
            "--connect-deadline",
            "3",
        ];
        let ended =
            Program::start("trainyard-worker", &[&usual[..], more].concat(), &[]).wait(LIMIT);
        assert_eq!(ended.code, code, "{more:?}: {}", ended.output);
        ended.output
    }

    /// Waits until all have ended, and checks that all data has been applied once.
    fn end(&self, programs: impl IntoIterator<Item = Program>) {
        for program in programs {
            let ended = program.wait(LIMIT);
            assert_eq!(ended.code, 0, "{}", ended.output);
        }
        let state = self.cluster.job_state();
        assert_eq!(
            (state["phase"].as_str(), state["global_step"].as_u64()),
            (Some("done"), Some(2 * 125))
        );
    }
}

/// The lines from `[security]` on, which `pki` says are for the cluster file.
fn advice(told: &str) -> String {
    let begin = told
        .find("[security]")
        .unwrap_or_else(|| panic!("no [security] in {told}"));
    format!("{}\n", &told[begin..])
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .permissions()
        .mode()
        & 0o777
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

trial!(a_cluster_with_the_certificates_of_pki_trains_to_its_end_and_lets_nobody_else_in);
fn a_cluster_with_the_certificates_of_pki_trains_to_its_end_and_lets_nobody_else_in() {
    let site = Site::new(1);
    let plain = site.path("plain.toml");
    std::fs::copy(&site.cluster.cluster, &plain).expect("it is copied");
    let security = advice(&site.pki("tls", &[]));
    for task in ["chief-0", "worker-0", "ps-0", "ps-1"] {
        let folder = site.path("tls").join(task);
        assert_eq!(mode(&folder.join("tls.key")), 0o600, "{task}");
        assert_eq!(
            read(&folder.join("ca.crt")),
            read(&site.path("tls/ca.crt")),
            "{task}"
        );
    }
    assert_eq!(mode(&site.path("tls/ca.key")), 0o600);
    for folder in ["tls", "tls/ps-0"] {
        assert_eq!(mode(&site.path(folder)), 0o700, "{folder}");
    }
    site.pki("other", &[]);
    site.say(&security);
    let mut all = site.start_all_but_workers(&[]);
    all[2].wait_for("training is open", LIMIT);

    // A worker that knows of no certificates.
    let told = site.refused_of(&plain, &[], 69);
    assert!(told.contains("error[E2003]"), "{told}");
    all[2].wait_for("it does not speak TLS", LIMIT);
    // One of another authority: it believes nobody here, and nobody here believes it.
    let other = site.path("other/worker-0").to_string_lossy().into_owned();
    let told = site.refused(&["--tls-dir", &other], 69);
    assert!(told.contains("error[E2003]"), "{told}");
    std::fs::copy(site.path("tls/ca.crt"), site.path("other/worker-0/ca.crt"))
        .expect("it is copied");
    let told = site.refused(&["--tls-dir", &other], 69);
    assert!(told.contains("error[E2003]"), "{told}");
    all[2].wait_for("connection refused: invalid peer certificate", LIMIT);
    // One with a key that is not its certificate's, one with another task's folder, one without a key.
    let key = site.path("tls/worker-0/tls.key");
    let own = read(&key);
    std::fs::copy(site.path("other/worker-0/tls.key"), &key).expect("it is copied");
    let told = site.refused(&[], 78);
    assert!(
        told.contains("error[E7001]") && told.contains("tls.key"),
        "{told}"
    );
    let chiefs = site.path("tls/chief-0").to_string_lossy().into_owned();
    let told = site.refused(&["--tls-dir", &chiefs], 78);
    assert!(
        told.contains("error[E7001]") && told.contains("it is of chief:0"),
        "{told}"
    );
    std::fs::remove_file(&key).expect("it is there");
    let told = site.refused(&[], 78);
    assert!(
        told.contains("error[E7001]") && told.contains("tls.key cannot be used"),
        "{told}"
    );

    crate::end_to_end::security::secret(&key, &own);
    all.push(site.cluster.start("worker", 0, &[]));
    site.end(all);
}

trial!(an_authority_is_used_again_and_never_replaced);
fn an_authority_is_used_again_and_never_replaced() {
    let site = Site::new(2);
    let two = read(&site.cluster.cluster);
    // The second worker is not in the cluster yet.
    let addresses = &site.cluster.addresses;
    let one = two.replace(&format!(", \"{}\"", addresses[2]), "");
    assert!(one.len() < two.len());
    std::fs::write(&site.cluster.cluster, &one).expect("it is written");
    site.pki("tls", &["--days", "3"]);
    let authority = read(&site.path("tls/ca.crt"));
    assert!(!site.path("tls/worker-1").exists());
    site.say(&advice(&site.pki("tls", &["--days", "3"])));
    assert_eq!(read(&site.path("tls/ca.crt")), authority);
    let mut all = site.start_all_but_workers(&[]);
    let warning = all[0].wait_for("the certificate ends in", LIMIT);
    assert!(
        warning.contains("ends in 2 days"),
        "three days less a moment: {warning}"
    );
    all[2].wait_for("training is open", LIMIT);
    // It comes while the others run, and is believed.
    site.pki("tls", &[]);
    all.push(site.cluster.start("worker", 1, &[]));
    site.end(all);

    std::fs::remove_file(site.path("tls/ca.key")).expect("it is there");
    let cluster = site.cluster.cluster.to_string_lossy();
    let out = site.path("tls");
    let told = trainyard(
        &[
            "pki",
            "--cluster",
            &cluster,
            "--out",
            &out.to_string_lossy(),
        ],
        74,
    );
    assert!(
        told.contains("error[E9002]") && told.contains("must both be there or both be missing"),
        "{told}"
    );
    assert_eq!(read(&site.path("tls/ca.crt")), authority);
}

trial!(a_cluster_with_the_tokens_of_pki_trains_to_its_end_and_lets_nobody_else_in);
fn a_cluster_with_the_tokens_of_pki_trains_to_its_end_and_lets_nobody_else_in() {
    let site = Site::new(1);
    let plain = site.path("plain.toml");
    std::fs::copy(&site.cluster.cluster, &plain).expect("it is copied");
    site.pki("tokens", &["--tokens"]);
    site.pki("other", &["--tokens"]);
    let tokens = |name: &str| -> toml::Table {
        read(&site.path(name))
            .parse()
            .expect("a file of tokens is TOML")
    };
    let [chief, worker, ps] =
        ["chief", "worker", "ps"].map(|role| tokens(&format!("tokens/{role}.toml")));
    assert!(
        chief == ps && chief.len() == 3,
        "servers and chief know all three"
    );
    assert_eq!(
        worker.keys().collect::<Vec<_>>(),
        ["worker"],
        "a worker knows its own"
    );
    assert_eq!(worker["worker"], chief["worker"]);
    let mut all: Vec<String> = chief
        .values()
        .map(|token| token.as_str().expect("a text").to_owned())
        .collect();
    let other = tokens("other/chief.toml");
    all.extend(
        other
            .values()
            .map(|token| token.as_str().expect("a text").to_owned()),
    );
    assert!(all.iter().all(|token| token.len() == 64), "256 bits each");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6, "each is drawn anew");

    let files = site.path("tokens");
    site.say(&format!(
        "[security]\ntoken_file = \"{}/{{role}}.toml\"\n",
        files.display()
    ));
    let mut programs = site.start_all_but_workers(&[]);
    programs[2].wait_for("training is open", LIMIT);
    let told = site.refused_of(&plain, &[], 77);
    assert!(told.contains("error[E7003]"), "{told}");
    let others = site
        .path("other/worker.toml")
        .to_string_lossy()
        .into_owned();
    let told = site.refused(&["--token-file", &others], 77);
    assert!(told.contains("error[E7003]"), "{told}");
    let own = files.join("worker.toml");
    assert_eq!(mode(&own), 0o600);
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    let told = site.refused(&[], 78);
    assert!(
        told.contains("error[E7001]") && told.contains("it may be read by others"),
        "{told}"
    );
    let text = read(&own);
    crate::end_to_end::security::secret(&own, "");
    let told = site.refused(&[], 78);
    assert!(
        told.contains("error[E7001]") && told.contains("holds no token of this task's role"),
        "{told}"
    );
    std::fs::remove_file(&own).expect("it is there");
    let told = site.refused(&[], 78);
    assert!(told.contains("error[E7001]"), "{told}");

    crate::end_to_end::security::secret(&own, &text);
    programs.push(site.cluster.start("worker", 0, &[]));
    site.end(programs);
}
