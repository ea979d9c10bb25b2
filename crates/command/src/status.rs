//! `trainyard status` and `trainyard top`: the status of a run, read from the chief's admin port.

mod render;
mod screen;
mod stored;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use render::{Seen, lines};
use screen::Screen;
use serde_json::{Value, json};
use stored::{Folders, stored};
use trainyard_diagnostic::Diagnostic;
use trainyard_run_config::default_logs_dir;
use trainyard_storage::is_remote;

use crate::admin_client::AdminClient;
use crate::arguments::Format;
use crate::log_memory::LogMemory;
use crate::output::print;
use crate::runtime::single_threaded;

/// The run to observe.
#[derive(Debug, Args)]
pub(crate) struct Observe {
    /// A cluster file with the chief's admin port, the job file or model directory of a `trainyard up`, or host:port of
    /// the admin port.
    #[arg(value_name = "CLUSTER|JOB")]
    pub(crate) target: String,
    /// The model directory that `up` was given, if the target is a job file.
    #[arg(long, value_name = "DIR")]
    pub(crate) model_dir: Option<PathBuf>,
    /// Sets one key of the job file. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) run: Observe,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// Time between two polls of `top`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Prints the status of a run once.
pub(crate) fn status(arguments: &Status) -> Result<(), Vec<Diagnostic>> {
    let one = |problem| vec![problem];
    let runtime = single_threaded().map_err(one)?;
    let seen = find(&arguments.run).and_then(|client| runtime.block_on(look(&client)).map_err(one));
    let folders = Folders::of(&arguments.run);
    let mut seen = match (seen, &folders) {
        (Ok(seen), _) => seen,
        (Err(problems), Some(folders)) => {
            return print(&stored(folders, arguments.format, problems)?).map_err(one);
        }
        (Err(problems), None) => return Err(problems),
    };
    let memory = folders
        .map(|folders| folders.logs)
        .or_else(|| logs_of(&seen.run))
        .map(|logs| LogMemory::of(&logs));
    match arguments.format {
        Format::Json => {
            let Seen {
                run, evaluations, ..
            } = seen;
            print(&format!(
                "{}\n",
                json!({"run": run, "evaluations": evaluations, "memory": memory.map(|memory| memory.json())})
            ))
            .map_err(one)
        }
        Format::Text => {
            seen.memory = memory.map_or_else(Vec::new, |memory| memory.lines());
            snapshot(&seen).map_err(one)
        }
    }
}

/// Returns the folder of the logs of a run by the chief's answer.
fn logs_of(run: &Value) -> Option<PathBuf> {
    let model_dir = Path::new(run["job"]["model_dir"].as_str()?);
    let is_same_here = model_dir.is_absolute() || is_remote(model_dir);
    is_same_here.then(|| default_logs_dir(model_dir))
}

/// Shows the status of a run until a key ends it. Without a terminal, prints it once.
pub(crate) fn top(arguments: &Observe) -> Result<(), Vec<Diagnostic>> {
    let client = find(arguments)?;
    let one = |problem| vec![problem];
    let runtime = single_threaded().map_err(one)?;
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        let seen = runtime.block_on(look(&client)).map_err(one)?;
        return snapshot(&seen).map_err(one);
    }
    // A missing run is reported as a message, before the screen that disappears at the end opens.
    runtime.block_on(look(&client)).map_err(one)?;
    let watched = runtime.block_on(watch(&client)).map_err(one);
    // A thread may still be reading a key.
    runtime.shutdown_background();
    watched
}

fn find(arguments: &Observe) -> Result<AdminClient, Vec<Diagnostic>> {
    AdminClient::find(
        &arguments.target,
        arguments.model_dir.as_deref(),
        &arguments.set,
    )
}

async fn look(client: &AdminClient) -> Result<Seen, Diagnostic> {
    let run = client.ask("/api/v1/run").await?;
    // History and evaluations are optional: the status is shown without them.
    let history = client.ask("/api/v1/history").await.unwrap_or(Value::Null);
    let evaluations = client
        .ask("/api/v1/evaluations")
        .await
        .unwrap_or(Value::Null);
    Ok(Seen {
        run,
        history,
        evaluations,
        memory: Vec::new(),
    })
}

fn snapshot(seen: &Seen) -> Result<(), Diagnostic> {
    print(
        &lines(seen, usize::MAX)
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
}

async fn watch(client: &AdminClient) -> Result<(), Diagnostic> {
    let mut screen = Screen::open()?;
    let mut last = Vec::new();
    loop {
        let width = screen.width();
        let shown = match look(client).await {
            Ok(seen) => {
                last = lines(&seen, width);
                last.clone()
            }
            Err(problem) => {
                let mut shown = vec![
                    format!("NO ANSWER: {}", problem.message),
                    "What follows is of before.".to_owned(),
                ];
                shown.extend(last.iter().cloned());
                shown
            }
        };
        screen.draw(&shown)?;
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = screen.told_to_end() => return Ok(()),
        }
    }
}
