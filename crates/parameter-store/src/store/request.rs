//! What the store is asked, and what it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use trainyard_cluster_spec::Task;
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Access, DynamicRows, FirstRows, Slice, VariableSpec};

use crate::{
    BatchId, Contribution, DynamicStatus, Guard, Held, Rejection, Selection, ShardPosition, Ticket,
    Update,
};

/// What a parameter server is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// It holds no variables.
    #[default]
    Empty,
    /// Its variables are being made, or restored.
    Preparing,
    /// It holds variables and lets no worker in.
    Prepared,
    /// It trains.
    Open,
    /// It was told to stop, and serves until the chief has a last checkpoint.
    Draining,
    /// The job has ended.
    Finished,
}

/// How far a store has come with its variables, while it is being prepared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of values and slots that are there.
    pub done_bytes: u64,
    /// Bytes of all of them, but for dynamic tables, which a checkpoint alone knows.
    pub total_bytes: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        write!(
            formatter,
            "{:.1} of {:.1} GB",
            gigabytes(self.done_bytes),
            gigabytes(self.total_bytes)
        )
    }
}

/// What a parameter server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// Cluster that claimed it.
    pub cluster_id: Option<u128>,
    /// Epoch that claimed it; 0 = none.
    pub epoch: u64,
    /// What it remembers, named by the epoch in which it was prepared; 0 = nothing. Another number means that its
    /// values are not those that it had.
    pub memory: u64,
    /// Fingerprint of the prepared layout.
    pub layout_fingerprint: u64,
    /// Pushes applied.
    pub version: u64,
    /// Pushes that the latest committed checkpoint holds; absent = none is known.
    pub saved_version: Option<u64>,
    /// Steps applied; counted on one server only.
    pub global_step: u64,
    /// Bytes of values and slots.
    pub value_bytes: u64,
    /// How far it has come, while it is being prepared.
    pub progress: Progress,
    /// Slot that the latest synchronous step waited for longest.
    pub slowest_slot: Option<u32>,
    /// Its slices of dynamic tables; not told on the wire.
    pub dynamic: Vec<DynamicStatus>,
    /// Open sessions some of whose latest pushes were refused.
    pub rejections: Vec<Rejections>,
    /// Bytes held in memory; not told on the wire.
    pub held: Held,
    /// Most bytes that may be; not told on the wire.
    pub memory_max: Option<u64>,
}

/// A session some of whose latest pushes were refused for their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejections {
    /// Its task.
    pub task: Task,
    /// Its number.
    pub session: u64,
    /// How many of its latest 64 pushes.
    pub recent: u32,
    /// The batches of the last of them.
    pub latest: Vec<BatchId>,
}

/// A chief's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The cluster.
    pub cluster_id: u128,
    /// The chief's epoch.
    pub epoch: u64,
}

/// Rows of a dynamic table, some at a time.
pub type Lots<'a> = Box<dyn Iterator<Item = Result<DynamicRows, String>> + 'a>;

/// Where restored values come from.
pub trait TensorSource: Sync {
    /// Reads `rows` of a variable, or of one of its slots, into `out`: those too that have their first values.
    ///
    /// # Errors
    /// Says what is missing or damaged, and in which file.
    fn read(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String>;

    /// Returns which of `rows` it holds, ascending. The others have their first values.
    ///
    /// # Errors
    /// Says what is missing or damaged, and in which file.
    fn held(&self, variable: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String>;

    /// Reads those of `rows` that it holds, one behind the other, into `out`.
    ///
    /// # Errors
    /// Says what is missing or damaged, and in which file.
    fn read_held(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String>;

    /// Returns what decides the first values of the rows, or ids, that it does not hold; nothing where it holds all, or does
    /// not say.
    fn first_rows(&self, variable: &str) -> Option<FirstRows>;

    /// Reads the rows of a dynamic table whose ids lie in `ids`, with these slots, some at a time.
    ///
    /// # Errors
    /// Says what is missing or damaged, and in which file.
    fn read_dynamic<'a>(
        &'a self,
        variable: &'a str,
        slots: &'a [&'a str],
        ids: Range<u128>,
    ) -> Result<Lots<'a>, String>;

    /// Returns how many reads it answers side by side: more than there are cores, where each takes long for its way.
    fn reads_at_once(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Says whether what was read is what was written, once everything was read.
    ///
    /// # Errors
    /// Says what is damaged, and in which file.
    fn check_read(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Values and counters to start from.
pub struct Restore<'a> {
    /// Values and slots.
    pub source: &'a dyn TensorSource,
    /// Pushes applied.
    pub version: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Data applied.
    pub positions: Vec<ShardPosition>,
}

impl fmt::Debug for Restore<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "Restore {{ version: {}, global_step: {} }}",
            self.version, self.global_step
        )
    }
}

/// First values that another run's checkpoint gives.
pub struct FirstValues<'a> {
    /// The checkpoint.
    pub source: &'a dyn TensorSource,
    /// Name there, by variable.
    pub names: BTreeMap<String, String>,
}

impl fmt::Debug for FirstValues<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FirstValues {{ names: {:?} }}", self.names)
    }
}

/// What a store is to hold.
#[derive(Debug)]
pub struct Prepare<'a> {
    /// All variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Slices of this store, by number.
    pub slices: Vec<(u32, Slice)>,
    /// Update rules, by group.
    pub optimizers: BTreeMap<String, OptimizerConfig>,
    /// Seed of first values.
    pub seed: u64,
    /// Fingerprint of the layout that the slices belong to.
    pub layout_fingerprint: u64,
    /// Whether steps are counted here, and the right to push them is given: on one server of a job.
    pub counts_steps: bool,
    /// Last global step; 0 = no bound.
    pub global_step_max: u64,
    /// When pushes take effect.
    pub update: Update,
    /// What values they may hold.
    pub guard: Guard,
    /// Stores that take a synchronous step together; an only one is never behind another.
    pub stores: usize,
    /// Values to start from; absent = first values.
    pub restore: Option<Restore<'a>>,
    /// First values of some variables; the others' are drawn.
    pub first_values: Option<FirstValues<'a>>,
}

impl<'a> Prepare<'a> {
    /// Returns the bytes of all slices that are held from the beginning, with their slots: not those of tables, which grow with
    /// the rows that are changed.
    pub(super) fn dense_bytes(&self) -> u64 {
        let bytes = |(_, slice): &(u32, Slice)| {
            let spec = self.variables.get(slice.variable)?;
            let rule = self.optimizers.get(&spec.optimizer_group)?;
            let grows = spec.dynamic().is_some() || holds_changed_rows(spec, rule);
            (!grows).then(|| (slice.len() * (1 + rule.slots().len()) * 4) as u64)
        };
        self.slices.iter().filter_map(bytes).sum()
    }

    /// Returns the checkpoint that gives a variable its first values, and the variable's name there.
    pub(super) fn given(&self, variable: &str) -> Option<(&'a dyn TensorSource, &str)> {
        let first = self.first_values.as_ref()?;
        Some((first.source, first.names.get(variable)?))
    }
}

/// Whether of a variable those rows alone are held that have been changed. Of a rule that moves all rows at each step every
/// row is changed; what is read whole is to lie as it is read.
pub(super) fn holds_changed_rows(spec: &VariableSpec, rule: &OptimizerConfig) -> bool {
    spec.access == Access::Rows && !rule.moves_all_rows() && spec.width() > 0
}

/// Answer to the start of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Pushes, or synchronous steps, applied.
    pub version: u64,
    /// The first batch of the data shard that has not been applied.
    pub batches_applied: u64,
}

/// A read.
#[derive(Debug, Clone, Default)]
pub struct Pull {
    /// What is read.
    pub selection: Arc<Selection>,
    /// For each whole slice, the count of updates that the reader's values of it stand for: a slice that still has
    /// this count is not read again. 0 = the reader has none; missing ones count as 0.
    pub known: Vec<u64>,
    /// Whether the right to push a step is asked for.
    pub reserve_step: bool,
    /// Version that the values must have at least; 0 = any will do.
    pub at_least: u64,
    /// Whether the values of that very version are wanted, although the step after it has been applied here: of a
    /// synchronous step that is not complete on all servers.
    pub or_before: bool,
    /// Whether other stores have applied the batch of the step: the right to push it is given behind the last step, too.
    pub half_applied: bool,
}

/// Answer to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Pushes that the values hold.
    pub version: u64,
    /// Pushes applied: one more, where the values before the latest synchronous step were wanted.
    pub reached: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Answer to `reserve_step`; granted where none was asked for. Where it is not, nothing is read.
    pub ticket: Ticket,
    /// Steps that the reader is ahead of the slowest live task, under stale-synchronous updates.
    pub lead: u64,
    /// Of each whole slice, the count of updates that the values which are read stand for, at least.
    pub updates: Vec<u64>,
}

/// One step's gradients for one store.
#[derive(Debug)]
pub struct Push<'a, G: ?Sized> {
    /// The batch they were computed from, or the first of several.
    pub batch: BatchId,
    /// Batches that they are of, one behind the other; at least 1.
    pub batches: u32,
    /// Version that was pulled.
    pub pulled_version: u64,
    /// Its place in its step, under synchronous updates.
    pub contribution: Option<Contribution>,
    /// What is updated; absent = what the pull of this step's `seq` read.
    pub selection: Option<Arc<Selection>>,
    /// Gradients, in the order of the selection.
    pub gradients: &'a G,
    /// Why the worker has refused its own gradients, if it has: they are not looked at.
    pub rejected: Option<Rejection>,
}

/// Answer to a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// Whether it had been applied before; then nothing changed.
    pub duplicate: bool,
    /// Whether it came too late for its synchronous step, which another's push of the same batch has completed; then
    /// nothing changed.
    pub stale: bool,
    /// Pushes applied.
    pub version: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Pushes applied between the pull and this one.
    pub staleness: u64,
    /// Why its values were refused, now or when it came before: nothing changed but that its batch is done with.
    pub rejected: Option<Rejection>,
}
