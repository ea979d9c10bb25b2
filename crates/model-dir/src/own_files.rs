//! Names of a model directory that belong to its run, and the refusal to write over files of others that have them.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::{Error, files};

/// The job as it was run, for people and for servers of predictions.
pub const JOB_AS_RUN: &str = "job.toml";

/// Files that a run replaces without reading them. `job.toml` is not among them: a person may keep the job there.
const REPLACED: [&str; 8] = [
    "checkpoint",
    "cluster_epoch",
    "history.json",
    "job.json",
    "job_state.json",
    "leader.json",
    "learning_rate.json",
    "prepared_epoch",
];

/// Other files of a run.
const OTHER: [&str; 4] = ["claim.lock", "cluster_id", JOB_AS_RUN, "run.lock"];

/// Evaluations, which a run adds to or replaces after its first checkpoint.
const EVALUATIONS: [&str; 3] = ["end_request.json", "metrics.jsonl", "result.json"];

/// First part of the names of the folders of evaluations: `eval`, `eval_train`, `eval_` with the name of an `[[evaluation]]`.
const EVALUATION: &str = "eval";

/// Folders of a run, and files in folders that it shares with others.
const WITHIN: [&str; 7] = [
    "eval/end_request.json",
    "eval/evaluator.json",
    "eval/metrics.jsonl",
    "eval/result.json",
    "publish",
    "up",
    "wal",
];

/// First part of the names of checkpoints.
const CHECKPOINT: &str = "model.ckpt-";

/// Returns whether a path within a model directory is of a checkpoint, or another file of the run.
pub fn is_of_run(within: &Path) -> bool {
    let first = within.iter().next().unwrap_or_default().to_string_lossy();
    let file = REPLACED.iter().chain(&OTHER);
    first.starts_with(CHECKPOINT)
        || file.map(Path::new).any(|name| name == within)
        || WITHIN.iter().any(|name| within.starts_with(name))
}

/// Checks that no file of others has a name that a run would replace. `model_dir` has no cluster id: no run has used it.
///
/// # Errors
/// [`Error::Foreign`] if there is such a file. The directory cannot be read.
pub(crate) fn refuse_foreign(model_dir: &Path) -> Result<(), Error> {
    let found = files::names(model_dir)?;
    let is_checkpoint = |name: &String| {
        let manifest = model_dir.join(name).join("manifest.json");
        name.starts_with(CHECKPOINT) && files::read(&manifest).is_ok_and(|text| text.is_some())
    };
    if found.iter().any(is_checkpoint) {
        // A copy of checkpoints may lack the cluster id.
        return Ok(());
    }
    let foreign = |path: PathBuf| Err(Error::Foreign { path });
    if let Some(name) = found.iter().find(|name| REPLACED.contains(&name.as_str())) {
        return foreign(model_dir.join(name));
    }
    let is_evaluation = |name: &&String| {
        let behind = name.strip_prefix(EVALUATION);
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with('_'))
    };
    for folder in found.iter().filter(is_evaluation) {
        for name in EVALUATIONS {
            let path = model_dir.join(folder).join(name);
            if files::read(&path).is_ok_and(|text| text.is_some()) {
                return foreign(path);
            }
        }
    }
    Ok(())
}

/// Checks that the file at `path`, if there is one, is of a run: a `T`, or without any text, as a process that dies while it
/// writes leaves it, and a power cut, after which a file may hold zeros in the place of its last bytes. A process that is about to replace it cannot know the cluster id yet.
///
/// # Errors
/// [`Error::Foreign`] if it is neither. The file cannot be read.
pub fn refuse_unless_own<T: DeserializeOwned>(path: &Path) -> Result<(), Error> {
    let text = files::read(path)?.unwrap_or_default();
    if text.iter().all(|byte| *byte == 0) || serde_json::from_slice::<T>(&text).is_ok() {
        return Ok(());
    }
    Err(Error::Foreign {
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EvaluatorMark, RunKind, RunLock, Runner, cluster_id};

    #[test]
    fn files_of_a_run_are_known_by_their_paths() {
        for (name, expected) in [
            ("model.ckpt-7/manifest.json", true),
            ("job.toml", true),
            ("checkpoint", true),
            ("wal/ps-0/1.log", true),
            ("eval/result.json", true),
            ("predictions.csv", false),
            ("eval/job.toml", false),
            ("checkpoint/notes.txt", false),
        ] {
            assert_eq!(is_of_run(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_run_begins_beside_foreign_files_and_never_in_their_place() {
        for name in REPLACED {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join(name);
            std::fs::write(&file, "mine").expect("there is room");
            let refused = cluster_id(folder.path(), 1).expect_err(name);
            assert!(refused.to_string().contains(name), "{refused}");
            assert_eq!(
                std::fs::read(&file).expect("it is there"),
                b"mine",
                "{name}"
            );
            assert!(!folder.path().join("cluster_id").exists(), "{name}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["job.toml", "train.csv", "model.ckpt-9.index", "notes"] {
            std::fs::write(folder.path().join(name), "mine").expect("there is room");
        }
        cluster_id(folder.path(), 1).expect("none of these is replaced");
        // From here on, the names are those of the run.
        std::fs::write(folder.path().join("checkpoint"), "").expect("there is room");
        cluster_id(folder.path(), 2).expect("it is a folder of a run");
    }

    #[test]
    fn a_first_run_replaces_no_evaluation_lock_or_mark_that_is_not_of_a_run() {
        let runner = Runner {
            host: "h".into(),
            process_id: 7,
            started_unix_secs: 9,
        };
        let mark = EvaluatorMark {
            process_id: 7,
            started_unix_secs: 9,
        };
        let begin = |model_dir: &Path| {
            RunLock::take(model_dir, RunKind::Alone, &runner)?;
            mark.write(model_dir)?;
            cluster_id(model_dir, 1)
        };
        for name in [
            "run.lock",
            "eval/evaluator.json",
            "eval/metrics.jsonl",
            "eval/result.json",
            "eval_train/result.json",
            "eval_holdout/metrics.jsonl",
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("there is room");
            std::fs::write(&file, "mine").expect("there is room");
            let removed = EvaluatorMark::remove(folder.path());
            assert_eq!(removed.is_err(), name == "eval/evaluator.json", "{name}");
            let refused = begin(folder.path()).expect_err(name);
            assert!(refused.to_string().contains(name), "{refused}");
            assert_eq!(std::fs::read(&file).expect("there"), b"mine", "{name}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("evaluations")).expect("there is room");
        std::fs::write(folder.path().join("evaluations/result.json"), "mine").expect("room");
        std::fs::write(folder.path().join("run.lock"), [0; 70]).expect("there is room");
        begin(folder.path()).expect("none of these is replaced");
        // From here on, the names are those of the run.
        std::fs::write(folder.path().join("eval/result.json"), "{}").expect("there is room");
        begin(folder.path()).expect("it is a folder of a run");
    }

    #[test]
    fn checkpoints_that_were_copied_without_a_cluster_id_are_no_foreign_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let checkpoint = folder.path().join("model.ckpt-7");
        std::fs::create_dir(&checkpoint).expect("there is room");
        std::fs::write(checkpoint.join("manifest.json"), "{}").expect("there is room");
        std::fs::write(folder.path().join("checkpoint"), "").expect("there is room");
        cluster_id(folder.path(), 1).expect("it continues");
    }
}
