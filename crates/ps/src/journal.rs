//! The journal of a server's store: its changes in a log.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trainyard_checkpoint::{Checkpoint, list};
use trainyard_parameter_store::{Change, Journal, Standing, Take};
use trainyard_protocol::v1;
use trainyard_write_ahead_log::{Error, Log, Origin};

use crate::record::{self, Head};

/// What the heads of segments say besides the store's standing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    /// What the store was prepared with.
    pub(crate) prepare: v1::PrepareRequest,
    /// For which it is claimed.
    pub(crate) epoch: u64,
    /// Whether workers have been let in.
    pub(crate) open: bool,
    /// How often it was brought back.
    pub(crate) restarts: u64,
    /// Epoch in which it was prepared; 0 = it was not.
    pub(crate) memory: u64,
    /// Segments that begin with a checkpoint of which it is not known whether it was committed: number, version.
    pub(crate) cuts: Vec<(u64, u64)>,
}

/// Writes a store's changes into a log.
#[derive(Debug)]
pub(crate) struct LogJournal {
    log: Arc<Log>,
    owner: Mutex<u128>,
    member: u32,
    course: Arc<Mutex<Course>>,
    /// The request that the store is being prepared with.
    staged: Mutex<v1::PrepareRequest>,
}

/// Nothing that holds one of these locks panics half-way through a change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogJournal {
    /// Returns the journal of server `member` in a log that has come to `course`.
    pub(crate) fn new(log: Log, owner: u128, member: usize, course: Course) -> Self {
        Self {
            log: Arc::new(log),
            owner: Mutex::new(owner),
            member: member as u32,
            course: Arc::new(Mutex::new(course)),
            staged: Mutex::default(),
        }
    }

    /// Takes note of what the store is about to be prepared with.
    pub(crate) fn stage(&self, owner: u128, prepare: v1::PrepareRequest) {
        *locked(&self.owner) = owner;
        *locked(&self.staged) = prepare;
    }

    /// Writes that the server was brought back, and how often.
    pub(crate) fn restarted(&self) -> u64 {
        let mut course = locked(&self.course);
        course.restarts += 1;
        self.log.add(record::of_restart(course.restarts));
        course.restarts
    }

    /// Waits until everything that the store has told so far is safe.
    pub(crate) async fn settle(&self) -> Result<(), Error> {
        self.log.settle(self.log.end()).await
    }

    /// Returns why nothing can be made safe any more.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.log.failure()
    }

    /// Returns the fingerprint of the settings that the store was prepared with.
    pub(crate) fn settings(&self) -> u64 {
        locked(&self.course).prepare.settings
    }

    /// Returns the bytes of the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// Removes the log: the job is over.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        locked(&self.course).memory = 0;
        self.log.clear()
    }

    /// Removes what no checkpoint needs that has been committed. Returns the bytes that were.
    pub(crate) fn retire(&self, model_dir: &Path) -> Result<u64, Error> {
        let (prepare, memory, cuts) = {
            let course = locked(&self.course);
            (course.prepare.clone(), course.memory, course.cuts.clone())
        };
        let found = cuts.iter().rev().find(|(_, version)| {
            committed(model_dir, prepare.place as usize, prepare.num_ps as usize, memory, *version).is_some()
        });
        let Some(&(segment, _)) = found else { return Ok(0) };
        let before = self.log.bytes();
        locked(&self.course).cuts.retain(|(number, _)| *number > segment);
        self.log.retire(segment)?;
        Ok(before.saturating_sub(self.log.bytes()))
    }

    /// Returns whether it waits for a checkpoint to be committed.
    pub(crate) fn waits_for_checkpoint(&self) -> bool {
        !locked(&self.course).cuts.is_empty()
    }

    fn origin(&self, memory: u64) -> Origin {
        Origin { owner: *locked(&self.owner), member: self.member, memory }
    }
}

/// Finds the committed checkpoint that holds a server's store at a version. Epochs before `memory` wrote those of other
/// values. Of two that were cut at the same version, either will do: they differ in how long rows of dynamic tables have
/// been idle, by the time in which nothing was pushed.
pub(crate) fn committed(
    model_dir: &Path,
    place: usize,
    num_ps: usize,
    memory: u64,
    version: u64,
) -> Option<PathBuf> {
    let found = list(model_dir).unwrap_or_default();
    let since = found.into_iter().rev().take_while(|found| found.epoch >= memory);
    let holds = |path: &PathBuf| {
        Checkpoint::open(path).is_ok_and(|checkpoint| {
            let manifest = checkpoint.manifest();
            manifest.num_ps == num_ps
                && manifest.shards.iter().any(|shard| shard.ps == place && shard.version == version)
        })
    };
    since.map(|found| found.path).find(holds)
}

impl Journal for LogJournal {
    fn draw_up(&self, change: &Change<'_>) -> Take {
        let (log, entry) = (Arc::clone(&self.log), record::of_change(change));
        let course = match change {
            Change::Claim { epoch } => Some((*epoch, false)),
            Change::Open => Some((0, true)),
            _ => None,
        };
        match course {
            None => Box::new(move |version| log.add(entry.numbered(version))),
            Some((epoch, open)) => {
                let course = Arc::clone(&self.course);
                Box::new(move |version| {
                    let mut course = locked(&course);
                    course.epoch = course.epoch.max(epoch);
                    course.open |= open;
                    log.add(entry.numbered(version));
                })
            }
        }
    }

    fn begin(&self, memory: u64, standing: Standing) {
        let mut course = locked(&self.course);
        let prepare = locked(&self.staged).clone();
        *course = Course { prepare, epoch: memory, memory, ..Course::default() };
        let Course { prepare, epoch, open, restarts, .. } = &*course;
        let (epoch, open, restarts, standing) = (*epoch, *open, *restarts, &standing);
        let entries =
            record::of_head(&Head { prepare, epoch, open, restarts, prepared_only: true, standing });
        self.log.begin(self.origin(memory), entries, true);
    }

    fn cut(&self, standing: Standing) {
        let mut course = locked(&self.course);
        if course.memory == 0 {
            return;
        }
        let Course { prepare, epoch, open, restarts, memory, .. } = &*course;
        let (epoch, open, restarts, standing) = (*epoch, *open, *restarts, &standing);
        let entries =
            record::of_head(&Head { prepare, epoch, open, restarts, prepared_only: false, standing });
        let number = self.log.begin(self.origin(*memory), entries, false);
        course.cuts.push((number, standing.version));
    }
}
