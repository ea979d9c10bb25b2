//! Build script: gives a release build its commit, so that two builds of one version can be distinguished.
//!
//! Only release builds run git. Otherwise each commit would make developers compile this crate again.
#![expect(
    clippy::disallowed_methods,
    reason = "Cargo speaks to a build script by the environment"
)]

use std::env;
use std::process::Command;

/// The environment variable by which a packager without a repository gives the commit.
const COMMIT: &str = "TRAINYARD_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let given = env::var(COMMIT).ok();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let found = given.or_else(|| {
        if is_release {
            commit_of_the_repository()
        } else {
            None
        }
    });
    println!(
        "cargo::rustc-env={COMMIT}={}",
        found.as_deref().unwrap_or("unknown")
    );
}

/// Returns the commit that is checked out. Cargo reruns this script when another commit is checked out.
fn commit_of_the_repository() -> Option<String> {
    // Git appends to this file at each commit and each checkout.
    let log_of_heads = git(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "logs/HEAD",
    ])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    println!("cargo::rerun-if-changed={log_of_heads}");
    Some(commit)
}

/// Runs git and returns its output; nothing without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    let answer = answer.trim();
    if output.status.success() && !answer.is_empty() {
        Some(answer.to_owned())
    } else {
        None
    }
}
