//! The requests of the store and its replies.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{
    Access, DynamicRows, FirstRows, Slice, StepNumber, VariableSpec, Version,
};

use crate::{
    DynamicStatus, Guard, Held, Push, Rejection, Rejections, Selection, ShardPosition, Ticket,
    Update,
};

/// The state of a parameter server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// The server holds no variables.
    #[default]
    Empty,
    /// The variables are being initialized or restored.
    Preparing,
    /// The server holds variables and admits no worker.
    Prepared,
    /// Workers may train.
    Open,
    /// The server is to stop, and serves until the chief has a last checkpoint.
    Draining,
    /// The job has ended.
    Finished,
}

/// Progress of a store that is being prepared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of values and slots that are ready.
    pub done_bytes: u64,
    /// Bytes of all values and slots, without dynamic tables, whose size only the checkpoint knows.
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

/// Returns the version of a store with this mode of updates that has counted so many.
pub fn version_of(update: Update, count: u64) -> Version {
    match update {
        Update::Sync => Version::Steps(StepNumber::new(count)),
        Update::Async | Update::StaleSynchronous { .. } => Version::Pushes(count),
    }
}

/// The status of a parameter server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// State of the server.
    pub state: State,
    /// Cluster that claimed it.
    pub cluster_id: Option<u128>,
    /// Term that claimed it; 0 = none.
    pub epoch: u64,
    /// Prepared epoch: the term in which the values were made or restored; 0 = no values. With another number the
    /// values are different ones.
    pub prepared_epoch: u64,
    /// Fingerprint of the prepared layout.
    pub layout_fingerprint: u64,
    /// How often the values have changed.
    pub version: Version,
    /// Count of the version that the latest committed checkpoint holds; absent = unknown.
    pub saved_version: Option<u64>,
    /// Steps applied; counted on one server only.
    pub global_step: u64,
    /// Bytes of values and slots.
    pub value_bytes: u64,
    /// Progress of preparing.
    pub progress: Progress,
    /// Lane for which the latest synchronous step waited longest.
    pub slowest_lane: Option<u32>,
    /// Slices of dynamic tables; not sent on the wire.
    pub dynamic: Vec<DynamicStatus>,
    /// Open sessions with rejected pushes among their latest ones.
    pub rejections: Vec<Rejections>,
    /// Bytes held in memory; not sent on the wire.
    pub held: Held,
    /// Most bytes that may be held; not sent on the wire.
    pub memory_max: Option<u64>,
}

/// A chief's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The cluster.
    pub cluster_id: u128,
    /// Term of the chief.
    pub epoch: u64,
}

/// Rows of a dynamic table, in lots.
pub type Lots<'a> = Box<dyn Iterator<Item = Result<DynamicRows, String>> + 'a>;

/// Source of the values to restore.
pub trait TensorSource: Sync {
    /// Reads `rows` of a variable, or of one of its slots, into `out`, including rows that have their initial values.
    ///
    /// # Errors
    /// Something is missing or damaged. The message names it and the file.
    fn read(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String>;

    /// Returns which of `rows` the source holds, ascending. The others have their initial values.
    ///
    /// # Errors
    /// Something is missing or damaged. The message names it and the file.
    fn held(&self, variable: &str, rows: Range<usize>) -> Result<Vec<Range<usize>>, String>;

    /// Reads those of `rows` that the source holds, one after the other, into `out`.
    ///
    /// # Errors
    /// Something is missing or damaged. The message names it and the file.
    fn read_held(
        &self,
        variable: &str,
        slot: Option<&str>,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), String>;

    /// Returns the rule for the initial values of the rows, or ids, that the source does not hold. `None` if it holds
    /// all of them, or does not know the rule.
    fn first_rows(&self, variable: &str) -> Option<FirstRows>;

    /// Reads the rows of a dynamic table whose ids lie in `ids`, with these slots, in lots.
    ///
    /// # Errors
    /// Something is missing or damaged. The message names it and the file.
    fn read_dynamic<'a>(
        &'a self,
        variable: &'a str,
        slots: &'a [&'a str],
        ids: Range<u128>,
    ) -> Result<Lots<'a>, String>;

    /// Returns how many reads the source serves in parallel: more than the number of cores if each has a high latency.
    fn reads_at_once(&self) -> usize {
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    /// Checks, after everything has been read, that what was read is what was written.
    ///
    /// # Errors
    /// Something is damaged. The message names it and the file.
    fn check_read(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Values and counters to restore.
pub struct Restore<'a> {
    /// Values and slots.
    pub source: &'a dyn TensorSource,
    /// How often the values have changed, in the unit in which the store counts from now on.
    pub version: Version,
    /// Steps applied.
    pub global_step: u64,
    /// Positions of the data shards.
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

/// Initial values from the checkpoint of another run.
pub struct FirstValues<'a> {
    /// The checkpoint.
    pub source: &'a dyn TensorSource,
    /// Name in the checkpoint, by variable.
    pub names: BTreeMap<String, String>,
}

impl fmt::Debug for FirstValues<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FirstValues {{ names: {:?} }}", self.names)
    }
}

/// The contents to prepare a store with.
#[derive(Debug)]
pub struct Prepare<'a> {
    /// All variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Slices of this store, by number.
    pub slices: Vec<(u32, Slice)>,
    /// Update rules, by group.
    pub optimizers: BTreeMap<String, OptimizerConfig>,
    /// Seed of the initial values.
    pub seed: u64,
    /// Fingerprint of the layout that the slices belong to.
    pub layout_fingerprint: u64,
    /// This server counts steps and grants tickets. One server of a job does.
    pub counts_steps: bool,
    /// Last global step; 0 = no bound.
    pub global_step_max: u64,
    /// Mode of the updates.
    pub update: Update,
    /// Bounds that gradients must keep.
    pub guard: Guard,
    /// Number of stores that apply a synchronous step together. A single store is never behind another.
    pub stores: usize,
    /// Values to start from; absent = initial values.
    pub restore: Option<Restore<'a>>,
    /// Given initial values of some variables. Those of other variables are drawn.
    pub first_values: Option<FirstValues<'a>>,
}

impl<'a> Prepare<'a> {
    /// Returns the bytes of all slices that are held from the beginning, with their slots. Tables that grow with their
    /// changed rows are not included.
    pub(super) fn dense_bytes(&self) -> u64 {
        let bytes = |(_, slice): &(u32, Slice)| {
            let spec = self.variables.get(slice.variable)?;
            let rule = self.optimizers.get(&spec.optimizer_group)?;
            let grows = spec.dynamic().is_some() || holds_changed_rows(spec, rule);
            (!grows).then(|| (slice.len() * (1 + rule.slots().len()) * 4) as u64)
        };
        self.slices.iter().filter_map(bytes).sum()
    }

    /// Returns the checkpoint that gives a variable its initial values, and the variable's name in the checkpoint.
    pub(super) fn given(&self, variable: &str) -> Option<(&'a dyn TensorSource, &str)> {
        let first = self.first_values.as_ref()?;
        Some((first.source, first.names.get(variable)?))
    }
}

/// Returns whether only the changed rows of a variable are held. A rule that changes all rows at each step leaves none
/// unchanged. A variable that is read as a whole is stored as it is read.
pub(super) fn holds_changed_rows(spec: &VariableSpec, rule: &OptimizerConfig) -> bool {
    spec.access == Access::Rows && !rule.moves_all_rows() && spec.width() > 0
}

/// A request to open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSession {
    /// Sequence number before that of the first step; 0 for a new session.
    pub seq: u64,
    /// Fingerprint of the layout that the task has computed.
    pub layout_fingerprint: u64,
    /// Data shard that the task reads.
    pub data_shard: u64,
}

/// Reply to the opening of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Pushes, or synchronous steps, applied.
    pub version: u64,
    /// The first batch of the data shard that has not been applied.
    pub batches_applied: u64,
}

/// A pull.
#[derive(Debug, Clone, Default)]
pub struct Pull {
    /// Sequence number of the step, from 1: the push of the same number may leave its selection out. 0 = a read without
    /// a step.
    pub seq: u64,
    /// Slices, rows and ids to read.
    pub selection: Arc<Selection>,
    /// For each whole slice, the number of updates of the values that the reader has. A slice that still has this
    /// number is not read again. 0 = the reader has no values; missing entries count as 0.
    pub known: Vec<u64>,
    /// A ticket is requested.
    pub reserve_step: bool,
    /// Least version of the values; 0 = any.
    pub at_least: u64,
    /// The values of exactly that version are wanted, although this store has applied the step after it. They are
    /// needed if a synchronous step is not complete on all servers.
    pub or_before: bool,
    /// Other stores have applied the batch of the step. The ticket is then granted even beyond the last step.
    pub half_applied: bool,
}

/// Reply to a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Version of the values.
    pub version: u64,
    /// Version of the store. It is one more than `version` if the values before the latest synchronous step were
    /// wanted.
    pub reached: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Reply to `reserve_step`; granted if no ticket was requested. Nothing is read unless it is granted.
    pub ticket: Ticket,
    /// Steps by which the reader is ahead of the slowest live task, under stale-synchronous updates.
    pub lead: u64,
    /// For each whole slice, the least number of updates of the values that are read.
    pub updates: Vec<u64>,
    /// For each slice of ids, the places of those ids that have no row and share one, ascending. Their values are 0.
    /// Empty if no such table is read.
    pub without_row: Vec<Vec<u32>>,
}

/// A push, a pull, or a push and then a pull, which sees the pushed gradients: one round trip to one store.
#[derive(Debug, Clone)]
pub struct StepRequest<G> {
    /// Gradients of a step.
    pub push: Option<Push<G>>,
    /// Parameters that a later step reads.
    pub pull: Option<Pull>,
}

/// Reply to a [`StepRequest`]. `V` gives the values of the pull.
#[derive(Debug)]
pub struct StepReply<V> {
    /// Outcome of the push, if there was one.
    pub pushed: Option<Pushed>,
    /// Outcome of the pull and its values, if there was one.
    pub pulled: Option<(Pulled, V)>,
}

/// Reply to a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// The push had been applied before. Nothing changed then.
    pub duplicate: bool,
    /// The push came too late for its synchronous step, which another push of the same batch has completed.
    /// Nothing changed then.
    pub stale: bool,
    /// Pushes applied.
    pub version: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Pushes applied between the pull and this push.
    pub staleness: u64,
    /// Reason for which the values were rejected, now or when the push first arrived. Nothing changed, except that its
    /// batch is done.
    pub rejected: Option<Rejection>,
}
