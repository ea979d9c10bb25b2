//! The manifest of a checkpoint, and whether a checkpoint fits a model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{FirstRows, VariableSpec};

/// The version of the layout on disk. Version 1 had no checksum of the manifest, version 2 no rows that are not held.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// The way in which first values are computed from [`FirstRows`].
pub(crate) const GENERATOR: u32 = 1;

/// How far the training data of one shard has been applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionRecord {
    /// Data shard.
    pub shard: u64,
    /// Pass of its latest batch.
    pub pass: u64,
    /// First batch not applied.
    pub batch: u64,
    /// Batches behind it that have been applied, where several were under way at once; ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<std::ops::Range<u64>>,
}

/// What a tensor holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dtype {
    /// 32-bit floats.
    #[default]
    F32,
    /// 64-bit whole numbers: ids of a dynamic table, and what is known of them.
    U64,
}

impl Dtype {
    /// Returns the bytes of a value.
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

/// One tensor of a shard file: the values of some rows of a variable, or of one of its slots. Of a dynamic table, the
/// rows are those in use at the server, and ids, times and sightings stand beside them as slots do.
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
    /// What it holds; floats where nothing is said.
    #[serde(default, skip_serializing_if = "Dtype::is_default")]
    pub dtype: Dtype,
    /// The rows that it holds; absent = all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldRows>,
    /// The values of the rows, or ids, that the tensor does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Others>,
    /// Byte in the file at which its values begin.
    pub offset: u64,
    /// CRC-32C of its values.
    pub crc32c: u32,
}

impl TensorRecord {
    /// Returns the number of rows that it holds.
    pub fn rows_held(&self) -> usize {
        match &self.held {
            Some(held) => held.rows,
            None => self.row_end.saturating_sub(self.row_begin),
        }
    }

    /// Returns the bytes of the rows that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        (self.rows_held() * self.width * self.dtype.bytes()) as u64
    }
}

/// Which rows of its range a tensor holds: those that have been changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRows {
    /// How many.
    pub rows: usize,
    /// Name of the tensor of the same file that lists them: `[n, 2]` whole numbers, the first row and one past the last row of
    /// each run of rows, ascending.
    pub listed_in: String,
}

/// The values of the rows, or ids of a dynamic table, that a tensor does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// First values.
    First {
        /// How they are computed.
        generator: u32,
        /// What decides them. It is the checkpoint's, whatever the job says by now.
        rows: FirstRows,
    },
    /// A value, of a slot.
    Value(f32),
}

impl Others {
    pub(crate) fn first(rows: &FirstRows) -> Self {
        Self::First {
            generator: GENERATOR,
            rows: rows.clone(),
        }
    }
}

/// One parameter server's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// File name in the checkpoint's folder.
    pub file: String,
    /// Size.
    pub bytes: u64,
    /// CRC-32C of the header: everything before the first tensor.
    pub header_crc32c: u32,
    /// Index of the server.
    pub ps: usize,
    /// Pushes it had applied.
    pub version: u64,
    /// Data it had applied.
    pub positions: Vec<PositionRecord>,
    /// Its tensors.
    pub tensors: Vec<TensorRecord>,
}

/// What a checkpoint is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the layout on disk.
    pub format_version: u32,
    /// 128 bits in hexadecimal, minted once per model folder.
    pub cluster_id: String,
    /// Term of the chief that wrote it.
    pub cluster_epoch: u64,
    /// Steps applied.
    pub global_step: u64,
    /// Number of parameter servers that wrote it.
    pub num_ps: usize,
    /// Variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Update rules, by group.
    pub optimizers: BTreeMap<String, OptimizerConfig>,
    /// Files.
    pub shards: Vec<ShardRecord>,
    /// Seed of the first values of this job. What rows read that a tensor does not hold, it says itself; up to version 2 ids
    /// without a row read what this seed gives.
    #[serde(default)]
    pub seed: u64,
    /// What the positions of the data mean: another value, another division of the input.
    pub input: String,
    /// When it was written, seconds since 1970.
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
            seed: 0,
            input: String::new(),
            created_unix_secs,
        }
    }
}

/// Returns every difference between a checkpoint and a model, one a line.
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
    // A dynamic table may be given room for more rows, or for fewer.
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

/// Returns the message for a checkpoint that does not fit, with every difference.
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
