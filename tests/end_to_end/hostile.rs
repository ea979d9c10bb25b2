//! Peers that mean harm, at real daemons that train meanwhile. Every update of the job is counted at its end.

mod connections;
mod frames;
mod messages;
mod paths;
mod pushes;
mod renewal;
mod secrets;
mod sessions;
mod tensors;
mod texts;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use trainyard_cluster_client::channel_over;
use trainyard_cluster_spec::{ClusterSpec, LocalCounts, Role, Task};
use trainyard_protocol::v1::parameter_service_client::ParameterServiceClient;
use trainyard_protocol::{Channel, convert, v1};
use trainyard_run_config::{Agreement, Job};
use trainyard_runtime::Network;
use trainyard_security::{Authority, Caller, CredentialSources, Security};
use trainyard_tests::{Account, Ledger, Supervisor, metric};

use crate::end_to_end::LIMIT;
use crate::end_to_end::security::{DAY, write_credentials};

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const WORKER: Task = Task {
    role: Role::Worker,
    index: 0,
};
/// A task that the cluster file does not name, as any that is added later.
const STRANGER: Task = Task {
    role: Role::Worker,
    index: 7,
};
const PS: Task = Task {
    role: Role::Ps,
    index: 0,
};
/// Memory that a server may take beside what it had: some windows of connections, and what the allocator keeps.
const MEMORY_MORE_MAX: u64 = 192 << 20;

/// A setting beside those of the job file.
const SETTING: &str = "strategy.chief_trains=false";

/// A counting job of one server, a chief that leads and a worker that trains.
struct Stage {
    folder: tempfile::TempDir,
    job: PathBuf,
    ledger: Ledger,
    tasks: Supervisor,
    authority: Option<Authority>,
}

impl Stage {
    /// Starts the job, and waits until it trains.
    fn start() -> Self {
        Self::prepare(None, Ledger::ENDLESS).up()
    }

    /// The same, of a job that ends by itself.
    fn start_of_epochs(epochs: u64) -> Self {
        Self::prepare(None, epochs).up()
    }

    /// The same, of tasks that have certificates.
    fn start_with_tls() -> Self {
        let authority = Authority::new().expect("random numbers");
        Self::prepare(Some(authority), Ledger::ENDLESS).up()
    }

    fn prepare(authority: Option<Authority>, epochs: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ledger = Ledger {
            rows: 5000,
            epochs,
            batch_size: 64,
            lanes: 1,
            servers: 1,
        };
        let job = ledger.write(folder.path());
        let counts = LocalCounts {
            ps: 1,
            workers: 1,
            evaluators: 0,
        };
        let settings = [SETTING.to_owned()];
        let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
        let tasks = Supervisor::new(program, folder.path(), &job, counts, &settings);
        let mut stage = Self {
            folder,
            job,
            ledger,
            tasks,
            authority,
        };
        if stage.authority.is_some() {
            let folder = stage.folder.path().display();
            stage
                .tasks
                .protect(&format!("{folder}/tls-{{role}}-{{index}}"));
            for task in [CHIEF, WORKER, PS, STRANGER] {
                stage.certify(task, DAY);
            }
        }
        stage
    }

    fn up(mut self) -> Self {
        self.tasks.start_all();
        self.wait_until("it trains", |stage| stage.steps() > 0);
        self
    }

    /// Writes a certificate of a task that ends after a time, in place of the one that was there.
    fn certify(&self, task: Task, life: Duration) -> String {
        let authority = self.authority.as_ref().expect("a job with certificates");
        let folder = self
            .folder
            .path()
            .join(format!("tls-{}-{}", task.role, task.index));
        let until = std::time::SystemTime::now() + life;
        write_credentials(&folder, task, (authority, authority), "127.0.0.1", until)
    }

    /// What all tasks were told of the job.
    fn agreement(&self) -> Agreement {
        Agreement::of(&Job::load(&self.job, &[SETTING.to_owned()]).expect("a good job"))
    }

    fn model_dir(&self) -> PathBuf {
        Job::load(&self.job, &[]).expect("a good job").model_dir
    }

    fn cluster(&self) -> ClusterSpec {
        ClusterSpec::load(&self.folder.path().join("cluster.toml")).expect("a cluster")
    }

    /// Returns a way to reach a task as another one. To be called within a runtime.
    fn channel(&self, to: Task, from: Task) -> Channel {
        let network = match &self.authority {
            None => Network::System,
            Some(_) => {
                let folder = self
                    .folder
                    .path()
                    .join(format!("tls-{}-{}", from.role, from.index));
                let sources = CredentialSources {
                    tls_dir: Some(&folder),
                    ..CredentialSources::default()
                };
                let security = Security::load(&self.cluster(), from, sources);
                Network::Other(Arc::new(Caller(Arc::new(
                    security.expect("good credentials"),
                ))))
            }
        };
        channel_over(&network, to, self.tasks.address(to)).expect("an address")
    }

    /// Whether the server answers an honest caller on a connection of its own.
    fn answers_others(&self) -> bool {
        let runtime = Runtime::new().expect("a runtime");
        let _inside = runtime.enter();
        let mut server = ParameterServiceClient::new(self.channel(PS, STRANGER));
        let asked = tokio::time::timeout(LIMIT, server.status(v1::StatusRequest::default()));
        runtime.block_on(asked).is_ok_and(|answer| answer.is_ok())
    }

    /// Steps that the worker has applied.
    fn steps(&self) -> u64 {
        self.count(WORKER, "trainyard_steps_total")
    }

    fn count(&self, task: Task, name: &str) -> u64 {
        metric(self.tasks.admin(task), name).unwrap_or(0.0) as u64
    }

    /// Waits until something holds, while the tasks are looked after.
    fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(
                begun.elapsed() < LIMIT,
                "not within {LIMIT:?}: {what}; {}",
                self.tasks.last_lines()
            );
            self.tasks.look();
            assert_eq!(
                self.tasks.failed_for_good(),
                None,
                "{}",
                self.tasks.last_lines()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Does something to the server. It must not die, nor take much memory, and the worker must train on.
    fn withstands<T>(&mut self, what: &str, attack: impl FnOnce(&Self) -> T) -> T {
        let process = self.tasks.id(PS).expect("it runs");
        let steps = self.steps();
        let memory = memory(process, "VmRSS");
        let begun = Instant::now();
        let done = attack(self);
        let time = begun.elapsed();
        let trained = self.steps().saturating_sub(steps);
        self.tasks.look();
        let died = format!("{what}: the server has died: {}", self.tasks.last_lines());
        assert_eq!(self.tasks.id(PS), Some(process), "{died}");
        let peak = memory_peak(process);
        println!(
            "{what}: {:.0} steps/s over {time:.1?}; the server held {} MiB before, {} MiB at most",
            trained as f64 / time.as_secs_f64(),
            memory >> 20,
            peak >> 20
        );
        assert!(
            peak < memory + MEMORY_MORE_MAX,
            "{what}: {memory} bytes before, {peak} at most"
        );
        let reached = self.steps();
        self.wait_until("it trains on", |stage| stage.steps() > reached);
        done
    }

    /// Ends the job, and returns what it has counted.
    fn account(&mut self) -> Account {
        self.ledger.end(&mut self.tasks, LIMIT).expect("it ends")
    }

    /// Ends the job, and fails unless each update was applied once.
    fn end(mut self) {
        let account = self.account();
        assert!(account.is_exact(), "{account}{}", self.tasks.last_lines());
    }
}

/// Returns the bytes of a line of `/proc/PID/status`.
fn memory(process: u32, name: &str) -> u64 {
    let text =
        std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.expect("a number of kB") << 10
}

/// Returns the most bytes that a process has held since this was last asked.
fn memory_peak(process: u32) -> u64 {
    let peak = memory(process, "VmHWM");
    // See proc_pid_clear_refs(5): 5 resets the peak.
    let _ = std::fs::write(format!("/proc/{process}/clear_refs"), "5");
    peak
}

/// Returns how many files and sockets a process has open.
fn open_files(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

/// A caller of the parameter server, and who it says that it is.
struct Client {
    runtime: Runtime,
    server: ParameterServiceClient<Channel>,
    identity: v1::Identity,
    /// As the server told it.
    status: v1::StatusReply,
}

impl Client {
    /// Connects as `from`, and speaks as `STRANGER` with a session that the chief may have granted.
    fn new(stage: &Stage, from: Task) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let mut server = {
            let _inside = runtime.enter();
            ParameterServiceClient::new(stage.channel(PS, from))
        };
        let status = runtime.block_on(server.status(v1::StatusRequest::default()));
        let status = status.expect("anyone may ask").into_inner();
        let identity = v1::Identity {
            cluster_id: status.cluster_id.clone(),
            cluster_epoch: status.cluster_epoch,
            task: Some(convert::task_to_wire(STRANGER)),
            incarnation: 1,
            session: (status.cluster_epoch << 32) | 1000,
        };
        Self {
            runtime,
            server,
            identity,
            status,
        }
    }

    fn status(&mut self) -> v1::StatusReply {
        let asked = self
            .runtime
            .block_on(self.server.status(v1::StatusRequest::default()));
        asked.expect("anyone may ask").into_inner()
    }

    /// Opens the session of its identity.
    fn open_session(&mut self) -> Result<(), tonic::Status> {
        let request = v1::OpenSessionRequest {
            identity: Some(self.identity.clone()),
            layout_fingerprint: self.status.layout_fingerprint,
            ..v1::OpenSessionRequest::default()
        };
        self.runtime
            .block_on(self.server.open_session(request))
            .map(drop)
    }

    fn push(
        &mut self,
        identity: &v1::Identity,
        push: v1::Push,
        payload: Vec<u8>,
    ) -> Result<v1::Pushed, tonic::Status> {
        let request = v1::StepRequest {
            identity: Some(identity.clone()),
            push: Some(push),
            pull: None,
            payload: payload.into(),
        };
        let reply = self
            .runtime
            .block_on(self.server.step(request))?
            .into_inner();
        Ok(reply.pushed.expect("an answer to the push"))
    }

    /// Returns the bytes of slices, read whole.
    fn read(&mut self, whole: &[u32]) -> Vec<u8> {
        let selection = v1::Selection {
            whole: whole.to_vec(),
            ..v1::Selection::default()
        };
        let pull = v1::Pull {
            selection: Some(selection),
            ..v1::Pull::default()
        };
        let identity = Some(self.identity.clone());
        let request = v1::StepRequest {
            identity,
            pull: Some(pull),
            ..v1::StepRequest::default()
        };
        self.runtime
            .block_on(self.server.step(request))
            .expect("a mere look")
            .into_inner()
            .payload
            .to_vec()
    }
}
