//! A task of the cluster as a process that is started, dies, and is started again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use trainyard_cluster_spec::{Role, Task};
use trainyard_daemon::{Arguments, CancellationToken, Context, LogFormat};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model::{Build, any};
use trainyard_runtime::Network;
use trainyard_tests::Counting;

use crate::network::Simulated;

/// Longest time to stop in, in seconds.
const DRAIN_SECS: u64 = 10;

/// What is known of a task's process.
#[derive(Debug, Default)]
pub(crate) struct Life {
    /// How often it was started.
    pub(crate) starts: u64,
    /// Tells the present one to stop.
    pub(crate) stop: CancellationToken,
    /// How it has ended, if it has.
    pub(crate) outcome: Option<Result<(), Diagnostic>>,
}

/// A task and its files.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) task: Task,
    pub(crate) job: PathBuf,
    pub(crate) cluster: PathBuf,
    pub(crate) settings: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) life: Arc<Mutex<Life>>,
}

impl Process {
    /// Is the process, from its start until it is killed: one that has ended stays as it is.
    pub(crate) async fn live(self) {
        let (stop, start) = {
            let mut life = self.life.lock();
            *life = Life {
                starts: life.starts + 1,
                ..Life::default()
            };
            (life.stop.clone(), life.starts)
        };
        let outcome = self.run(start, stop).await;
        self.life.lock().outcome = Some(outcome);
        std::future::pending::<()>().await;
    }

    async fn run(&self, start: u64, stop: CancellationToken) -> Result<(), Diagnostic> {
        let mut context = self.context()?;
        context.network = Network::Other(Arc::new(Simulated));
        // Another at each start, and the same in each run of the seed.
        let of = [
            self.seed,
            self.task.role as u64,
            self.task.index as u64,
            start,
        ];
        context.incarnation = of.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| {
            (hash ^ part).wrapping_mul(0x0100_0000_01b3)
        });
        let task = self.task;
        let build: Build = &|job| any(Counting::from_job(job)?);
        let drained = async {
            stop.cancelled().await;
            tokio::time::sleep(Duration::from_secs(DRAIN_SECS)).await;
        };
        let running = async {
            match task.role {
                Role::Chief => trainyard_chief::run(context, build, stop.clone()).await,
                Role::Ps => trainyard_ps::run(context, stop.clone()).await,
                _ => trainyard_worker::run(context, build, stop.clone()).await,
            }
        };
        tokio::select! {
            outcome = running => outcome,
            () = drained => {
                let message = format!("{task} did not stop within {DRAIN_SECS} s of SIGTERM");
                Err(Diagnostic::error(Code::E9003, message))
            }
        }
    }

    fn context(&self) -> Result<Context, Diagnostic> {
        let arguments = Arguments {
            job: self.job.clone(),
            cluster: Some(self.cluster.clone()),
            index: Some(self.task.index),
            set: self.settings.clone(),
            model_dir: None,
            report: None,
            listen: None,
            admin_listen: None,
            log_format: LogFormat::Text,
            log_level: "info".to_owned(),
            tls_dir: None,
            token_file: None,
            insecure_no_auth: false,
            state_dir: None,
            shared_memory_dir: self.job.with_extension("memory"),
            connect_deadline: None,
            drain_deadline: DRAIN_SECS,
        };
        let resolved = Context::resolve(Some(self.task.role), &arguments, None);
        resolved.map_err(|mut problems| problems.remove(0))
    }
}
