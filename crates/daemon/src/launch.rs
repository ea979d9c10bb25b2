//! Launch of a daemon: from arguments to an exit code.

use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser};
use futures_util::future::LocalBoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trainyard_cluster_spec::Role;
use trainyard_diagnostic::{Code, Diagnostic, refuse_shell_parts, system_problem, thread_limit};
use trainyard_runtime::{FileWork, tell_file_wait};

use crate::disk_watch::DiskWatch;
use crate::hosts::Hosts;
use crate::memory_guard::guard_memory;
use crate::port::bind;
use crate::process::{
    check_address_space, check_open_files, check_threads, end_with_parent, raise_open_files,
    survive_file_size_limit, use_small_pages,
};
use crate::report::report;
use crate::stop_source::{StopRequests, StopSource};
use crate::supervision::Supervision;
use crate::{
    Arguments, Context, LogFormat, Readiness, ServiceArguments, Telemetry, Watchdog, admin,
    service_manager, start_logging,
};

/// Exit code of a wrong command line (sysexits `EX_USAGE`).
const USAGE: u8 = 64;

#[derive(Debug, Parser)]
#[command(version = crate::VERSION, about = "One task of a training job. Its role is its name.")]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

/// The command line of a daemon that is no task of a cluster.
#[derive(Debug, Parser)]
#[command(version = crate::VERSION)]
struct ServiceCommand<A: Args> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    service: ServiceArguments,
}

/// Runs a daemon that is no task of a cluster: reads its own arguments and those of every such daemon, starts logs, and
/// converts the outcome of `run` into an exit code. `run` calls [`supervise_service`].
pub fn launch_service<A: Args>(
    name: &'static str,
    about: &'static str,
    run: impl FnOnce(A, &ServiceArguments) -> Result<(), Vec<Diagnostic>>,
) -> ExitCode {
    if let Err(problem) = refuse_shell_parts(std::env::args_os().skip(1)) {
        return finish(Err(vec![problem]), LogFormat::Text).into();
    }
    let command = ServiceCommand::<A>::command().name(name).about(about);
    let parsed = command
        .try_get_matches()
        .and_then(|found| ServiceCommand::<A>::from_arg_matches(&found));
    let ServiceCommand { own, service } = match parsed {
        Ok(command) => command,
        Err(error) => {
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let begun = begin(service.log_format, &service.log_level);
    let outcome = begun
        .map_err(|problem| vec![problem])
        .and_then(|()| run(own, &service));
    finish(outcome, service.log_format).into()
}

/// Runs a role as a daemon: reads arguments, starts logs, signals and the admin port, and converts the outcome into an
/// exit code. It is the whole `main` of a daemon.
pub fn launch<F, Outcome>(role: Role, run: F) -> ExitCode
where
    F: FnOnce(Context, CancellationToken) -> Outcome,
    Outcome: Future<Output = Result<(), Diagnostic>>,
{
    if let Err(problem) = refuse_shell_parts(std::env::args_os().skip(1)) {
        return finish(Err(vec![problem]), LogFormat::Text).into();
    }
    let command = match parse(role) {
        Ok(command) => command,
        Err(error) => {
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let arguments = &command.arguments;
    if let Err(problem) = begin(arguments.log_format, &arguments.log_level) {
        return finish(Err(vec![problem]), arguments.log_format).into();
    }
    let readiness = Arc::new(Mutex::new(None));
    let _watch = watch_disks(role, Arc::clone(&readiness));
    let outcome = Context::from_arguments(Some(role), arguments).and_then(|context| {
        *readiness.lock() = Some(context.readiness.clone());
        supervise(context, run).map_err(|problem| vec![problem])
    });
    finish(outcome, arguments.log_format).into()
}

/// Watches the disks of a task, which is not ready while it waits for one. `readiness` is that of the task once its job is
/// read. Chiefs and servers tell of each work on files themselves.
fn watch_disks(role: Role, readiness: Arc<Mutex<Option<Readiness>>>) -> Option<DiskWatch> {
    let has_waited = AtomicBool::new(false);
    let tell = move |age: Duration| {
        if !age.is_zero() || has_waited.load(Ordering::Relaxed) {
            has_waited.store(true, Ordering::Relaxed);
            tell_file_wait(FileWork::Any, age);
        }
        if let Some(readiness) = &*readiness.lock() {
            readiness.waits_for_disk(!age.is_zero());
        }
    };
    matches!(role, Role::Worker | Role::Evaluator).then(|| DiskWatch::telling(tell))
}

/// Starts the log of a program and the guard of its memory, and sets what the kernel does to it.
///
/// # Errors
/// The level of the log is no level. The program may have too little address space.
pub fn begin(format: LogFormat, level: &str) -> Result<(), Diagnostic> {
    start_logging(format, level)?;
    use_small_pages();
    survive_file_size_limit();
    check_address_space()?;
    guard_memory(format);
    Ok(())
}

/// Parses the arguments of a daemon. The name of the program follows from its role.
fn parse(role: Role) -> Result<Command, clap::Error> {
    let name = match role {
        Role::Chief => "trainyard-chief",
        Role::Worker => "trainyard-worker",
        Role::Ps => "trainyard-ps",
        Role::Evaluator => "trainyard-evaluator",
    };
    Command::command()
        .name(name)
        .try_get_matches()
        .and_then(|found| Command::from_arg_matches(&found))
}

/// Prints the errors, and returns the exit code.
pub fn finish(outcome: Result<(), Vec<Diagnostic>>, format: LogFormat) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(problems) => {
            report(&problems, format);
            problems.first().map_or(1, Diagnostic::exit_code)
        }
    }
}

/// Runs a role in a new runtime, with requests to stop and the admin port.
///
/// # Errors
/// The error of the role, or the role did not stop within its drain deadline.
pub fn supervise<F, Outcome>(context: Context, run: F) -> Result<(), Diagnostic>
where
    F: FnOnce(Context, CancellationToken) -> Outcome,
    Outcome: Future<Output = Result<(), Diagnostic>>,
{
    let supervision = Supervision::of(&context);
    // The closure is boxed, so that the rest is compiled once here, and not again in each program.
    supervise_boxed(
        supervision,
        Box::new(|watchdog, stop| {
            let context = Context {
                watchdog,
                ..context
            };
            Box::pin(run(context, stop))
        }),
    )
}

/// As [`supervise`], for a daemon that is no task of a cluster.
///
/// # Errors
/// The error of the daemon, or it did not stop within its drain deadline.
pub fn supervise_service<F, Outcome>(supervision: Supervision, run: F) -> Result<(), Diagnostic>
where
    F: FnOnce(Watchdog, CancellationToken) -> Outcome,
    Outcome: Future<Output = Result<(), Diagnostic>>,
{
    supervise_boxed(
        supervision,
        Box::new(|watchdog, stop| Box::pin(run(watchdog, stop))),
    )
}

type Run<'a> =
    Box<dyn FnOnce(Watchdog, CancellationToken) -> LocalBoxFuture<'a, Result<(), Diagnostic>> + 'a>;

fn supervise_boxed(supervision: Supervision, run: Run<'_>) -> Result<(), Diagnostic> {
    let leaving = install_panic_hook();
    raise_open_files();
    check_open_files(&supervision.task, supervision.other_tasks)?;
    // The variable FAILPOINTS defines the failures. A release ignores it, even one that was built with the tests.
    #[cfg(all(feature = "failpoints", debug_assertions))]
    let _scenario = fail::FailScenario::setup();
    let requests = receive_requests(&supervision.stop);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            let message = format!("the runtime cannot start: {error}");
            system_problem(&error, message, (Code::E9002, "start the program again"))
        })?;
    check_threads(&supervision.task)?;
    let outcome = runtime.block_on(around(supervision, requests, run));
    // Connections of peers that have gone may still run, and work that did not end in time. The process does not wait for them,
    // and what they miss of a runtime that shuts down is no fault of theirs.
    leaving.store(true, Ordering::Relaxed);
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn around(
    supervision: Supervision,
    requests: std::io::Result<StopRequests>,
    run: Run<'_>,
) -> Result<(), Diagnostic> {
    let stop = CancellationToken::new();
    let ended = CancellationToken::new();
    if end_with_parent() {
        stop.cancel();
    }
    let drain = supervision.drain_deadline;
    let task = supervision.task.as_str();
    let telemetry = Telemetry::install();
    let mut served = None;
    if supervision.serves_admin {
        let address = &supervision.admin_listen;
        let listener = bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
        let bound = listener.local_addr().map_err(|error| {
            Diagnostic::error(
                Code::E9002,
                format!("the address of the admin port is not known: {error}"),
            )
        })?;
        let host = rustix::system::uname()
            .nodename()
            .to_str()
            .ok()
            .map(str::to_owned);
        let hosts = Hosts::new(&supervision.cluster, address.as_deref(), host, bound.ip());
        let address = bound.to_string();
        info!(%task, %address, pid = std::process::id(), version = crate::VERSION, "started; the admin port listens");
        let shown = admin::Shared::new(telemetry.clone(), &supervision);
        served = Some(tokio::spawn(admin::serve(
            listener,
            shown,
            hosts,
            ended.clone(),
        )));
    }
    let upkeep = tokio::spawn(telemetry.upkeep(Arc::clone(&supervision.security)));
    let requests = tokio::spawn(forward(requests, stop.clone()));
    let readiness = supervision.readiness.clone();
    let (watchdog, question) = service_manager::watchdog();
    let told = service_manager::follow(
        supervision.up_when,
        readiness.clone(),
        watchdog.clone(),
        question,
        stop.clone(),
    );
    let told = tokio::spawn(told);
    let outcome = tokio::select! {
        outcome = watchdog.within(run(watchdog.clone(), stop.clone())) => outcome,
        () = async { stop.cancelled().await; tokio::time::sleep(drain).await } => {
            let standing = readiness.get();
            let message = format!("{task} did not stop within {} s of SIGTERM", drain.as_secs());
            let problem = Diagnostic::error(Code::E9003, message).note(format!("its state was {}", standing.state));
            Err(standing.waiting_for.into_iter().fold(problem, |problem, what| problem.note(format!("waiting for {what}"))))
        }
    };
    ended.cancel();
    for handle in [upkeep, requests, told].into_iter().chain(served) {
        handle.abort();
    }
    if outcome.is_ok() {
        info!(%task, "ended");
    }
    outcome
}

/// Begins to receive requests to stop before the main runtime starts. A signal that arrives before a task waits for it would
/// be lost if a running runtime dispatched it. The runtime here never runs, so the signal stays pending.
fn receive_requests(source: &StopSource) -> std::io::Result<StopRequests> {
    let quiet = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = quiet.enter();
    source.requests()
}

/// Cancels `stop` at the first request, and ends the process at the second signal.
async fn forward(requests: std::io::Result<StopRequests>, stop: CancellationToken) {
    let mut requests = match requests {
        Ok(requests) => requests,
        Err(problem) => {
            warn!(%problem, "this process cannot handle signals: SIGTERM will end it without a checkpoint");
            return;
        }
    };
    for time in 0.. {
        requests.next().await;
        if time > 0 {
            std::process::exit(Code::E9003.exit.into());
        }
        info!("received a request to stop: finishing the work in progress");
        stop.cancel();
    }
}

/// Installs a panic hook: a panic is reported as a fault of this program, and ends the process with its exit code. Once the caller
/// says that the process is leaving, a panic ends its thread alone.
fn install_panic_hook() -> Arc<AtomicBool> {
    let leaving = Arc::new(AtomicBool::new(false));
    let is_leaving = Arc::clone(&leaving);
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_leaving.load(Ordering::Relaxed) {
            return;
        }
        // Input threads report their panics as errors.
        if std::thread::current().name() != Some("input") {
            let fault = || {
                let message = format!("fault in this program: {panic}");
                Diagnostic::error(Code::E9001, message).help("please report it, with this line")
            };
            let limit = thread_limit(&panic.to_string());
            let problem = limit.map_or_else(fault, |(code, help)| {
                let message = "the system lets this process have no further thread";
                Diagnostic::error(code, message).help(help)
            });
            let exit = problem.code.exit;
            report(&[problem], LogFormat::Text);
            if std::env::var_os("RUST_BACKTRACE").is_some() {
                default(panic);
            }
            std::process::exit(exit.into());
        }
    }));
    leaving
}
