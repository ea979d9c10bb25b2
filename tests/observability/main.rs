//! Seeing a run: a real Prometheus, a real browser and a real TensorBoard look at running jobs.

mod page;
mod prometheus;
mod running;
mod tensorboard;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for anything that takes a moment; a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(120);
/// Time between looks.
const LOOK: Duration = Duration::from_millis(100);

/// Returns where a program of this machine lies, if it is installed; a line says that the test skips otherwise.
fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: no {name} is installed");
    }
    found
}

/// The top of the repository.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}
