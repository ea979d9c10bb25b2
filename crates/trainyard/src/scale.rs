//! `trainyard scale`: changes the number of workers of a running `trainyard up`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use trainyard_diagnostic::{CODES, Code, Diagnostic};

use crate::command::Scale;
use crate::output::print;
use crate::up::{Address, Answer, Order};

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
        .help("look at the output of `trainyard up`")
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
    sent.map_err(|error| lost(&format!("cannot be told ({error})")))?;
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
