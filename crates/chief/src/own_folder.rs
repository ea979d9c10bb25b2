//! The model directory of a chief: the folder of another job may replace it while the chief runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::warn;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::other_cluster_id;

/// The model directory of a chief. All clones warn once, together.
#[derive(Debug, Clone)]
pub(crate) struct OwnFolder {
    model_dir: PathBuf,
    /// Id of the chief's cluster.
    cluster_id: u128,
    /// The warning that the folder is that of another cluster has been logged.
    is_told: Arc<AtomicBool>,
}

impl OwnFolder {
    pub(crate) fn new(model_dir: &Path, cluster_id: u128) -> Self {
        Self {
            model_dir: model_dir.to_owned(),
            cluster_id,
            is_told: Arc::default(),
        }
    }

    /// Returns whether the chief may write into the folder. Warns the first time that it is that of another cluster; again
    /// if the chief's own folder was back meanwhile.
    pub(crate) fn is_own(&self) -> bool {
        let Err(problem) = self.check("the chief writes nothing into it") else {
            self.is_told.store(false, Ordering::Relaxed);
            return true;
        };
        if !self.is_told.swap(true, Ordering::Relaxed) {
            warn!("{}", problem.log_line());
        }
        false
    }

    /// Checks that the folder is not that of another cluster. `omitted` says what the chief does not do in such a folder.
    ///
    /// # Errors
    /// It is that of another cluster.
    pub(crate) fn check(&self, omitted: &str) -> Result<(), Diagnostic> {
        refuse_other_cluster(&self.model_dir, self.cluster_id, omitted)
    }
}

/// Checks that a model directory is not that of another cluster than `own`. `omitted` says what the chief does not do in
/// such a folder.
///
/// # Errors
/// It is that of another cluster.
pub(crate) fn refuse_other_cluster(
    model_dir: &Path,
    own: u128,
    omitted: &str,
) -> Result<(), Diagnostic> {
    match other_cluster_id(model_dir, own) {
        Some(found) => Err(of_other_cluster(model_dir, own, found, omitted)),
        None => Ok(()),
    }
}

/// Returns the error that a model directory is that of the cluster `found`, and not that of `own`.
pub(crate) fn of_other_cluster(
    model_dir: &Path,
    own: u128,
    found: u128,
    omitted: &str,
) -> Diagnostic {
    let folder = model_dir.display();
    let message = format!("the model directory {folder} is that of another cluster: {omitted}");
    Diagnostic::error(Code::E3003, message)
        .note(format!(
            "its cluster_id is {found:032x}, and that of this job is {own:032x}"
        ))
        .note("it was moved or replaced, or its mount is gone")
        .help("bring it back: the chief tries again")
}

#[cfg(test)]
mod tests {
    use trainyard_model_dir::cluster_id;

    use super::*;

    #[test]
    fn a_chief_writes_into_its_folder_until_that_of_another_cluster_is_in_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let model_dir = folder.path().join("m");
        let id = cluster_id(&model_dir, 7).expect("an id");
        let own = OwnFolder::new(&model_dir, id);
        assert!(own.is_own());
        std::fs::rename(&model_dir, folder.path().join("m.old")).expect("moved");
        assert!(own.is_own(), "a missing folder is not that of others");
        cluster_id(&model_dir, 8).expect("another id");
        assert!(!own.is_own());
        assert!(own.is_told.load(Ordering::Relaxed));
        let problem = own.check("no cut is published into it").expect_err("8");
        let shown = &problem.message;
        assert!(
            shown.contains("is that of another cluster: no cut is published into it"),
            "{shown}"
        );
        let notes = format!("{problem:?}");
        for id in [7, 8] {
            assert!(notes.contains(&format!("{id:032x}")), "{notes}");
        }
        std::fs::remove_file(model_dir.join("cluster_id")).expect("removed");
        assert!(own.is_own(), "without an id, it may be the chief's own");
        assert!(
            !own.is_told.load(Ordering::Relaxed),
            "it is told again later"
        );
    }
}
