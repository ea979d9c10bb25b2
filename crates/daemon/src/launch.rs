//! From arguments to an exit code.

use std::future::Future;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use futures_util::future::LocalBoxFuture;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use trainyard_cluster_spec::Role;
use trainyard_diagnostic::{Code, Diagnostic, render_all};

use crate::hosts::Hosts;
use crate::port::bind;
use crate::{Arguments, Context, LogFormat, Telemetry, admin, service_manager, start_logging};

/// Exit code of a wrong command line (sysexits `EX_USAGE`).
const USAGE: u8 = 64;

#[derive(Debug, Parser)]
#[command(version = crate::VERSION, about = "One task of a training job. Its role is its name.")]
struct Command {
    #[command(flatten)]
    arguments: Arguments,
}

/// Runs a role as a daemon: reads arguments, starts logs, signals and the admin port, and turns the outcome into an
/// exit code. This is a daemon's whole `main`.
pub fn launch<F, Outcome>(role: Role, run: F) -> ExitCode
where
    F: FnOnce(Context, CancellationToken) -> Outcome,
    Outcome: Future<Output = Result<(), Diagnostic>>,
{
    let command = match parse(role) {
        Ok(command) => command,
        Err(error) => {
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let arguments = &command.arguments;
    if let Err(problem) = start_logging(arguments.log_format, &arguments.log_level) {
        return finish(Err(vec![problem]), arguments.log_format);
    }
    let outcome = Context::from_arguments(Some(role), arguments)
        .and_then(|context| supervise(context, run).map_err(|problem| vec![problem]));
    finish(outcome, arguments.log_format)
}

/// Reads the arguments of a daemon, which is called by its role.
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

/// Prints what went wrong, and returns the exit code.
pub fn finish(outcome: Result<(), Vec<Diagnostic>>, format: LogFormat) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problems) => {
            report(&problems, format);
            ExitCode::from(problems.first().map_or(1, Diagnostic::exit_code))
        }
    }
}

/// Prints messages on standard error.
pub fn report(problems: &[Diagnostic], format: LogFormat) {
    let text = match format {
        LogFormat::Text => render_all(problems),
        LogFormat::Json => problems
            .iter()
            .map(|problem| format!("{}\n", problem.to_json()))
            .collect(),
    };
    drop(std::io::stderr().write_all(text.as_bytes()));
}

/// Runs a role in a runtime of its own, with signals and the admin port around it.
///
/// # Errors
/// The role's, or it did not stop within its drain deadline.
pub fn supervise<F, Outcome>(context: Context, run: F) -> Result<(), Diagnostic>
where
    F: FnOnce(Context, CancellationToken) -> Outcome,
    Outcome: Future<Output = Result<(), Diagnostic>>,
{
    // Boxed, so that what is around it is compiled here and not once more in each program.
    supervise_boxed(
        context,
        Box::new(|context, stop| Box::pin(run(context, stop))),
    )
}

type Run<'a> =
    Box<dyn FnOnce(Context, CancellationToken) -> LocalBoxFuture<'a, Result<(), Diagnostic>> + 'a>;

fn supervise_boxed(context: Context, run: Run<'_>) -> Result<(), Diagnostic> {
    install_panic_hook();
    // FAILPOINTS says what happens there. A release ignores it, even one that was built with the tests.
    #[cfg(all(feature = "failpoints", debug_assertions))]
    let _scenario = fail::FailScenario::setup();
    let signals = catch_signals();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Diagnostic::error(Code::E9002, format!("the runtime cannot start: {error}"))
        })?;
    let outcome = runtime.block_on(around(context, signals, run));
    // What still runs are connections of peers that have gone: they are not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn around(
    mut context: Context,
    signals: std::io::Result<Signals>,
    run: Run<'_>,
) -> Result<(), Diagnostic> {
    let stop = CancellationToken::new();
    let ended = CancellationToken::new();
    let drain = context.drain_deadline;
    let task = context.task;
    let telemetry = Telemetry::install();
    let mut served = None;
    if context.serves_admin {
        let address = context
            .admin_listen
            .clone()
            .or_else(|| context.cluster.admin.get(&task).cloned());
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
        let hosts = Hosts::new(&context.cluster, address.as_deref(), host, bound.ip());
        let address = bound.to_string();
        info!(%task, %address, pid = std::process::id(), version = crate::VERSION, "started; the admin port listens");
        let shown = admin::Shared::new(
            telemetry.clone(),
            context.readiness.clone(),
            context.page.clone(),
            task,
        );
        served = Some(tokio::spawn(admin::serve(
            listener,
            shown,
            hosts,
            ended.clone(),
        )));
    }
    let upkeep = tokio::spawn(telemetry.upkeep(Arc::clone(&context.security)));
    let signals = tokio::spawn(forward_signals(signals, stop.clone()));
    let readiness = context.readiness.clone();
    let (watchdog, question) = service_manager::watchdog();
    context.watchdog = watchdog.clone();
    let told = service_manager::follow(
        task.role,
        readiness.clone(),
        watchdog.clone(),
        question,
        stop.clone(),
    );
    let told = tokio::spawn(told);
    let outcome = tokio::select! {
        outcome = watchdog.within(run(context, stop.clone())) => outcome,
        () = async { stop.cancelled().await; tokio::time::sleep(drain).await } => {
            let standing = readiness.get();
            let message = format!("{task} did not stop within {} s of SIGTERM", drain.as_secs());
            let problem = Diagnostic::error(Code::E9003, message).note(format!("it was {}", standing.state));
            Err(standing.waiting_for.into_iter().fold(problem, |problem, what| problem.note(format!("waiting for {what}"))))
        }
    };
    ended.cancel();
    for handle in [upkeep, signals, told].into_iter().chain(served) {
        handle.abort();
    }
    if outcome.is_ok() {
        info!(%task, "ended");
    }
    outcome
}

/// SIGTERM and SIGINT, as they come.
type Signals = (Signal, Signal);

/// Catches the signals from now on. A signal that is caught before somebody listens for it is lost, unless nobody looks whether
/// one has come: this runtime does not run.
fn catch_signals() -> std::io::Result<Signals> {
    let quiet = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _inside = quiet.enter();
    Ok((
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    ))
}

/// The first SIGTERM or SIGINT asks to stop, the second ends at once.
async fn forward_signals(signals: std::io::Result<Signals>, stop: CancellationToken) {
    let (mut terminate, mut interrupt) = match signals {
        Ok(signals) => signals,
        Err(problem) => {
            warn!(%problem, "signals cannot be caught: SIGTERM will end this process without a checkpoint");
            return;
        }
    };
    for time in 0.. {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if time > 0 {
            std::process::exit(Code::E9003.exit.into());
        }
        info!("told to stop: finishing the work at hand");
        stop.cancel();
    }
}

/// A panic is a fault of this program: it is said so, and the process ends with the code for it.
fn install_panic_hook() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Threads of the input report their panics as errors of their own.
        if std::thread::current().name() != Some("input") {
            let message = format!("fault in this program: {panic}");
            report(
                &[Diagnostic::error(Code::E9001, message).help("please report it with this line")],
                LogFormat::Text,
            );
            if std::env::var_os("RUST_BACKTRACE").is_some() {
                default(panic);
            }
            std::process::exit(Code::E9001.exit.into());
        }
    }));
}
