//! The cluster whose checkpoints an evaluator evaluates: the folder of another job may replace the model directory.

use std::path::Path;

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::{ModelDir, known_cluster_id, other_cluster_id};

/// The first cluster id that an evaluator has seen in its model directory; absent before a chief has written one, and in a
/// bucket. A job that is started again keeps its id.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnCluster(Option<u128>);

impl OwnCluster {
    /// Takes the id of the model directory, if none has been seen before; otherwise checks that it is the same. An id that
    /// is not there, or cannot be read now, is neither.
    ///
    /// # Errors
    /// The model directory is that of another cluster.
    pub(crate) fn look(&mut self, model_dir: &Path) -> Result<(), Diagnostic> {
        if self.0.is_none() && !ModelDir::is_bucket(model_dir) {
            self.0 = known_cluster_id(model_dir).ok().flatten();
            return Ok(());
        }
        self.check(model_dir)
    }

    /// Checks that the model directory is not that of another cluster than the one that was seen first.
    ///
    /// # Errors
    /// It is that of another cluster.
    pub(crate) fn check(self, model_dir: &Path) -> Result<(), Diagnostic> {
        let Some((own, found)) = self
            .0
            .and_then(|own| Some((own, other_cluster_id(model_dir, own)?)))
        else {
            return Ok(());
        };
        let message = format!(
            "the model directory {} is that of another cluster: its cluster_id is {found:032x}, and that of the job of this \
             evaluator is {own:032x}",
            model_dir.display()
        );
        Err(Diagnostic::error(Code::E2006, message)
            .note("it was moved or replaced, or its mount is gone: nothing more is evaluated or written in it")
            .help(
                "bring it back, and start the evaluator again; if another job is to be evaluated, start it for that one",
            ))
    }
}

#[cfg(test)]
mod tests {
    use trainyard_model_dir::cluster_id;

    use super::*;

    #[test]
    fn the_first_id_is_taken_and_only_another_one_ends_the_evaluator() {
        let folder = tempfile::tempdir().expect("a folder");
        let model_dir = folder.path().join("m");
        let mut own = OwnCluster::default();
        own.look(&model_dir).expect("there is no chief yet");
        assert_eq!(cluster_id(&model_dir, 7).expect("an id"), 7);
        own.look(&model_dir).expect("it is taken");
        assert_eq!(cluster_id(&model_dir, 9).expect("an id"), 7);
        own.look(&model_dir)
            .expect("the job that starts again keeps it");

        let path = model_dir.join("cluster_id");
        std::fs::write(&path, "").expect("there is room");
        own.look(&model_dir).expect("it holds no id for a moment");
        std::fs::remove_file(&path).expect("removed");
        own.look(&model_dir).expect("it was removed");

        assert_eq!(cluster_id(&model_dir, 8).expect("an id"), 8);
        let problem = own.look(&model_dir).expect_err("it is another one");
        assert_eq!(problem.code, Code::E2006);
        let message = &problem.message;
        for told in [
            model_dir.display().to_string(),
            format!("{:032x}", 7),
            format!("{:032x}", 8),
        ] {
            assert!(message.contains(&told), "{told}: {message}");
        }
        own.check(&model_dir).expect_err("it stays another one");
    }
}
