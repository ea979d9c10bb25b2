//! Who may reach a cluster, and what they may do there: certificates, tokens, addresses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::process::Uid;
use tokio::runtime::Runtime;
use tonic::Code;
use tonic::body::Body;
use trainyard_cluster_client::channel_over;
use trainyard_cluster_spec::{ClusterSpec, Role, Task};
use trainyard_protocol::{Channel, unary_call};
use trainyard_runtime::Network;
use trainyard_security::{
    Authority, CERTIFICATE_FILE, Caller, CredentialSources, Identity, Issued, KEY_FILE, ROOTS_FILE,
    Security,
};
use trainyard_tests::{Program, TestCluster};

use crate::end_to_end::LIMIT;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
const PS: Task = Task {
    role: Role::Ps,
    index: 0,
};
const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const WORKER: Task = Task {
    role: Role::Worker,
    index: 0,
};

/// A cluster with a server, a chief and a worker, and an authority for it.
struct Site {
    cluster: TestCluster,
    authority: Authority,
}

impl Site {
    fn new() -> Self {
        let cluster = TestCluster::new(1, 1, 2000, "");
        Self {
            cluster,
            authority: Authority::new().expect("random numbers"),
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.cluster.model_dir().with_file_name(name)
    }

    /// Writes a folder of credentials, and returns its path.
    fn credentials(
        &self,
        name: &str,
        of: Task,
        authority: &Authority,
        host: &str,
        until: SystemTime,
    ) -> String {
        write_credentials(
            &self.folder(name),
            of,
            (authority, &self.authority),
            host,
            until,
        )
    }

    /// The credentials that a task should have.
    fn good(&self, task: Task) -> String {
        let name = format!("{}-{}", task.role, task.index);
        self.credentials(
            &name,
            task,
            &self.authority,
            "127.0.0.1",
            SystemTime::now() + DAY,
        )
    }

    fn start(&self, task: Task, more: &[&str]) -> Program {
        self.cluster.start(task.role.as_str(), task.index, more)
    }
}

/// Writes a folder of the credentials of a task, which one authority has signed and which believes in another, and returns its path.
pub(crate) fn write_credentials(
    folder: &Path,
    of: Task,
    (signer, believed): (&Authority, &Authority),
    host: &str,
    until: SystemTime,
) -> String {
    std::fs::create_dir_all(folder).expect("a folder");
    let issued = signer.issue(&Identity::name(of), &[host.to_owned()], until);
    let Issued { certificate, key } = issued.expect("a certificate");
    std::fs::write(folder.join(ROOTS_FILE), believed.certificate()).expect("it is written");
    std::fs::write(folder.join(CERTIFICATE_FILE), certificate).expect("it is written");
    secret(&folder.join(KEY_FILE), &key);
    folder.to_string_lossy().into_owned()
}

/// Writes a file that only its owner may read.
pub(crate) fn secret(path: &Path, text: &str) {
    std::fs::write(path, text).expect("it is written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("it is ours");
}

/// Waits for the end of a program that is to be refused, and returns what it said.
fn refused(program: Program, code: i32) -> String {
    let ended = program.wait(LIMIT);
    assert_eq!(ended.code, code, "{}", ended.output);
    ended.output
}

trial!(a_job_whose_tasks_have_certificates_trains_and_ends);
fn a_job_whose_tasks_have_certificates_trains_and_ends() {
    let site = Site::new();
    let programs =
        [PS, CHIEF, WORKER].map(|task| site.start(task, &["--tls-dir", &site.good(task)]));
    for program in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
}

trial!(a_job_whose_tasks_have_tokens_trains_and_ends_and_one_without_is_refused);
fn a_job_whose_tasks_have_tokens_trains_and_ends_and_one_without_is_refused() {
    let site = Site::new();
    let tokens = ["ab", "cd", "ef"].map(|two| two.repeat(32));
    let [chief, worker, ps] = &tokens;
    let all = site.folder("all.toml");
    secret(
        &all,
        &format!("chief = \"{chief}\"\nworker = \"{worker}\"\nps = \"{ps}\"\n"),
    );
    let own = site.folder("worker.toml");
    secret(&own, &format!("worker = \"{worker}\"\n"));
    let all = all.to_string_lossy();
    let own = own.to_string_lossy();
    let server = site.start(PS, &["--token-file", &all]);
    let chief = site.start(CHIEF, &["--token-file", &all]);
    let output = refused(site.start(WORKER, &[]), 77);
    assert!(
        output.contains("has not proved which task it is"),
        "{output}"
    );
    let worker = site.start(WORKER, &["--token-file", &own]);
    for program in [server, chief, worker] {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        assert!(
            tokens
                .iter()
                .all(|token| !ended.output.contains(token.as_str())),
            "a token is shown"
        );
    }
}

trial!(who_cannot_prove_which_task_it_is_gets_nowhere_and_is_told_why);
fn who_cannot_prove_which_task_it_is_gets_nowhere_and_is_told_why() {
    let site = Site::new();
    let _server = site.start(PS, &["--tls-dir", &site.good(PS)]);
    let mut chief = site.start(
        CHIEF,
        &[
            "--tls-dir",
            &site.good(CHIEF),
            "--set",
            "strategy.chief_trains=false",
        ],
    );
    let hurry = ["--connect-deadline", "3"];
    let other = Authority::new().expect("random numbers");
    let tomorrow = SystemTime::now() + DAY;
    let stranger = site.credentials("stranger", WORKER, &other, "127.0.0.1", tomorrow);
    let start = |folder: &str| site.start(WORKER, &["--tls-dir", folder, hurry[0], hurry[1]]);

    refused(start(&stranger), 69);
    chief.wait_for("connection refused: invalid peer certificate", LIMIT);
    // Plain text, to a port that speaks TLS.
    refused(site.start(WORKER, &hurry), 69);
    chief.wait_for("it does not speak TLS", LIMIT);

    let expired = site.credentials(
        "expired",
        WORKER,
        &site.authority,
        "127.0.0.1",
        SystemTime::now() - DAY,
    );
    let output = refused(start(&expired), 78);
    assert!(output.contains("it has ended"), "{output}");
    let another = site.credentials("another", PS, &site.authority, "127.0.0.1", tomorrow);
    let output = refused(start(&another), 78);
    assert!(
        output.contains("it is of ps:0, and this task is worker:0"),
        "{output}"
    );
    let open = site.good(WORKER);
    std::fs::set_permissions(
        Path::new(&open).join(KEY_FILE),
        PermissionsExt::from_mode(0o644),
    )
    .expect("it is ours");
    let output = refused(start(&open), 78);
    assert!(
        output.contains("it may be read by others, mode 0644"),
        "{output}"
    );
    let output = refused(start("/nowhere"), 78);
    assert!(
        output.contains("/nowhere/ca.crt cannot be used"),
        "{output}"
    );
}

trial!(a_server_whose_certificate_is_of_another_host_is_not_believed);
fn a_server_whose_certificate_is_of_another_host_is_not_believed() {
    let site = Site::new();
    let tomorrow = SystemTime::now() + DAY;
    let elsewhere = site.credentials("elsewhere", PS, &site.authority, "10.1.2.3", tomorrow);
    let _server = site.start(PS, &["--tls-dir", &elsewhere]);
    let chief = site.start(
        CHIEF,
        &["--tls-dir", &site.good(CHIEF), "--connect-deadline", "3"],
    );
    let output = refused(chief, 69);
    assert!(
        output.contains("its certificate does not hold this host's name"),
        "{output}"
    );
}

trial!(an_address_that_other_hosts_reach_needs_protection);
fn an_address_that_other_hosts_reach_needs_protection() {
    let site = Site::new();
    let output = refused(site.start(PS, &["--listen", "0.0.0.0:0"]), 78);
    assert!(
        output.contains("can be reached from other hosts, without TLS"),
        "{output}"
    );
    assert!(output.contains("--tls-dir"), "it says what to do: {output}");
    let mut waived = site.start(PS, &["--listen", "0.0.0.0:0", "--insecure-no-auth"]);
    waived.wait_for("insecure: this task does not verify", LIMIT);
    waived.wait_for("serving", LIMIT);
    let mut protected = site.start(PS, &["--listen", "0.0.0.0:0", "--tls-dir", &site.good(PS)]);
    protected.wait_for("serving", LIMIT);
}

/// A user of the host who is not the one that trains.
const STRANGER: u32 = 65_534;
/// The preface of HTTP/2 (RFC 9113, section 3.4), and an empty settings frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Connects as a user, says what a client of HTTP/2 says first, and returns whether it was answered.
fn is_answered<S: Read + Write>(user: u32, connect: impl Fn() -> S + Send + Sync) -> bool {
    let talk = || {
        // Linux keeps the user per thread.
        let user = Uid::from_raw(user);
        rustix::thread::set_thread_res_uid(user, user, user).expect("the right to be another user");
        let mut stream = connect();
        // A refused connection may be closed already.
        let _ = stream.write_all(PREFACE);
        stream.read(&mut [0; 16]).is_ok_and(|count| count > 0)
    };
    std::thread::scope(|scope| scope.spawn(talk).join()).expect("the thread ends")
}

trial!(a_process_of_another_user_of_the_host_may_not_speak_to_a_task_that_asks_for_no_proof, needs Users);
fn a_process_of_another_user_of_the_host_may_not_speak_to_a_task_that_asks_for_no_proof() {
    let site = Site::new();
    let own = rustix::process::geteuid().as_raw();
    let cluster = ClusterSpec::load(&site.cluster.cluster).expect("a cluster");
    let address = cluster.address(PS).expect("its address").to_owned();
    let connect = || TcpStream::connect(&address).expect("it listens");
    let mut server = site.start(PS, &[]);
    server.wait_for("serving", LIMIT);
    assert!(is_answered(own, connect), "the same user");
    assert!(!is_answered(STRANGER, connect), "another user");
    let refused = server.wait_for("connection refused", LIMIT);
    assert!(refused.contains(&format!("user {STRANGER}")), "{refused}");
    drop(server);
    // With a token, whoever proves who it is may be any user.
    let file = site.folder("tokens.toml");
    secret(&file, &format!("ps = \"{}\"\n", "ab".repeat(32)));
    let file = file.to_string_lossy();
    for more in [&["--token-file", &*file][..], &["--insecure-no-auth"]] {
        let mut server = site.start(PS, more);
        server.wait_for("serving", LIMIT);
        assert!(is_answered(STRANGER, connect), "{more:?}");
    }
    // A socket file is closed to others by its mode, and where somebody has opened it, by the user of the peer.
    let shared = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(shared.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let path = shared.path().join("ps.sock");
    let mut server = site.start(PS, &["--listen", &format!("unix:{}", path.display())]);
    server.wait_for("serving", LIMIT);
    let connect = || UnixStream::connect(&path).expect("it listens");
    assert!(is_answered(own, connect), "the same user");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("it is ours");
    assert!(!is_answered(STRANGER, connect), "another user");
    server.wait_for("connection refused", LIMIT);
}

/// The methods of all services: `/package.Service/Method`.
fn methods() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/trainyard/v1");
    let mut found = vec![
        "/grpc.health.v1.Health/Check".to_owned(),
        "/trainyard.v1.SessionService/Steal".to_owned(),
    ];
    for file in std::fs::read_dir(folder).expect("the protocol") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a text");
        let mut service = String::new();
        for line in text.lines() {
            let mut words = line.split([' ', '(']).filter(|word| !word.is_empty());
            match words.next() {
                Some("service") => service = words.next().expect("its name").to_owned(),
                Some("rpc") => {
                    found.push(format!(
                        "/trainyard.v1.{service}/{}",
                        words.next().expect("its name")
                    ));
                }
                _ => {}
            }
        }
    }
    found
}

/// The roles that may call a method, as docs/security.md says in "Who may do what". It is written out here: the daemons go by
/// a table of their own, which this one is to tell from.
fn callers(path: &str) -> &'static [Role] {
    let (_, call) = path.rsplit_once('.').expect("a package");
    match call {
        "ParameterService/Claim" | "ParameterService/Prepare" | "ParameterService/Open" => {
            &[Role::Chief]
        }
        "ParameterService/SaveShard" | "ParameterService/Finish" => &[Role::Chief],
        "ReplicaService/Watch" | "ReplicaService/SetRole" | "ReplicaService/Dismiss" => {
            &[Role::Chief]
        }
        "SessionService/StandBy" => &[Role::Chief],
        "ParameterService/OpenSession"
        | "ParameterService/Step"
        | "ParameterService/CloseSession" => &[Role::Chief, Role::Worker],
        "SessionService/Register" | "SessionService/Heartbeat" | "SessionService/KeepAlive" => {
            &[Role::Chief, Role::Worker]
        }
        "SessionService/NextShard" | "SessionService/JoinGroup" | "SessionService/Leave" => {
            &[Role::Chief, Role::Worker]
        }
        "CollectiveService/Handshake"
        | "CollectiveService/Exchange"
        | "CollectiveService/Abort" => &[Role::Chief, Role::Worker],
        "ReplicaService/Follow" => &[Role::Ps],
        "ParameterService/Status" | "Health/Check" => &[Role::Chief, Role::Worker, Role::Ps],
        // There is no such method.
        "SessionService/Steal" => &[],
        other => panic!("the table has no row for {other}"),
    }
}

/// The network of a task whose credentials lie in a folder.
fn network_of(caller: Task, credentials: &str, cluster: &ClusterSpec) -> Network {
    let sources = CredentialSources {
        tls_dir: Some(Path::new(credentials)),
        ..CredentialSources::default()
    };
    let security = Security::load(cluster, caller, sources).expect("good credentials");
    Network::Other(Arc::new(Caller(Arc::new(security))))
}

/// Calls a method of a task with an empty message as another task of a cluster, whose credentials lie in a folder.
pub(crate) fn call_as(
    caller: Task,
    credentials: &str,
    cluster: &ClusterSpec,
    target: Task,
    path: &str,
) -> Option<Code> {
    let network = network_of(caller, credentials, cluster);
    let runtime = Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let address = cluster.address(target).expect("an address");
    let channel = channel_over(&network, target, address).expect("an address");
    call(&runtime, &channel, path)
}

/// What becomes of a call with an empty message: its status; nothing where it has no answer for a while, as a stream has not.
fn call(runtime: &Runtime, channel: &Channel, path: &str) -> Option<Code> {
    // The head of a message of no bytes.
    let body = Body::new("\0\0\0\0\0".to_owned());
    let answer = async {
        let called = unary_call::call::<()>(channel, path, None, body, 1 << 20);
        tokio::time::timeout(Duration::from_millis(500), called).await
    };
    let answer = runtime.block_on(answer).ok()?;
    Some(answer.map_or_else(|status| status.code(), |_| Code::Ok))
}

trial!(each_role_may_call_what_is_its_own_and_nothing_else);
fn each_role_may_call_what_is_its_own_and_nothing_else() {
    let site = Site::new();
    let mut server = site.start(PS, &["--tls-dir", &site.good(PS)]);
    let mut chief = site.start(
        CHIEF,
        &[
            "--tls-dir",
            &site.good(CHIEF),
            "--set",
            "strategy.chief_trains=false",
        ],
    );
    server.wait_for("serving", LIMIT);
    chief.wait_for("training is open", LIMIT);
    let methods = methods();
    assert!(methods.len() > 20, "{methods:?}");
    let cluster = ClusterSpec::load(&site.cluster.cluster).expect("a cluster");
    let runtime = Runtime::new().expect("a runtime");
    let mut cells = 0;
    let mut wrong = Vec::new();
    for role in [
        Some(Role::Chief),
        Some(Role::Worker),
        Some(Role::Ps),
        Some(Role::Evaluator),
        None,
    ] {
        let task = Task {
            role: role.unwrap_or(Role::Worker),
            index: 3,
        };
        let folder = site.folder(&format!("caller-{}", task.role));
        let credentials = site.credentials(
            &folder.file_name().expect("a name").to_string_lossy(),
            task,
            &site.authority,
            "127.0.0.1",
            SystemTime::now() + DAY,
        );
        // Nobody: without any certificate.
        let network = role.map_or(Network::System, |_| {
            network_of(task, &credentials, &cluster)
        });
        for target in [PS, CHIEF] {
            let address = cluster.address(target).expect("an address");
            let _inside = runtime.enter();
            let channel = channel_over(&network, target, address).expect("an address");
            for path in &methods {
                let code = call(&runtime, &channel, path);
                let may = role.is_some_and(|role| callers(path).contains(&role));
                let refused = match role {
                    Some(_) => matches!(
                        code,
                        Some(Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented)
                    ),
                    // The connection breaks off: there is nobody to answer.
                    None => !matches!(code, None | Some(Code::Ok | Code::InvalidArgument)),
                };
                let unknown = may && code == Some(Code::Unimplemented);
                cells += 1;
                if may == refused && !unknown {
                    wrong.push(format!("{role:?} {path} at {target}: {code:?}"));
                }
            }
        }
    }
    println!("{cells} cells of method, role and server");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
