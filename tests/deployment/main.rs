//! How jobs get onto machines: what the daemons tell systemd, its units, Slurm, Kubernetes, and the folders of hosts.

mod host_folders;
mod kubernetes;
mod packages;
mod service_manager;
mod slurm;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest wait for anything that takes a moment; a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(60);

/// The folder of what is deployed.
fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").canonicalize().expect("the folder is there")
}

/// The folder of the programs that were built with this test.
fn programs() -> PathBuf {
    let folder = std::env::current_exe().expect("the test has a path");
    folder.parent().and_then(Path::parent).expect("tests lie in deps/ of the target folder").to_owned()
}

/// Whether a program is installed here.
fn has(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", "command -v \"$1\"", "sh", program])
        .output()
        .is_ok_and(|found| found.status.success())
}

/// Runs a command, and returns whether it succeeded and all that it said.
fn said(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}
