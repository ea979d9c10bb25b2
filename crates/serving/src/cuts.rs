//! Published cuts of a model: a base is read, and increments are applied to it in memory.
//!
//! Each cut becomes a predictor of its own beside the one that answers, so rows and dense values of a cut are shown together.
//! A cut that cannot be read leaves the one before, until the next base. Numbers of cuts only rise.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use trainyard_checkpoint::{
    Checkpoint, CutKind, Manifest, Origin, PublishedCut, continues, is_committed, kind_of,
    published_cuts, snapshot_names, stands_for,
};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_predictor::Predictor;

use crate::built_job::BuiltJob;

#[cfg(test)]
mod tests;

/// Time without a new cut after which a newer checkpoint answers.
const FRESH_FOR: Duration = Duration::from_secs(30);

/// The cuts of a model that have been read.
#[derive(Default)]
pub(crate) struct Cuts {
    /// The latest cut; absent before the first base.
    latest: Option<Cut>,
    /// The highest number of a cut that was read, or could not be.
    number: u64,
    /// A cut is missing or damaged: the next base is awaited.
    is_broken: bool,
    /// Time at which the latest cut was read; absent if it was old then.
    at: Option<Instant>,
}

/// A cut in memory.
#[derive(Clone)]
pub(crate) struct Cut {
    /// Term of the chief that published it.
    pub(crate) epoch: u64,
    /// Global step.
    pub(crate) step: u64,
    /// Time at which it was written.
    pub(crate) written: SystemTime,
    /// Time that reading took.
    pub(crate) took: Duration,
    pub(crate) predictor: Arc<Predictor>,
    /// The job that trained it.
    pub(crate) built: Arc<BuiltJob>,
    /// Snapshots of the servers, by which the next increment continues it.
    snapshots: Vec<Option<String>>,
}

/// Returns the job that trained the values of a manifest.
pub(crate) type JobOf<'a> = dyn FnMut(&Manifest) -> Result<Arc<BuiltJob>, Diagnostic> + 'a;

/// What came of reading a cut.
enum Read {
    /// The values of the cut.
    Values(Cut),
    /// The cut is a base that stands for the latest cut, whose values are held. Its files were not read.
    Held,
    /// The cut is an increment that does not continue the latest cut.
    Apart,
}

impl Cuts {
    /// Returns whether a cut has been read lately.
    pub(crate) fn are_fresh(&self) -> bool {
        self.at.is_some_and(|at| at.elapsed() < FRESH_FOR)
    }

    /// Reads the cuts that have been published since the last look. Returns the newest one, if there is a new one.
    ///
    /// # Errors
    /// A cut is damaged, cannot be read, or was trained by another job. Those before it have been read.
    pub(crate) fn look(
        &mut self,
        model_dir: &Path,
        job_of: &mut JobOf<'_>,
    ) -> Result<Option<Cut>, Diagnostic> {
        let mut cuts = published_cuts(model_dir, self.number)?;
        if self.latest.is_none() || self.is_broken {
            // What comes before the newest base is not needed.
            let base = cuts.iter().rposition(|cut| cut.kind == CutKind::Base);
            cuts.drain(..base.unwrap_or(0));
        }
        let mut newest = None;
        for (place, cut) in cuts.iter().enumerate() {
            let is_last = place + 1 == cuts.len();
            match self.read(cut, job_of) {
                Ok(Read::Values(read)) => {
                    self.number = cut.number;
                    self.is_broken = false;
                    let age = read.written.elapsed().unwrap_or_default();
                    self.at = (age < FRESH_FOR).then(Instant::now);
                    self.latest = Some(read.clone());
                    newest = Some(read);
                }
                Ok(Read::Held) => {
                    self.number = cut.number;
                    self.is_broken = false;
                }
                Ok(Read::Apart) => {
                    self.number = cut.number;
                    self.is_broken = true;
                }
                Err(problem) => match is_committed(&cut.path) {
                    // It is being written, was abandoned, or was removed because newer ones are there.
                    Ok(false) if is_last => break,
                    Ok(false) => self.number = cut.number,
                    Ok(true) if newest.is_none() && is_damage(&problem) => {
                        self.number = cut.number;
                        self.is_broken = true;
                        return Err(problem);
                    }
                    Ok(true) if is_damage(&problem) => {
                        // The cuts before it are shown first. The next look meets it again.
                        break;
                    }
                    _ if newest.is_some() => break,
                    _ => return Err(problem),
                },
            }
        }
        Ok(newest)
    }

    /// Reads a cut.
    fn read(&self, cut: &PublishedCut, job_of: &mut JobOf<'_>) -> Result<Read, Diagnostic> {
        let began = Instant::now();
        let manifest = cut.manifest()?;
        let built = job_of(&manifest)?;
        // The values of a cut are those of the latest one, but the model that predicts with them is another.
        let latest = self.latest.as_ref();
        let latest = latest.filter(|latest| Arc::ptr_eq(&latest.built, &built));
        if cut.kind == CutKind::Base
            && let Some(latest) = latest
            && stands_for(&manifest, &latest.snapshots)
        {
            return Ok(Read::Held);
        }
        let opened = Checkpoint::open_cut(&cut.path)?;
        let manifest = opened.manifest().clone();
        let predictor = match (kind_of(&manifest), latest) {
            (Some(CutKind::Base), _) => {
                let origin = Origin::Own(Arc::new(opened));
                Predictor::open(&origin, Arc::clone(&built.model))?
            }
            (Some(CutKind::Increment), Some(latest)) if continues(&manifest, &latest.snapshots) => {
                latest.predictor.after(&opened)?
            }
            _ => return Ok(Read::Apart),
        };
        Ok(Read::Values(Cut {
            epoch: manifest.cluster_epoch,
            step: manifest.global_step,
            written: SystemTime::UNIX_EPOCH + Duration::from_secs(manifest.created_unix_secs),
            took: began.elapsed(),
            predictor: Arc::new(predictor),
            built,
            snapshots: snapshot_names(&manifest),
        }))
    }
}

/// Returns whether a cut is damaged or of another model. Otherwise the store is away, and comes back.
fn is_damage(problem: &Diagnostic) -> bool {
    [Code::E3001, Code::E3002, Code::E9001].contains(&problem.code)
}
