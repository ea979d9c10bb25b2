//! Files that `trainyard init` writes, and the refusal to write over the files of others.

use std::path::PathBuf;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::identity;

use super::source::Source;

/// Treatment of files that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// An existing file is an error.
    Kept,
    /// An existing file is replaced, unless it holds the data.
    Replaced,
}

/// Checks that the files may be written, before the first of them is.
///
/// # Errors
/// A file is one of the data files, by whatever name, or exists and is to be kept.
pub(super) fn check(
    targets: &[PathBuf],
    source: &Source,
    existing: Existing,
) -> Result<(), Diagnostic> {
    let inputs = source.train.iter().chain(source.eval.iter().flatten());
    let inputs: Vec<PathBuf> = inputs.map(|input| identity(input)).collect();
    for target in targets {
        if inputs.contains(&identity(target)) {
            let message = format!(
                "{} holds data that is read, and would be written",
                target.display()
            );
            return Err(
                Diagnostic::error(Code::E1000, message).help("give another folder by --out")
            );
        }
    }
    let found = targets
        .iter()
        .find(|target| target.symlink_metadata().is_ok());
    match (found, existing) {
        (Some(found), Existing::Kept) => {
            let message = format!("{} exists", found.display());
            Err(Diagnostic::error(Code::E1000, message)
                .help("give --force to write over it, or another --out"))
        }
        _ => Ok(()),
    }
}
