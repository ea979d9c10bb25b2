//! Tells a release build the commit that it is built from, so that two builds of one version can be told apart.
//!
//! Only builds with optimization ask git: a commit would otherwise make each developer's build compile this crate again.

use std::env;
use std::process::Command;

/// The variable by which a packager who builds without a repository gives the commit.
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

/// Returns the commit that is checked out, and asks cargo to look again where another one is.
fn commit_of_the_repository() -> Option<String> {
    // What git notes at each commit and each checkout.
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

/// Runs git and returns its answer; nothing where there is no git, or no repository.
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
