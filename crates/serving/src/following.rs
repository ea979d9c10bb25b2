//! The state of a loader: which values answer, and which ones may follow them. Answers do not go back while a job trains.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trainyard_checkpoint::{Found, Origin};
use trainyard_diagnostic::{Code, Diagnostic};

use crate::built_job::FollowedJob;
use crate::cuts::Cuts;

/// State of a loader that follows its model.
#[derive(Default)]
pub(crate) struct Following {
    /// Job and model of the values that answer.
    pub(crate) job: FollowedJob,
    /// The values of a checkpoint or cut that answer.
    pub(crate) current: Option<Current>,
    /// The versions with labels have been loaded, or cannot be.
    pub(crate) has_labelled: bool,
    /// The published cuts.
    pub(crate) cuts: Cuts,
    /// The export that answers.
    pub(crate) export: Option<PathBuf>,
    /// The checkpoint or export that was refused last, which is not tried again.
    pub(crate) refused: Option<PathBuf>,
    /// When the next version is read, and how long the last one took to read.
    pub(crate) turns: Turns,
    /// An export that answers, and whose checksums have not been compared yet.
    pub(crate) unverified: Option<Unverified>,
    /// Training has gone back behind the version that answers, which was logged.
    pub(crate) is_ahead: bool,
    /// The last look has found no version where there was one.
    pub(crate) is_lost: bool,
    /// The last problem that was logged.
    pub(crate) told: Option<String>,
}

/// A new version is read within so many times the time that the last one took, at a moment that each server draws.
const SPREAD: f64 = 4.0;

/// The turns of a server to read versions. All servers of a model see a new version at the same time. Each reads it at
/// another moment, so that they are not all slow at once, and at the peak of their memory.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    took: Option<Duration>,
    next: Option<Instant>,
}

impl Turns {
    /// Returns whether a version that is there now is read now. `draw` gives a number from 0 to 1.
    pub(crate) fn has_come(&mut self, now: Instant, draw: impl FnOnce() -> f64) -> bool {
        let Some(took) = self.took else { return true };
        let next = *self
            .next
            .get_or_insert_with(|| now + took.mul_f64(SPREAD * draw()));
        now >= next
    }

    /// Notes how long a version took to read.
    pub(crate) fn read(&mut self, took: Duration) {
        *self = Self {
            took: Some(took),
            next: None,
        };
    }
}

/// An export that answers already.
pub(crate) struct Unverified {
    pub(crate) version: u64,
    pub(crate) path: PathBuf,
    pub(crate) origin: Arc<Origin>,
}

/// The values of a checkpoint or cut that answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Current {
    /// Term of the chief that wrote them.
    pub(crate) epoch: u64,
    /// Global step.
    pub(crate) step: u64,
    pub(crate) source: Source,
}

/// Files from which values were read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Checkpoint,
    PublishedCut,
    Export,
}

/// State of the training of a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Training {
    /// It goes on, or may go on.
    GoesOn,
    HasEnded,
}

/// What a look has seen in the folder of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    NoFolder,
    /// The folder is there, and holds no version.
    NoVersion,
    Versions,
}

/// What is not there any more of a model of which a version was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    Folder,
    Versions,
}

impl Loss {
    /// Returns the problem that the look reports.
    pub(crate) fn problem(self, folder: &Path) -> Diagnostic {
        let shown = folder.display();
        let problem = match self {
            Self::Folder => {
                Diagnostic::error(Code::E1201, format!("{shown} does not exist any more"))
            }
            Self::Versions => {
                let message =
                    format!("{shown} holds no checkpoint, published cut or export any more");
                Diagnostic::error(Code::E3004, message)
            }
        };
        problem.help("mount its volume again or restore the folder: the server goes on looking")
    }
}

impl Following {
    /// Returns what of the model is not there any more. Before the first version was loaded, the server waits for it, and
    /// `see` is not called.
    ///
    /// # Errors
    /// Those of `see`.
    pub(crate) fn loss<E>(
        &mut self,
        see: impl FnOnce() -> Result<Sight, E>,
    ) -> Result<Option<Loss>, E> {
        if self.current.is_none() && self.export.is_none() {
            return Ok(None);
        }
        let loss = match see()? {
            Sight::NoFolder => Loss::Folder,
            Sight::NoVersion => Loss::Versions,
            Sight::Versions => return Ok(None),
        };
        self.is_lost = true;
        Ok(Some(loss))
    }

    /// Returns whether versions that were lost are there again, after a look that has lost none. It is told once.
    pub(crate) fn found_again(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    /// Returns whether a cut answers instead of the present values. Servers that were restored from a checkpoint publish
    /// lower steps in a later term, and answers do not go back.
    pub(crate) fn takes_cut(&self, step: u64) -> bool {
        self.current.is_none_or(|current| current.step <= step)
    }

    /// Returns whether a checkpoint answers instead of the present values. The last checkpoint of a job that has ended may
    /// be of a lower step: that of the best evaluation.
    pub(crate) fn takes_checkpoint(&self, found: &Found, training: Training) -> bool {
        let Some(current) = self.current else {
            return true;
        };
        let present = (current.epoch, current.step);
        let identity = (found.epoch, found.step);
        match (current.source, training) {
            (Source::PublishedCut, Training::HasEnded) => true,
            (Source::PublishedCut, Training::GoesOn) => current.step < found.step,
            (_, Training::HasEnded) => present != identity,
            (_, Training::GoesOn) => present < identity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(epoch: u64, step: u64, source: Source) -> Following {
        Following {
            current: Some(Current {
                epoch,
                step,
                source,
            }),
            ..Following::default()
        }
    }

    fn checkpoint(epoch: u64, step: u64) -> Found {
        Found {
            step,
            epoch,
            path: PathBuf::new(),
        }
    }

    #[test]
    fn a_server_reads_its_first_version_at_once_and_each_further_one_when_its_drawn_turn_comes() {
        let mut turns = Turns::default();
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert!(turns.has_come(begun, || 1.0));
        turns.read(Duration::from_secs(2));
        assert!(!turns.has_come(after(10), || 0.5));
        assert!(!turns.has_come(after(13), || 0.0), "one draw a version");
        assert!(turns.has_come(after(14), || 1.0));
        turns.read(Duration::from_secs(1));
        assert!(turns.has_come(after(20), || 0.0));
    }

    #[test]
    fn a_folder_is_lost_only_after_a_version_was_loaded_and_is_found_once() {
        let see = |following: &mut Following, sight| {
            let loss = following.loss(|| Ok::<_, Diagnostic>(sight));
            loss.expect("it is seen")
        };
        let mut waiting = Following::default();
        for sight in [Sight::NoFolder, Sight::NoVersion, Sight::Versions] {
            assert_eq!(see(&mut waiting, sight), None, "it waits for a version");
        }
        assert!(!waiting.found_again());
        let exports = Following {
            export: Some(PathBuf::from("export/1")),
            ..Following::default()
        };
        for mut following in [answering(1, 500, Source::Checkpoint), exports] {
            assert_eq!(see(&mut following, Sight::Versions), None);
            assert!(!following.found_again(), "it was never lost");
            for _ in 0..2 {
                let folder = see(&mut following, Sight::NoFolder);
                assert_eq!(folder, Some(Loss::Folder));
                let versions = see(&mut following, Sight::NoVersion);
                assert_eq!(versions, Some(Loss::Versions), "each look fails");
            }
            assert!(following.loss(|| Err("away")).is_err());
            assert_eq!(see(&mut following, Sight::Versions), None);
            assert!(following.found_again());
            assert!(!following.found_again(), "it is told once");
        }
    }

    #[test]
    fn cuts_of_servers_that_were_restored_do_not_answer_before_they_have_caught_up() {
        assert!(Following::default().takes_cut(0));
        let following = answering(1, 500, Source::PublishedCut);
        assert!(!following.takes_cut(400));
        assert!(following.takes_cut(500));
        assert!(!following.takes_checkpoint(&checkpoint(2, 450), Training::GoesOn));
        assert!(following.takes_checkpoint(&checkpoint(1, 501), Training::GoesOn));
    }

    #[test]
    fn the_last_checkpoint_of_a_job_that_has_ended_answers_whatever_its_step_is() {
        let following = answering(1, 500, Source::PublishedCut);
        for step in [400, 500] {
            let last = checkpoint(1, step);
            assert!(following.takes_checkpoint(&last, Training::HasEnded));
            assert!(!following.takes_checkpoint(&last, Training::GoesOn));
        }
        let following = answering(1, 400, Source::Checkpoint);
        assert!(!following.takes_checkpoint(&checkpoint(1, 400), Training::HasEnded));
    }

    #[test]
    fn a_checkpoint_of_a_later_term_answers_after_one_of_an_earlier_term() {
        let following = answering(1, 500, Source::Checkpoint);
        assert!(following.takes_checkpoint(&checkpoint(2, 100), Training::GoesOn));
        assert!(!following.takes_checkpoint(&checkpoint(1, 100), Training::GoesOn));
    }
}
