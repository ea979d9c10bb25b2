//! Files that a command writes, and the refusal to write over files of others.

use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::is_of_run;
use trainyard_run_config::{Job, identity};
use trainyard_storage::is_remote;

/// Treatment of files that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// An existing file is an error.
    Kept,
    /// An existing file is replaced, unless it is read.
    Replaced,
}

impl Existing {
    /// Returns the treatment by the option `--force`.
    pub fn by_force(force: bool) -> Self {
        if force { Self::Replaced } else { Self::Kept }
    }
}

/// Checks that the files may be written, before the first of them is.
///
/// # Errors
/// A file is one of those that are read, by whatever name; or it exists and is to be kept, or is no regular file.
pub fn check_targets(
    targets: &[PathBuf],
    inputs: &[PathBuf],
    existing: Existing,
) -> Result<(), Diagnostic> {
    for target in targets {
        refuse_own_input(target, inputs)?;
    }
    for target in targets {
        // A link that leads nowhere exists, too.
        if target.symlink_metadata().is_err() {
            continue;
        }
        if existing == Existing::Kept {
            let message = match target.read_link() {
                Ok(to) => format!("{} exists, a link to {}", target.display(), to.display()),
                Err(_) => format!("{} exists", target.display()),
            };
            return Err(Diagnostic::error(Code::E1000, message)
                .help("give --force to write over it, or another name"));
        }
        if target.metadata().is_ok_and(|found| !found.is_file()) {
            let message = format!("{} is no regular file", target.display());
            return Err(
                Diagnostic::error(Code::E1000, message).help("give the result another name")
            );
        }
    }
    Ok(())
}

/// Refuses an output file that is one of the input files: creating it would empty the input.
///
/// # Errors
/// They are the same file.
pub(crate) fn refuse_own_input(output: &Path, inputs: &[PathBuf]) -> Result<(), Diagnostic> {
    let written = identity(output);
    if !inputs.iter().any(|input| identity(input) == written) {
        return Ok(());
    }
    let message = format!("{} is read, and would be replaced", output.display());
    Err(Diagnostic::error(Code::E1000, message).help("give the result another name"))
}

/// Refuses an output that would replace a file that the job is made of, or a file of its run.
///
/// # Errors
/// The output is such a file.
pub(crate) fn refuse_own_file(output: &Path, job: &Job) -> Result<(), Diagnostic> {
    let written = identity(output);
    let is_own = job.own_files().iter().any(|file| identity(file) == written);
    if !is_own && !is_within_run(output, &job.model_dir) {
        return Ok(());
    }
    let whose = if is_own { "job" } else { "run" };
    Err(replaced(output, whose))
}

/// Refuses an output that would replace a file of the values that `--from` names.
///
/// # Errors
/// The output is such a file.
pub(crate) fn refuse_source(output: &Path, from: Option<&Path>) -> Result<(), Diagnostic> {
    let Some(from) = from else { return Ok(()) };
    let (written, source) = (identity(output), identity(from));
    // The files of a TensorFlow checkpoint have its name and an ending.
    let mut prefix = source.clone().into_os_string();
    prefix.push(".");
    let is_part = written == source
        || written
            .as_os_str()
            .as_encoded_bytes()
            .starts_with(prefix.as_encoded_bytes());
    let is_of_export = written.starts_with(&source)
        && written.file_name().is_some_and(|name| {
            EXPORTED.iter().any(|exported| name == *exported)
                || written
                    .parent()
                    .is_some_and(|folder| folder.ends_with("variables"))
        });
    if is_part || is_of_export || is_within_run(output, from) {
        return Err(replaced(output, "values that --from names"));
    }
    Ok(())
}

/// Files of an export.
const EXPORTED: [&str; 5] = [
    "job.toml",
    "model.json",
    "model.onnx",
    "model.safetensors",
    "saved_model.pb",
];

fn replaced(output: &Path, whose: &str) -> Diagnostic {
    let message = format!(
        "{} is a file of the {whose}, and would be replaced",
        output.display()
    );
    Diagnostic::error(Code::E1000, message).help("give the result another name")
}

/// Returns whether a path is of a checkpoint, or another file of the run, in a model directory.
fn is_within_run(path: &Path, model_dir: &Path) -> bool {
    if is_remote(path) || is_remote(model_dir) {
        return false;
    }
    let path = identity(path);
    path.strip_prefix(identity(model_dir)).is_ok_and(is_of_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_replace_no_input_and_others_only_by_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("in.csv"), "1\n").expect("written");
        std::fs::write(path("there.csv"), "1\n").expect("written");
        std::fs::create_dir(path("folder")).expect("there is room");
        std::os::unix::fs::symlink(path("in.csv"), path("link")).expect("a link");
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).expect("a link");
        std::os::unix::fs::symlink("/dev/null", path("device")).expect("a link");
        for (name, kept, replaced) in [
            ("new.csv", true, true),
            ("in.csv", false, false),
            ("./in.csv", false, false),
            ("link", false, false),
            ("there.csv", false, true),
            ("dangling", false, true),
            ("folder", false, false),
            ("device", false, false),
        ] {
            for (existing, expected) in [(Existing::Kept, kept), (Existing::Replaced, replaced)] {
                let checked =
                    check_targets(&[path("other"), path(name)], &[path("in.csv")], existing);
                assert_eq!(checked.is_ok(), expected, "{name} {existing:?}");
            }
        }
    }

    #[test]
    fn values_that_are_read_are_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("export/variables")).expect("there is room");
        std::fs::create_dir_all(path("model/model.ckpt-5")).expect("there is room");
        for (from, output, expected) in [
            ("export", "export/model.safetensors", true),
            ("export", "export/variables/variables.index", true),
            ("export", "export/predictions.csv", false),
            ("model", "model/model.ckpt-5/manifest.json", true),
            ("model", "model/predictions.csv", false),
            ("a.safetensors", "a.safetensors", true),
            ("tf/model.ckpt-9", "tf/model.ckpt-9.index", true),
            ("tf/model.ckpt-9", "tf/model.ckpt-90.csv", false),
        ] {
            let refused = refuse_source(&path(output), Some(&path(from))).is_err();
            assert_eq!(refused, expected, "--from {from} --output {output}");
        }
    }
}
