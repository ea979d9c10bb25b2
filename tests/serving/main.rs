//! The server of predictions: what it answers, and what it bears.

mod bad_requests;
mod bounds;
pub(crate) mod client;
mod clients;
mod equality;
mod exports;
mod joined;
mod keys;
mod killed_tasks;
mod load;
mod memory;
pub(crate) mod published;
mod security;
mod several_servers;
mod values;
pub(crate) mod versions;

use std::path::Path;
use std::time::Duration;

use trainyard_tests::Program;

/// Longest run of one program.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a program to its end, which must be good.
pub(crate) fn run(arguments: &[&str]) -> String {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
    ended.output
}

/// A running server.
pub(crate) struct Server {
    pub(crate) program: Program,
    /// Address of its port.
    pub(crate) address: String,
}

impl Server {
    /// Starts a server on a free port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &[])
    }

    /// Starts a server with these variables in its environment.
    fn start_in(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut program = Program::start("trainyard", &arguments, environment);
        let line = program.wait_for("predictions are served", LIMIT);
        let address = line
            .rsplit_once("address=")
            .map(|(_, address)| address.trim().to_owned());
        Self {
            address: address.unwrap_or_else(|| panic!("no address: {line}")),
            program,
        }
    }

    /// Waits until a version of a model answers.
    pub(crate) fn wait_for_version(&mut self, model: &str, version: u64) {
        let line = format!("the version answers model={model} version={version} ");
        self.program.wait_for(&line, LIMIT);
    }
}

/// Trains the job of `write_job` for some steps, and returns its path.
pub(crate) fn trained(folder: &Path, steps: u64) -> String {
    let end = format!("[train]\nmax_steps = {steps}\n");
    let job = trainyard_tests::write_job(folder, 400, &end);
    let job = job.to_string_lossy().into_owned();
    run(&["train", &job, "--log-level", "error"]);
    job
}
