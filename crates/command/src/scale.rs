//! `trainyard scale`: changes the number of workers of a running `trainyard up`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use trainyard_diagnostic::{CODES, Code, Diagnostic};

use crate::arguments::JobArguments;
use crate::output::print;
use crate::up::{Address, Answer, Order};

/// Long help of `scale`.
pub(crate) const SCALE: &str = "Changes the number of workers of a running `trainyard up`, while it trains.

More workers are started, or the ones with the highest numbers are stopped; the command returns when they have joined or \
left. No batch is lost or counted twice: a worker that goes gives back what it has not done. The chief and the parameter \
servers stay as they are.

The job must hand its data out (input.train.sharding = \"dynamic\", the default) and keep its parameters on servers \
(strategy.kind = \"parameter_server\", the default). Give the same JOB.toml, --set and --model-dir as to `up`: the \
running job is found by its model_dir.

  trainyard up job.toml --cluster local:ps=1,worker=1
  trainyard scale job.toml --workers 4";

#[derive(Debug, Args)]
pub(crate) struct Scale {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Number of workers, without the chief: 0 to 256.
    #[arg(long, value_name = "N")]
    pub(crate) workers: usize,
}

/// Timeout of each response. It exceeds the time in which `up` waits for a worker to join, plus that of an earlier
/// order.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(150);
/// Most lines of a response.
const ANSWERS_MAX: usize = 10_000;

/// Sends the order, and prints the responses.
pub(crate) fn scale(arguments: &Scale) -> Result<(), Vec<Diagnostic>> {
    let job = arguments.job.load()?;
    let one = |problem| vec![problem];
    let stream = connect(&job.local_dir()).map_err(one)?;
    order(stream, arguments.workers).map_err(one)
}

fn connect(model_dir: &Path) -> Result<UnixStream, Diagnostic> {
    let folder = model_dir.display();
    let missing = |why: String| {
        Diagnostic::error(Code::E2003, format!("no `trainyard up` runs here with model_dir {folder}: {why}"))
            .note("workers of a cluster whose tasks were started one by one come and go by starting and stopping them")
            .help("start it with `trainyard up`, or give the --model-dir that it was given, on its machine")
    };
    let address = Address::read(model_dir)
        .ok_or_else(|| missing("there is no up/control.json in it".into()))?;
    address.connect().map_err(|error| {
        missing(format!(
            "pid {} does not answer: {error}",
            address.process_id
        ))
    })
}

fn order(mut stream: UnixStream, workers: usize) -> Result<(), Diagnostic> {
    let lost = |why: &str| {
        Diagnostic::error(
            Code::E2003,
            format!("`trainyard up` {why}: it is not known what became of the order"),
        )
        .help("read the output of `trainyard up`")
    };
    let text = serde_json::to_string(&Order { workers }).map_err(|error| {
        Diagnostic::error(
            Code::E9001,
            format!("the order cannot be written as JSON: {error}"),
        )
    })? + "\n";
    let sent = stream
        .set_read_timeout(Some(REQUEST_TIMEOUT))
        .and_then(|()| stream.write_all(text.as_bytes()));
    sent.map_err(|error| lost(&format!("is not known ({error})")))?;
    for line in BufReader::new(stream).lines().take(ANSWERS_MAX) {
        let line = line.map_err(|error| lost(&format!("did not answer ({error})")))?;
        match serde_json::from_str(&line) {
            Ok(Answer::Note(note)) => print(&format!("{note}\n"))?,
            Ok(Answer::Done { from, to }) if from == to => {
                return print(&format!("workers: {to}, as before\n"));
            }
            Ok(Answer::Done { from, to }) => return print(&format!("workers: {from} -> {to}\n")),
            Ok(Answer::Refused {
                code,
                message,
                help,
            }) => {
                let code = CODES.iter().find(|known| known.name == code).copied();
                return Err(Diagnostic::error(code.unwrap_or(Code::E9001), message).help(help));
            }
            Err(error) => return Err(lost(&format!("answered what is not understood ({error})"))),
        }
    }
    Err(lost("has ended"))
}
