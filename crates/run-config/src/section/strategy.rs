//! `[strategy]`: distribution of training.

use serde::Serialize;
use trainyard_diagnostic::{Code, Diagnostic, Section, Takes, kinds, section};

use crate::limit::{Limit, OfSome, of_some, required_by};
use crate::{Encoding, InputConfig, Partitioner, Placement, Sharding, Update};

/// Most slices of a variable.
const SHARDS_MAX: u64 = 1_000_000;
/// Most steps whose parameters a task may read ahead.
const PIPELINE_DEPTH_MAX: u64 = 8;
/// Largest size of a slice that can be configured, in bytes.
const SHARD_BYTES_MAX: u64 = 1 << 40;
/// Most batches of a synchronous step, and most replicas of a process.
const REPLICAS_MAX: u64 = 4096;
/// Largest staleness bound.
const STALENESS_MAX: u64 = 1_000_000;

section! {
    /// Keys of `[strategy]`.
    #[derive(Debug)]
    pub(crate) struct StrategyKeys {
        /// where the parameters are. On several hosts: `parameter_server`; `multi_worker_mirrored`, in every worker, and the
        /// workers add up their gradients; `hybrid`, tables on servers and everything else in every worker. In one process:
        /// `one_device`, `mirrored`, `central_storage` ([training-modes.md](training-modes.md))
        kind: Option<StrategyKind> = choice("strategy", &StrategyKind::NAMES).or_invalid(StrategyKind::ParameterServer);
        /// for parameter servers: `async`; `sync`, a step is the mean of several batches; `ssp`, asynchronous, with a bound
        /// on how far ahead a task may be
        update: Option<Mode> = choice("update", &Mode::NAMES).or_invalid(Mode::Async);
        /// for `sync`: batches of a step, at most the number of tasks that train. Further tasks are backup workers
        replicas_to_aggregate: Option<usize> = integer(1..=REPLICAS_MAX).optional("one for each task");
        /// for `ssp`: maximum steps between the fastest and the slowest task, from 0
        staleness_steps_max: Option<u64> = integer(0..=STALENESS_MAX).optional("required with it");
        /// `between_graph`: workers read the input. `in_graph`: the chief reads the input and sends it to workers that only
        /// compute
        replication: Option<Replication> = choice("replication", &Replication::NAMES).or_invalid(Replication::BetweenGraph);
        /// for `mirrored` and `central_storage`: replicas in the process
        replicas: Option<usize> = integer(1..=REPLICAS_MAX).optional("the cores");
        /// multiplies learning rates by the batches of a step, or, if each batch is a step, by the number of tasks that
        /// train
        scale_learning_rate: bool = flag().or(false);
        /// `greedy` by bytes, or `round_robin`
        placement: Option<Placement> = choice("placement", &Placement::NAMES).or_invalid(Placement::Greedy);
        /// whether the chief trains too; in one process it must
        chief_trains: Option<bool> = flag().optional("true; false with `in_graph`");
        /// steps whose parameters a task reads ahead while it computes, 0 to 8. With 0 a task reads them after it has pushed
        /// the previous step, as in TensorFlow. With 1 the network and the model work at the same time, and a step does not
        /// see the latest push of its own task
        pipeline_depth: usize = integer(0..=PIPELINE_DEPTH_MAX).or(0);
        /// type of values on the network: `float32`, `bfloat16` or `float16`. The 16-bit types round parameters and
        /// gradients on the way and nothing else. The rounding error of the gradients of dense variables is added to their
        /// next gradients
        payload: Option<Encoding> = choice("payload", &Encoding::NAMES).or_invalid(Encoding::Float32);
        /// rule that cuts variables into slices: `{ kind = "min_size", min_shard_bytes = 262144, max_shards = .. }`,
        /// `{ kind = "max_size", max_shard_bytes = .. }`, `{ kind = "fixed", num_shards = .. }`; keys
        /// below
        partitioner: Option<Partitioner> = custom(read_partitioner, takes_partitioner, "")
            .or_invalid(Partitioner::default())
            .said("`min_size`, one part per server at most");
    }
}

kinds! {
    /// Keys of `strategy.partitioner` by its kind (`tf.distribute.experimental.partitioners`).
    #[derive(Debug)]
    pub(crate) enum PartitionerKeys = "partitioner" {
        /// as many slices as keep each at `min_shard_bytes` or more
        "min_size" => MinSize(MinSizeKeys),
        /// as few slices as keep each at `max_shard_bytes` or less
        "max_size" => MaxSize(MaxSizeKeys),
        /// the same number of slices of every variable, at most its rows
        "fixed" => Fixed(FixedKeys),
    }
}

section! {
    /// Keys of the partitioner by a least size.
    #[derive(Debug)]
    pub(crate) struct MinSizeKeys {
        /// minimum bytes of a slice
        min_shard_bytes: usize = integer(1..=SHARD_BYTES_MAX).or(Partitioner::MIN_SHARD_BYTES);
        /// maximum number of slices of a variable
        max_shards: Option<usize> = integer(1..=SHARDS_MAX).optional("one for each server");
    }
}

section! {
    /// Keys of the partitioner by a largest size.
    #[derive(Debug)]
    pub(crate) struct MaxSizeKeys {
        /// maximum bytes of a slice
        max_shard_bytes: Option<usize> = integer(1..=SHARD_BYTES_MAX).required_or_invalid("16_777_216");
        /// maximum number of slices of a variable
        max_shards: Option<usize> = integer(1..=SHARDS_MAX).optional("no bound");
    }
}

section! {
    /// Keys of the partitioner with a fixed number of slices.
    #[derive(Debug)]
    pub(crate) struct FixedKeys {
        /// number of slices of a variable
        num_shards: Option<usize> = integer(1..=SHARDS_MAX).required_or_invalid("2");
    }
}

/// Name of an update mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Async,
    Sync,
    Ssp,
}

impl Mode {
    const NAMES: [(&'static str, Self); 3] = [
        ("async", Self::Async),
        ("sync", Self::Sync),
        ("ssp", Self::Ssp),
    ];
}

/// Distribution of training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StrategyConfig {
    /// Location of the parameters.
    pub kind: StrategyKind,
    /// Update mode, and the size of a synchronous step.
    pub update: UpdateSection,
    /// Tasks that read the input.
    pub replication: Replication,
    /// Copies of the model that one process trains, under `mirrored` and `central_storage`; absent = one per core.
    pub replicas: Option<usize>,
    /// Learning rates are multiplied by the batches of a step, or by the tasks that train (Goyal et al., 2017,
    /// the linear scaling rule); false by default.
    pub scale_learning_rate: bool,
    /// Division of variables into slices; by default slices of at least 256 KiB, at most one per ps.
    pub partitioner: Partitioner,
    /// Placement of slices on parameter servers.
    pub placement: Placement,
    /// The chief also trains; true by default, false under in-graph replication.
    pub chief_trains: bool,
    /// Steps whose parameters a task reads ahead while it computes; 0 by default, as in TensorFlow.
    pub pipeline_depth: usize,
    /// Encoding of values on the wire; `float32` by default.
    pub payload: Encoding,
}

/// Location of the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyKind {
    /// On parameter servers (`tf.distribute.ParameterServerStrategy`).
    ParameterServer,
    /// In every worker. The workers add up their gradients (`tf.distribute.MultiWorkerMirroredStrategy`).
    MultiWorkerMirrored,
    /// Tables on parameter servers, all other variables in every worker.
    Hybrid,
    /// In every replica of one process (`tf.distribute.MirroredStrategy`).
    Mirrored,
    /// One copy for several replicas of one process (`tf.distribute.experimental.CentralStorageStrategy`).
    CentralStorage,
    /// One copy for one replica (`tf.distribute.OneDeviceStrategy`).
    OneDevice,
}

impl StrategyKind {
    /// Every kind with its name in a job file.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("parameter_server", Self::ParameterServer),
        ("multi_worker_mirrored", Self::MultiWorkerMirrored),
        ("hybrid", Self::Hybrid),
        ("mirrored", Self::Mirrored),
        ("central_storage", Self::CentralStorage),
        ("one_device", Self::OneDevice),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("", |(name, _)| name)
    }

    /// Returns whether every worker of a cluster holds parameters.
    pub fn is_mirrored(self) -> bool {
        matches!(self, Self::MultiWorkerMirrored | Self::Hybrid)
    }

    /// Returns whether several copies of the model may train in one process.
    pub fn has_replicas(self) -> bool {
        matches!(self, Self::Mirrored | Self::CentralStorage)
    }
}

/// Update mode, and the size of a synchronous step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UpdateSection {
    /// Mode of the updates; `async` by default.
    #[serde(flatten)]
    pub mode: Update,
    /// Batches per synchronous step, at least 1; absent = one for each task that trains. Further tasks are backup
    /// workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_to_aggregate: Option<usize>,
}

impl From<Update> for UpdateSection {
    fn from(mode: Update) -> Self {
        Self {
            mode,
            replicas_to_aggregate: None,
        }
    }
}

/// Tasks that read the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Replication {
    /// Each worker reads its own input (`between_graph`).
    BetweenGraph,
    /// The chief reads the input, and sends batches to workers that only compute.
    InGraph,
}

impl Replication {
    /// Every replication with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] = [
        ("between_graph", Self::BetweenGraph),
        ("in_graph", Self::InGraph),
    ];
}

pub(crate) fn read(section: Section<'_>) -> Option<StrategyConfig> {
    let keys = StrategyKeys::read_keys(&section)?;
    let update = update(&section, &keys);
    check(&section, &keys, update);
    section.finish();
    Some(StrategyConfig {
        kind: keys.kind?,
        update: update?,
        replication: keys.replication?,
        replicas: keys.replicas,
        scale_learning_rate: keys.scale_learning_rate,
        partitioner: keys.partitioner?,
        placement: keys.placement?,
        // Under in-graph replication, the chief reads the input for the workers, like TensorFlow's coordinator.
        chief_trains: keys
            .chief_trains
            .unwrap_or(keys.replication != Some(Replication::InGraph)),
        pipeline_depth: keys.pipeline_depth,
        payload: keys.payload?,
    })
}

/// Keys that have meaning for some kinds of strategies only.
const OF_SOME_KINDS: [OfSome<StrategyKind>; 2] = [
    ("replicas", StrategyKind::has_replicas),
    ("update", |kind| kind == StrategyKind::ParameterServer),
];

/// Returns the limits of the keys by the kind and by the update mode. Batches of a step belong to synchronous training,
/// which does not always name its mode.
pub(crate) fn limits() -> Vec<Limit> {
    let is_bounded = |mode: Mode| mode == Mode::Ssp;
    let bound: [OfSome<Mode>; 1] = [("staleness_steps_max", is_bounded)];
    let mut limits = of_some("kind", &StrategyKind::NAMES, &OF_SOME_KINDS);
    limits.extend(of_some("update", &Mode::NAMES, &bound));
    limits.extend(required_by("update", &Mode::NAMES, &bound));
    limits
}

/// Returns the update mode with its parameters, and reports parameters of other modes.
fn update(section: &Section<'_>, keys: &StrategyKeys) -> Option<UpdateSection> {
    // The other strategies support synchronous updates only.
    let together = keys.kind.is_some_and(|kind| {
        !matches!(
            kind,
            StrategyKind::ParameterServer | StrategyKind::OneDevice
        )
    });
    let mode = match section.node("update") {
        Some(_) => keys.update?,
        None if together => Mode::Sync,
        None => Mode::Async,
    };
    let only = |key: &'static str, of: &str| {
        if section.node(key).is_some() {
            section.fail(
                Code::E1006,
                key,
                format!("{key} belongs to update = \"{of}\""),
            );
        }
    };
    if mode != Mode::Sync {
        only("replicas_to_aggregate", "sync");
    }
    if mode != Mode::Ssp {
        only("staleness_steps_max", "ssp");
    }
    match mode {
        Mode::Async => Some(Update::Async.into()),
        Mode::Sync => Some(UpdateSection {
            mode: Update::Sync,
            replicas_to_aggregate: keys.replicas_to_aggregate,
        }),
        Mode::Ssp => {
            if section.node("staleness_steps_max").is_none() {
                section.missing("staleness_steps_max", "3");
            }
            keys.staleness_steps_max.map(|staleness_steps_max| {
                Update::StaleSynchronous {
                    staleness_steps_max,
                }
                .into()
            })
        }
    }
}

/// Reports settings that contradict each other.
fn check(section: &Section<'_>, keys: &StrategyKeys, update: Option<UpdateSection>) {
    let fail =
        |key: &'static str, message: &str| section.fail(Code::E1006, key, message.to_owned());
    if keys.pipeline_depth > 0 && update.is_some_and(|update| update.mode == Update::Sync) {
        fail(
            "pipeline_depth",
            "pipeline_depth must be 0 where update is \"sync\": what is read ahead is stale",
        );
    }
    let Some(kind) = keys.kind else { return };
    if kind != StrategyKind::ParameterServer && keys.replication == Some(Replication::InGraph) {
        fail(
            "replication",
            "replication = \"in_graph\" goes with kind = \"parameter_server\" only",
        );
    }
    if kind.is_mirrored() && keys.chief_trains == Some(false) {
        fail(
            "chief_trains",
            "chief_trains must be true where workers hold the parameters (kind = \"multi_worker_mirrored\" and kind = \
             \"hybrid\"): the chief writes checkpoints from the copy that it trains",
        );
    }
    for (key, has_meaning) in OF_SOME_KINDS {
        if has_meaning(kind) || section.node(key).is_none() {
            continue;
        }
        let message = match key {
            "replicas" => "replicas belongs to kind = \"mirrored\" and kind = \"central_storage\"",
            _ => {
                "update can be chosen under kind = \"parameter_server\" only: the others are synchronous, \
                 one device needs none"
            }
        };
        fail(key, message);
    }
}

/// Reports input settings that the strategy does not support.
pub(crate) fn settle(root: &Section<'_>, strategy: &StrategyConfig, input: &InputConfig) {
    let sharding = input.train.sharding;
    if sharding == Sharding::Dynamic {
        return;
    }
    let what = match (strategy.update.mode, strategy.replication) {
        (_, Replication::InGraph) => "replication = \"in_graph\": the chief assigns the data",
        (Update::Sync, _) => {
            "synchronous training: any worker must be able to compute any batch of a step"
        }
        _ => return,
    };
    let given = format!("{sharding:?}").to_lowercase();
    let message =
        format!("input.train.sharding must be \"dynamic\" under {what}, given \"{given}\"");
    root.problems()
        .push(Diagnostic::error(Code::E1006, message).help("leave out input.train.sharding"));
}

fn takes_partitioner() -> Takes {
    Takes::TableByKind(PartitionerKeys::kinds())
}

fn read_partitioner(section: &Section<'_>, key: &'static str) -> Option<Partitioner> {
    let section = section.section(key)?;
    let read = PartitionerKeys::read_kind(&section, &PartitionerKeys::kinds());
    section.finish();
    match read?.1 {
        PartitionerKeys::MinSize(keys) => Some(Partitioner::MinSize {
            min_shard_bytes: keys.min_shard_bytes,
            max_shards: keys.max_shards,
        }),
        PartitionerKeys::MaxSize(keys) => Some(Partitioner::MaxSize {
            max_shard_bytes: keys.max_shard_bytes?,
            max_shards: keys.max_shards,
        }),
        PartitionerKeys::Fixed(keys) => Some(Partitioner::Fixed {
            num_shards: keys.num_shards?,
        }),
    }
}
