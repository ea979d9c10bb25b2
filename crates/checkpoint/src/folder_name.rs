//! Names of the folders of checkpoints, as tasks send them to each other. The receiver joins a name to its own model
//! directory, so no peer chooses a path.

use std::path::{Path, PathBuf};

use trainyard_model_dir::ModelDir;

use crate::FilePurpose;
use crate::committed::PREFIX;
use crate::publication::{CutKind, FOLDER, TEMPORARY};

/// Most bytes of a name: the bound of file systems.
const NAME_BYTES_MAX: usize = 255;

/// A name that is not that of a folder of checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not the name of {expected} in the model directory")]
pub struct InvalidName {
    name: String,
    expected: &'static str,
}

/// Returns the name of the folder of a checkpoint or cut, for messages to other tasks.
pub fn folder_name(folder: &Path) -> String {
    folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns the folder of a committed checkpoint: `model.ckpt-<step>`; in a bucket, an attempt may follow.
///
/// # Errors
/// The name is not of this form.
pub fn committed_folder(model_dir: &Path, name: &str) -> Result<PathBuf, InvalidName> {
    if is_numbered(name, PREFIX) {
        return Ok(model_dir.join(name));
    }
    Err(invalid(name, "a checkpoint"))
}

/// Returns the folder into which a server writes its file of a save that has begun: `tmp.<step>.<attempt>`, or
/// `publish/tmp.<cut>.<attempt>`. In a bucket, which has no renames, the name is the one of the committed folder.
///
/// # Errors
/// The name is not of this form.
pub fn begun_folder(
    model_dir: &Path,
    name: &str,
    purpose: FilePurpose,
) -> Result<PathBuf, InvalidName> {
    let is_bucket = ModelDir::is_bucket(model_dir);
    match purpose {
        FilePurpose::Checkpoint => {
            let prefix = if is_bucket { PREFIX } else { TEMPORARY };
            if is_numbered(name, prefix) {
                return Ok(model_dir.join(name));
            }
            Err(invalid(name, "a checkpoint that was begun"))
        }
        FilePurpose::Publication => {
            let cut = if is_bucket {
                Some(name)
            } else {
                name.strip_prefix(TEMPORARY)
            };
            let kinds = [CutKind::Base, CutKind::Increment];
            if cut.is_some_and(|cut| kinds.iter().any(|kind| is_numbered(cut, kind.prefix()))) {
                return Ok(model_dir.join(FOLDER).join(name));
            }
            Err(invalid(name, "a cut that was begun"))
        }
    }
}

fn invalid(name: &str, expected: &'static str) -> InvalidName {
    let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
    InvalidName {
        name: shown.escape_default().to_string(),
        expected,
    }
}

/// Returns whether a name is the prefix, a digit, and letters, digits, `.`, `_` and `-`: one component of a path.
fn is_numbered(name: &str, prefix: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else {
        return false;
    };
    name.len() <= NAME_BYTES_MAX
        && rest.starts_with(|first: char| first.is_ascii_digit())
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_save_is_joined_to_the_own_model_directory() {
        let begun = |model_dir: &str, name, purpose| {
            begun_folder(Path::new(model_dir), name, purpose).map(|path| path.display().to_string())
        };
        let checkpoint = FilePurpose::Checkpoint;
        let publication = FilePurpose::Publication;
        for (model_dir, name, purpose, expected) in [
            (
                "/m",
                "tmp.12.3-00000000000000ff",
                checkpoint,
                "/m/tmp.12.3-00000000000000ff",
            ),
            (
                "s3://b/m",
                "model.ckpt-12.3-ff-aa",
                checkpoint,
                "s3://b/m/model.ckpt-12.3-ff-aa",
            ),
            (
                "/m",
                "tmp.base-000000000001.ff",
                publication,
                "/m/publish/tmp.base-000000000001.ff",
            ),
            (
                "s3://b/m",
                "base-000000000001.ff",
                publication,
                "s3://b/m/publish/base-000000000001.ff",
            ),
        ] {
            assert_eq!(begun(model_dir, name, purpose), Ok(expected.to_owned()));
        }
        let restored = committed_folder(Path::new("/m"), "model.ckpt-7");
        assert_eq!(restored, Ok(PathBuf::from("/m/model.ckpt-7")));
    }

    #[test]
    fn a_path_is_no_name() {
        let long = format!("tmp.1{}", "0".repeat(NAME_BYTES_MAX));
        for name in [
            "",
            ".",
            "..",
            "/tmp/evil",
            "/tmp/tmp.1.1-ff",
            "../tmp.1.1-ff",
            "tmp.1/../../x",
            "tmp.",
            "tmp.x",
            "tmp.1\0",
            "tmp.1 ",
            "model.ckpt-7",
            "s3://b/tmp.1",
            "wal",
            &long,
        ] {
            for purpose in [FilePurpose::Checkpoint, FilePurpose::Publication] {
                let refused = begun_folder(Path::new("/m"), name, purpose);
                assert!(refused.is_err(), "{name}: {refused:?}");
            }
        }
        for name in [
            "",
            "/m/model.ckpt-7",
            "model.ckpt-",
            "model.ckpt-7/..",
            "tmp.7.1-ff",
            "job.json",
        ] {
            let refused = committed_folder(Path::new("/m"), name);
            assert!(refused.is_err(), "{name}: {refused:?}");
        }
        let text = begun_folder(Path::new("/m"), "/etc\n", FilePurpose::Checkpoint)
            .expect_err("no name")
            .to_string();
        assert_eq!(
            text,
            "`/etc\\n` is not the name of a checkpoint that was begun in the model directory"
        );
    }
}
