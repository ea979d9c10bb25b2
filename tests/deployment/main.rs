//! How jobs get onto machines: what the daemons tell systemd, its units, Slurm, Kubernetes, and the folders of hosts.

mod host_folders;
mod image;
mod kubernetes;
mod packages;
mod pods;
mod service_manager;
mod slurm;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_tests::LIMIT;

/// The folder of what is deployed.
fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .canonicalize()
        .expect("the folder is there")
}

/// Runs a command, and returns whether it succeeded and all that it said.
fn said(command: &mut Command) -> (bool, String) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}
