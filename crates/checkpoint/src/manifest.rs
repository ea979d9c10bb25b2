//! Manifest of a checkpoint, and the comparison of a checkpoint with a model.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{FirstRows, StepNumber, VariableSpec, Version};

/// Version of the layout on disk of a checkpoint whose files are whole. Version 1 has no checksum of the manifest.
/// Version 2 stores all rows.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// Version of the layout on disk of an incremental checkpoint.
pub(crate) const INCREMENT_FORMAT_VERSION: u32 = 4;
/// Version of the rule that computes initial values from [`FirstRows`].
pub(crate) const GENERATOR: u32 = 1;

/// Position in the training data of one shard: the batches that have been applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionRecord {
    /// Data shard.
    pub shard: u64,
    /// Pass of the latest batch.
    pub pass: u64,
    /// First batch that has not been applied.
    pub batch: u64,
    /// Later batches that have been applied, ascending. There are some if several batches were in flight at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<std::ops::Range<u64>>,
}

/// Type of the values of a tensor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// 32-bit floats.
    #[default]
    F32,
    /// 64-bit whole numbers: ids of a dynamic table with their use, or lists of held rows.
    U64,
}

impl Dtype {
    /// Returns the size of a value in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::U64 => 8,
        }
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One tensor of a shard file: the values of some rows of a variable, or of one of its slots. The rows of a dynamic
/// table are the rows in use at the server; its ids, idle times and occurrence counts are stored like slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// Name in the file.
    pub name: String,
    /// Variable.
    pub variable: String,
    /// Slot; absent = the values.
    pub slot: Option<String>,
    /// First row.
    pub row_begin: usize,
    /// One past the last row.
    pub row_end: usize,
    /// Values in a row.
    pub width: usize,
    /// Type of the values; absent = floats.
    #[serde(default, skip_serializing_if = "Dtype::is_default")]
    pub dtype: Dtype,
    /// The held rows; absent = all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldRows>,
    /// The rows of the table in use, if the tensor has the ids of an increment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_in_use: Option<usize>,
    /// The values of rows, or of ids, that the tensor does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
    /// Byte in the file at which the values begin.
    pub offset: u64,
    /// CRC-32C of the values.
    pub crc32c: u32,
}

impl TensorRecord {
    /// Returns the number of held rows.
    pub fn rows_held(&self) -> usize {
        match &self.held {
            Some(held) => held.rows,
            None => self.row_end.saturating_sub(self.row_begin),
        }
    }

    /// Returns the size of the held rows in bytes.
    pub fn bytes(&self) -> u64 {
        (self.rows_held() * self.width * self.dtype.bytes()) as u64
    }
}

/// The held rows of a tensor: the rows of its range that have been changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRows {
    /// Number of held rows.
    pub rows: usize,
    /// Name of the tensor in the same file that lists the held rows, ascending: `[n, 2]` whole numbers, the first row and
    /// one past the last row of each run of rows; or `[n, 1]`, a packed list.
    pub listed_in: String,
}

/// The values of the rows, or ids of a dynamic table, that a tensor does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// Initial values.
    First {
        /// Version of the rule that computes them.
        generator: u32,
        /// The rule. It is stored in the checkpoint, so a change of the job does not affect it.
        rows: FirstRows,
    },
    /// The initial value of a slot.
    Value(f32),
    /// The values in the base.
    Base,
}

impl Others {
    pub(crate) fn first(rows: &FirstRows) -> Self {
        Self::First {
            generator: GENERATOR,
            rows: rows.clone(),
        }
    }
}

/// The file of one parameter server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// File name in the checkpoint's folder.
    pub file: String,
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32C of the header: everything before the first tensor.
    pub(crate) header_crc32c: u32,
    /// Index of the server.
    pub ps: usize,
    /// Count of the server's version, in the unit that `Manifest::version_units` has for it.
    pub version: u64,
    /// Training data that the server had applied.
    pub positions: Vec<PositionRecord>,
    /// Name of the server's snapshot, if increments may be based on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Name of the snapshot in `Manifest::bases` that holds what this file does not; absent = the file is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Seconds of training at the snapshot. Idle times count up to these and to `version`.
    #[serde(default)]
    pub secs: i64,
    /// Tensors of the file.
    pub tensors: Vec<TensorRecord>,
}

/// The unit in which a store counts its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionUnit {
    /// Synchronous steps.
    Steps,
    /// Pushes.
    Pushes,
}

impl VersionUnit {
    /// Returns the version of this many.
    pub fn version(self, count: u64) -> Version {
        match self {
            Self::Steps => Version::Steps(StepNumber::new(count)),
            Self::Pushes => Version::Pushes(count),
        }
    }
}

/// The units in which the stores of a checkpoint counted their versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionUnits {
    /// An earlier release, or an import, wrote the checkpoint.
    #[default]
    Unknown,
    /// Every store counted synchronous steps.
    Steps,
    /// Every store counted pushes.
    Pushes,
    /// The first store, of the dense variables, counted synchronous steps; the others, of tables, counted pushes.
    Hybrid,
}

impl VersionUnits {
    /// Returns the unit of the store at `place`.
    fn of(self, place: usize) -> Option<VersionUnit> {
        match (self, place) {
            (Self::Unknown, _) => None,
            (Self::Steps, _) | (Self::Hybrid, 0) => Some(VersionUnit::Steps),
            (Self::Pushes, _) | (Self::Hybrid, _) => Some(VersionUnit::Pushes),
        }
    }
}

/// The content of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the layout on disk.
    pub format_version: u32,
    /// Cluster id: 128 bits in hexadecimal, drawn once per model directory.
    pub cluster_id: String,
    /// Term of the chief that wrote the checkpoint.
    pub cluster_epoch: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Number of parameter servers that wrote the checkpoint.
    pub num_ps: usize,
    /// Variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Update rules, by group.
    pub optimizers: BTreeMap<String, OptimizerConfig>,
    /// Files, one per server: whole, or the increment over a base.
    pub shards: Vec<ShardRecord>,
    /// Whole files of earlier snapshots, on which increments are based.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<ShardRecord>,
    /// Seed of the initial values of this job. Up to version 2, ids without a row have the values that this seed gives.
    /// From version 3 on, each tensor stores the rule for the rows that it does not hold.
    #[serde(default)]
    pub seed: u64,
    /// Fingerprint of the division of the input. Positions of the data are comparable only if it is equal.
    pub input: String,
    /// Job of the run that trained the values, one line per key that all its tasks share. Earlier releases did not record
    /// it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job: Vec<String>,
    /// Units of the versions of `shards`.
    #[serde(default)]
    pub version_units: VersionUnits,
    /// Time of writing, in seconds since 1970.
    pub created_unix_secs: u64,
}

impl Manifest {
    /// Returns a manifest of this release's format.
    pub fn new(
        cluster_id: String,
        cluster_epoch: u64,
        global_step: u64,
        created_unix_secs: u64,
    ) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            cluster_id,
            cluster_epoch,
            global_step,
            num_ps: 0,
            variables: Vec::new(),
            optimizers: BTreeMap::new(),
            shards: Vec::new(),
            bases: Vec::new(),
            seed: 0,
            input: String::new(),
            job: Vec::new(),
            version_units: VersionUnits::Unknown,
            created_unix_secs,
        }
    }

    /// Returns the bytes of the values that the files hold, with the ids of rows and without slots. Other rows have the values
    /// that a rule gives, and take no memory.
    pub fn value_bytes(&self) -> u64 {
        let tensors = self.files().flat_map(|file| &file.tensors);
        let values = tensors.filter(|tensor| tensor.slot.is_none());
        values
            .map(|tensor| tensor.rows_held() as u64 * (tensor.width as u64 * 4 + 8))
            .sum()
    }

    /// Returns how many batches some stores had applied and others had not.
    pub fn half_applied(&self) -> u64 {
        let data_shards: BTreeSet<u64> = self
            .shards
            .iter()
            .flat_map(|store| store.positions.iter().map(|position| position.shard))
            .collect();
        let of_shard = |data_shard: u64| {
            // The number of stores that have applied a batch changes at the ends of ranges.
            let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
            for store in &self.shards {
                let known = store.positions.iter();
                for position in known.filter(|position| position.shard == data_shard) {
                    let ahead = position.ahead.iter().cloned();
                    for range in std::iter::once(0..position.batch).chain(ahead) {
                        *changes.entry(range.start).or_default() += 1;
                        *changes.entry(range.end).or_default() -= 1;
                    }
                }
            }
            let (mut stores, mut from, mut half) = (0, 0, 0);
            for (at, change) in changes {
                if stores > 0 && stores < self.shards.len() as i64 {
                    half += at - from;
                }
                stores += change;
                from = at;
            }
            half
        };
        data_shards.into_iter().map(of_shard).sum()
    }

    /// Returns the version of each store, in the order of the files; `None` if its unit is not known.
    pub fn versions(&self) -> Vec<Option<Version>> {
        let of = |shard: &ShardRecord| {
            let unit = self.version_units.of(shard.ps)?;
            Some(unit.version(shard.version))
        };
        self.shards.iter().map(of).collect()
    }

    /// Returns the version from which the store at `place` of `stores` continues, if it counts `unit`.
    ///
    /// A store that counts pushes continues from its own version; if the number of stores has changed, from the highest
    /// one. Stores that count steps continue from one step.
    pub fn version_of(&self, place: usize, stores: usize, unit: VersionUnit) -> Version {
        let counts = |shard: &&ShardRecord| self.version_units.of(shard.ps) == Some(unit);
        let of_unit = self.shards.iter().filter(counts);
        let highest = |shards: &mut dyn Iterator<Item = &ShardRecord>| {
            shards.map(|shard| shard.version).max()
        };
        let at_place = |at: usize| self.shards.iter().find(|shard| shard.ps == at);
        let highest_of_all = highest(&mut self.shards.iter()).unwrap_or(0);
        let count = match unit {
            VersionUnit::Steps if self.version_units == VersionUnits::Unknown => {
                // Stores that counted the same steps differ by the step in progress, at most.
                let first = at_place(0).map_or(0, |shard| shard.version);
                if highest_of_all - first <= 1 {
                    highest_of_all
                } else {
                    first
                }
            }
            VersionUnit::Steps => highest(&mut of_unit.into_iter()).unwrap_or(highest_of_all),
            VersionUnit::Pushes if self.num_ps == stores => at_place(place)
                .map(|shard| shard.version)
                .unwrap_or(highest_of_all),
            VersionUnit::Pushes => highest(&mut of_unit.into_iter()).unwrap_or(highest_of_all),
        };
        unit.version(count)
    }
}

impl Manifest {
    /// Sets the version of the layout: an incremental checkpoint has a later one.
    pub(crate) fn set_format(&mut self) {
        self.format_version = if self.bases.is_empty() {
            FORMAT_VERSION
        } else {
            INCREMENT_FORMAT_VERSION
        };
    }

    /// Returns the records of all files.
    pub fn files(&self) -> impl Iterator<Item = &ShardRecord> {
        self.bases.iter().chain(&self.shards)
    }

    /// Returns the base of an increment.
    pub(crate) fn base_of(&self, shard: &ShardRecord) -> Option<&ShardRecord> {
        let name = shard.base.as_ref()?;
        let found = self
            .bases
            .iter()
            .find(|base| base.cut.as_ref() == Some(name));
        found.filter(|base| base.ps == shard.ps)
    }

    /// Returns the increment over a base.
    pub(crate) fn increment_of(&self, base: &ShardRecord) -> Option<&ShardRecord> {
        let name = base.cut.as_ref()?;
        let found = self
            .shards
            .iter()
            .find(|shard| shard.base.as_ref() == Some(name));
        found.filter(|shard| base.base.is_none() && base.ps == shard.ps)
    }
}

/// Returns every difference between a checkpoint and a model, one per line.
pub fn differences(
    manifest: &Manifest,
    variables: &[VariableSpec],
    optimizers: &BTreeMap<String, OptimizerConfig>,
) -> Vec<String> {
    let shown = |spec: Option<&VariableSpec>| match spec {
        None => "-".to_owned(),
        Some(spec) if spec.dynamic().is_some() => format!("f32[dynamic, {}]", spec.width()),
        Some(spec) => format!("f32{:?}", spec.shape),
    };
    // The capacity of a dynamic table may change.
    let alike = |have: &VariableSpec, want: &VariableSpec| match (have.dynamic(), want.dynamic()) {
        (Some(_), Some(_)) => have.shape.get(1..) == want.shape.get(1..),
        (None, None) => have.shape == want.shape,
        _ => false,
    };
    let find =
        |specs: &[VariableSpec], name: &str| specs.iter().find(|spec| spec.name == name).cloned();
    let mut names: Vec<&String> = manifest
        .variables
        .iter()
        .chain(variables)
        .map(|spec| &spec.name)
        .collect();
    names.sort();
    names.dedup();
    let mut out = Vec::new();
    for name in names {
        let have = find(&manifest.variables, name);
        let want = find(variables, name);
        let what = match (&have, &want) {
            (Some(have), Some(want)) if alike(have, want) => {
                let have = manifest.optimizers.get(&have.optimizer_group);
                let want = optimizers.get(&want.optimizer_group);
                let slots = |config: Option<&OptimizerConfig>| {
                    config
                        .map(|config| {
                            config
                                .slots()
                                .iter()
                                .map(|slot| slot.name)
                                .collect::<Vec<_>>()
                        })
                        .unwrap_or_default()
                };
                if slots(have) != slots(want) {
                    out.push(format!(
                        "{name}   checkpoint slots {:?}   model slots {:?}   optimizer",
                        slots(have),
                        slots(want)
                    ));
                }
                continue;
            }
            (Some(_), Some(_)) => "shape",
            (Some(_), None) => "not in model",
            (None, _) => "not in checkpoint",
        };
        out.push(format!(
            "{name}   checkpoint {}   model {}   {what}",
            shown(have.as_ref()),
            shown(want.as_ref())
        ));
    }
    out
}

/// Returns a diagnostic with every difference; nothing if the checkpoint fits the model.
pub fn misfit(
    manifest: &Manifest,
    variables: &[VariableSpec],
    optimizers: &BTreeMap<String, OptimizerConfig>,
) -> Option<Diagnostic> {
    let found = differences(manifest, variables, optimizers);
    if found.is_empty() {
        return None;
    }
    let message = format!(
        "checkpoint step {} does not fit the model ({} differences)",
        manifest.global_step,
        found.len()
    );
    let optimizer_alone = found
        .iter()
        .all(|difference| difference.ends_with("   optimizer"));
    let help = if optimizer_alone {
        "keep the optimizer; or begin in another model_dir with the values of this one: train.warm_start = { from = \"THIS \
         MODEL_DIR\" }"
    } else {
        "use the job that wrote it, or another model_dir: train.warm_start takes from this one what fits"
    };
    let problem = Diagnostic::error(Code::E3002, message).help(help);
    Some(found.into_iter().fold(problem, Diagnostic::note))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(ps: usize, batch: u64, ahead: &[(u64, u64)]) -> ShardRecord {
        ShardRecord {
            file: String::new(),
            bytes: 0,
            header_crc32c: 0,
            ps,
            version: 0,
            positions: vec![PositionRecord {
                shard: 0,
                pass: 0,
                batch,
                ahead: ahead.iter().map(|(from, to)| *from..*to).collect(),
            }],
            cut: None,
            base: None,
            secs: 0,
            tensors: Vec::new(),
        }
    }

    #[test]
    fn batches_that_only_some_stores_have_applied_are_counted() {
        let half = |stores: Vec<ShardRecord>| {
            let mut manifest = Manifest::new(String::new(), 1, 0, 0);
            manifest.shards = stores;
            manifest.half_applied()
        };
        assert_eq!(half(vec![store(0, 9, &[]), store(1, 9, &[])]), 0);
        assert_eq!(half(vec![store(0, 9, &[]), store(1, 4, &[])]), 5);
        // One has all but batch 7, the other all but 6 and 8.
        assert_eq!(
            half(vec![
                store(0, 7, &[(8, 10)]),
                store(1, 6, &[(7, 8), (9, 10)])
            ]),
            3
        );
        let unknown = ShardRecord {
            positions: Vec::new(),
            ..store(1, 0, &[])
        };
        assert_eq!(half(vec![store(0, 3, &[]), unknown]), 3);
    }
}
