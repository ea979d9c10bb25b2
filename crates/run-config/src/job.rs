//! A job, fully checked: every value here is in range and every cross reference holds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trainyard_diagnostic::Document;

use crate::{FeatureConfig, ModelConfig, OptimizerSection};

/// One training run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// The job file, for messages.
    pub path: PathBuf,
    /// Where checkpoints, evaluations and exports go. A relative path is relative to the working folder.
    pub model_dir: PathBuf,
    /// Folder of this machine for what cannot be in a bucket; see [`Job::local_dir`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_dir: Option<PathBuf>,
    /// Operation of the run.
    pub run: RunConfig,
    /// Where records come from.
    pub input: InputConfig,
    /// Feature columns, in file order.
    pub features: Vec<FeatureConfig>,
    /// The model.
    pub model: ModelConfig,
    /// When training ends.
    pub train: TrainSpec,
    /// When and how checkpoints are evaluated.
    pub eval: EvalSpec,
    /// Further evaluations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<EvaluationConfig>,
    /// What is exported after evaluations.
    pub exporters: Vec<ExporterConfig>,
    /// How training is distributed.
    pub strategy: StrategyConfig,
    /// What parameter servers keep beside their memory.
    pub parameter_servers: ParameterServersConfig,
    /// What the file says, with what `--set` has changed.
    #[serde(skip)]
    pub(crate) written: Written,
}

/// How a job was written. Jobs that say the same are equal, however they say it.
#[derive(Clone, Default)]
pub(crate) struct Written(pub(crate) Document);

impl PartialEq for Written {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl std::fmt::Debug for Written {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("..")
    }
}

/// What has to be over before a parameter server acknowledges a push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DurabilityConfig {
    /// It is applied in memory: a server that dies sends all back to the latest checkpoint.
    None,
    /// The system has it, on its way to a file: it survives the server's process (the default).
    #[default]
    Wal,
    /// The disk has it: it survives the machine.
    WalSync,
    /// The system has it, and so has the next parameter server of the cluster, which takes the dead one's place: it
    /// survives the machine and its disk. Needs two parameter servers at least.
    Replica,
}

/// What is done with a push that holds infinity or no number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NonfiniteConfig {
    /// Its batch is done with, and training goes on (the default).
    #[default]
    Reject,
    /// Such values become 0.
    Zero,
    /// The task that computed it ends, and with it the job.
    Halt,
}

/// What values a push may hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GuardConfig {
    /// What is done with infinity and what is no number, in loss or gradients.
    pub nonfinite: NonfiniteConfig,
    /// Most Euclidean norm of all gradients of a batch together; absent = any.
    pub max_norm: Option<f32>,
    /// Most absolute value of a gradient; absent = any.
    pub max_abs: Option<f32>,
    /// Rejected ones among the latest 64 pushes of a task after which it takes part no more; 16 by default, 0 = never.
    pub quarantine_after: u32,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self {
            nonfinite: NonfiniteConfig::default(),
            max_norm: None,
            max_abs: None,
            quarantine_after: 16,
        }
    }
}

/// What parameter servers keep beside their memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ParameterServersConfig {
    /// What has to be over before a push is acknowledged.
    pub durability: DurabilityConfig,
    /// Bytes of a server's log from which it asks for a checkpoint; 4 GiB by default.
    pub log_bytes_max: u64,
    /// Most bytes that a server's process may hold of parameters and what grows with them; absent = no bound.
    pub memory_bytes_max: Option<u64>,
    /// What values pushes may hold.
    pub guard: GuardConfig,
}

impl Default for ParameterServersConfig {
    fn default() -> Self {
        let durability = DurabilityConfig::default();
        let guard = GuardConfig::default();
        Self {
            durability,
            log_bytes_max: 4 << 30,
            memory_bytes_max: None,
            guard,
        }
    }
}

/// Operation of a run (`tf.estimator.RunConfig`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunConfig {
    /// Seed of initial values and shuffles; 0 by default.
    pub seed: u64,
    /// Steps between summaries; 100 by default, 0 = none.
    pub save_summary_steps: u64,
    /// Whether the values of all variables are summed up in histograms at each checkpoint; not by default.
    pub summary_histograms: bool,
    /// Steps between checkpoints; excludes `save_checkpoints_secs`.
    pub save_checkpoints_steps: Option<u64>,
    /// Seconds between checkpoints; 600 when neither is given.
    pub save_checkpoints_secs: Option<u64>,
    /// Checkpoints kept; 5 by default, 0 = all.
    pub keep_checkpoint_max: usize,
    /// One checkpoint in this many hours is kept for good; 10000 by default.
    pub keep_checkpoint_every_n_hours: f64,
    /// Steps between progress lines of the log; 100 by default, 0 = none.
    pub log_step_count_steps: u64,
    /// Longest wait for the other tasks at start; 7200 by default.
    pub session_creation_timeout_secs: u64,
    /// Threads that share the work of a step; 0 = as many as the process may use cores.
    pub intra_op_parallelism_threads: usize,
}

/// Record formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Comma-separated, quotes allowed.
    Csv,
    /// Tab-separated, no quotes.
    Tsv,
    /// `tf.train.Example` messages in TFRecord files.
    #[serde(rename = "tfrecord")]
    TfRecord,
    /// Columns in Parquet files.
    Parquet,
    /// `label index:value ...`, a line a record.
    #[serde(rename = "libsvm")]
    LibSvm,
}

/// How files are compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// They are not.
    None,
    /// Gzip.
    Gzip,
    /// Zlib.
    Zlib,
}

/// What to do with a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRows {
    /// Stop at the first (the default).
    Fail,
    /// Leave it out, write it to the dead-letter file, stop at `bad_rows_max`.
    Skip,
}

/// Where records come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputConfig {
    /// Record format.
    pub format: Format,
    /// First index of libsvm files, 0 or 1; 1 by default.
    pub index_base: u8,
    /// How the files are compressed; absent = as the end of each file's name says.
    pub compression: Option<Compression>,
    /// Column names of files without a header line; absent = the first line of each file names them.
    pub columns: Option<Vec<String>>,
    /// The label.
    pub label: LabelConfig,
    /// Column of per-example weights.
    pub weight_column: Option<String>,
    /// Whether spaces around fields are dropped; true by default.
    pub trim: bool,
    /// What to do with bad rows.
    pub bad_rows: BadRows,
    /// Most bad rows of a task under `skip`; 100 by default.
    pub bad_rows_max: u64,
    /// Texts that stand for a missing value besides the empty one; none by default.
    pub missing: Vec<String>,
    /// Training input.
    pub train: InputPart,
    /// Evaluation input; absent = no evaluation.
    pub eval: Option<InputPart>,
}

/// The label column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelConfig {
    /// Column name.
    pub column: String,
    /// Text of the positive class of a binary classifier. A trailing `*` matches any ending.
    pub positive: Option<String>,
    /// Texts of the classes, in class order.
    pub vocabulary: Option<Vec<String>>,
    /// Byte between the labels of one record, for heads that take several; `|` by default.
    pub separator: u8,
}

/// How records are divided over the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharding {
    /// Every worker reads everything, each in its own order: one epoch is one per worker.
    None,
    /// File `i` goes to worker `i mod n`.
    File,
    /// Record `i` goes to worker `i mod n` (`tf.data.Dataset.shard`).
    Row,
    /// The chief hands out data shards: one epoch is every record once, whatever the workers' number, speed or deaths.
    Dynamic,
}

/// One input: files and the way they become batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputPart {
    /// Paths, URLs and patterns, as written; a relative path is relative to the working folder, then to the job file.
    pub files: Vec<String>,
    /// Records in a batch; 128 by default.
    pub batch_size: usize,
    /// Records in the shuffle buffer; 0 = file order. 10000 by default for training, 0 for evaluation.
    pub shuffle_rows: usize,
    /// Passes over the data; absent = for ever in training, once in evaluation.
    pub epochs: Option<u64>,
    /// How records are divided over workers; `dynamic` by default in training.
    pub sharding: Sharding,
    /// Batches read ahead; 4 by default.
    pub prefetch_batches: usize,
}

/// When training ends (`tf.estimator.TrainSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainSpec {
    /// Global step at which training ends, at least 1; absent = when the input is used up.
    pub max_steps: Option<u64>,
    /// Bound on the gradients of a step, as `trainyard_optimizer::Clipping` reads it; absent = none.
    pub clip_gradients: Option<OptimizerSection>,
    /// Values to start from; absent = initial values.
    pub warm_start: Option<WarmStartConfig>,
    /// When evaluations end training before that; absent = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStoppingConfig>,
}

/// When evaluations say that training ends (`tf.estimator.experimental.stop_if_no_decrease_hook` and its siblings). The job ends at
/// its best checkpoint. At least one of the first three bounds is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlyStoppingConfig {
    /// The metric of the evaluations; `loss` by default.
    pub metric: String,
    /// Whether a higher metric is better; false for `loss` and `average_loss`, true otherwise.
    pub higher_is_better: bool,
    /// Evaluations after the best one, without a better one, that end the job; at least 1.
    pub max_evaluations_without_improvement: Option<u64>,
    /// Steps after the best evaluation, without a better one, that end the job; at least 1.
    pub max_steps_without_improvement: Option<u64>,
    /// Value of the metric that is good enough: the job ends when an evaluation reaches it.
    pub stop_at: Option<f64>,
    /// Steps before which no evaluation ends the job; 0 by default.
    pub min_steps: u64,
    /// Gains up to this are none; 0 by default.
    pub min_delta: f64,
}

/// Where a new model takes its first values from (`tf.estimator.WarmStartSettings`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmStartConfig {
    /// A checkpoint of ours (a folder `model.ckpt-<step>`, or a model folder, whose latest counts), or the prefix of a
    /// TensorFlow checkpoint. A relative path is relative to the working folder, then to the job file.
    pub from: String,
    /// Regular expression that the whole name of a variable must match; `.*` by default.
    pub variables: String,
    /// (variable of this job, name in the checkpoint), where they differ.
    pub rename: Vec<(String, String)>,
}

/// When and how checkpoints are evaluated (`tf.estimator.EvalSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvalSpec {
    /// Batches per evaluation; absent = to the end of the input.
    pub steps: Option<u64>,
    /// Seconds before the first evaluation; 120 by default.
    pub start_delay_secs: u64,
    /// Least seconds between evaluations; 600 by default.
    pub throttle_secs: u64,
    /// Whether training data is evaluated too, to show overfitting; false by default.
    pub on_training_data: bool,
    /// Whether every checkpoint is evaluated, in order, instead of the newest now and then; false by default.
    pub every_checkpoint: bool,
    /// Column whose values divide the examples for the group AUC; absent = no such metric.
    pub group_auc_column: Option<String>,
}

/// A further evaluation of the checkpoints that are evaluated (`name` of `tf.estimator.EvalSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluationConfig {
    /// Its results are in `eval_<name>`.
    pub name: String,
    /// What it reads.
    #[serde(flatten)]
    pub input: InputPart,
    /// Batches; absent = to the end of the input.
    pub steps: Option<u64>,
}

/// When an exporter writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExporterKind {
    /// After every evaluation (`LatestExporter`).
    Latest,
    /// When the metric is better than ever before (`BestExporter`).
    Best,
    /// After the last evaluation (`FinalExporter`).
    Final,
}

/// A form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// The variables, in one file `model.safetensors` (the default).
    Safetensors,
    /// The model as a graph that predicts, in one file `model.onnx`.
    Onnx,
}

impl ExportFormat {
    /// Every format with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] =
        [("safetensors", Self::Safetensors), ("onnx", Self::Onnx)];
}

/// What an export holds besides its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportForm {
    /// The files, at least one; safetensors by default.
    pub formats: Vec<ExportFormat>,
    /// Whether an ONNX graph takes the ids of features that ONNX cannot hash; otherwise such features are refused, the
    /// default.
    pub hashed_as_ids: bool,
}

/// One `[[exporter]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExporterConfig {
    /// When it writes.
    pub kind: ExporterKind,
    /// Folder under `export/`; the kind by default.
    pub name: String,
    /// Exports kept; 5 by default, 0 = all.
    pub exports_to_keep: usize,
    /// What `best` compares; `loss` by default.
    pub metric: String,
    /// Whether a higher metric is better; false for `loss` and `average_loss`, true otherwise.
    pub higher_is_better: bool,
    /// What it writes.
    #[serde(flatten)]
    pub form: ExportForm,
}

/// How training is distributed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StrategyConfig {
    /// Where parameters live.
    pub kind: StrategyKind,
    /// When gradients take effect; `async` by default.
    pub update: UpdateConfig,
    /// Who reads the input.
    pub replication: Replication,
    /// Copies of the model that one process trains, under `mirrored` and `central_storage`; absent = one for each core.
    pub replicas: Option<usize>,
    /// Whether learning rates are multiplied by the batches of a step, or by the tasks that train (Goyal et al., 2017,
    /// the linear scaling rule); false by default.
    pub scale_learning_rate: bool,
    /// How variables are cut; by default pieces of at least 256 KiB, at most one per ps.
    pub partitioner: PartitionerConfig,
    /// How slices are placed.
    pub placement: PlacementConfig,
    /// Whether the chief trains too; true by default, false under in-graph replication.
    pub chief_trains: bool,
    /// Steps whose parameters a task reads ahead, while it computes; 0 by default, as TensorFlow does it.
    pub pipeline_depth: usize,
    /// How values travel; `float32` by default.
    pub payload: PayloadType,
}

/// The type of values on the wire. On the servers and in the model they are `float32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadType {
    /// As they are.
    Float32,
    /// 8 bits of precision, the range of `float32`.
    Bfloat16,
    /// 11 bits of precision, at most 65504.
    Float16,
}

/// Where parameters live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyKind {
    /// On parameter servers (`tf.distribute.ParameterServerStrategy`).
    ParameterServer,
    /// In every worker, which add up their gradients (`tf.distribute.MultiWorkerMirroredStrategy`).
    MultiWorkerMirrored,
    /// Tables on parameter servers, everything else in every worker.
    Hybrid,
    /// In every replica of one process (`tf.distribute.MirroredStrategy`).
    Mirrored,
    /// Once, for several replicas of one process (`tf.distribute.experimental.CentralStorageStrategy`).
    CentralStorage,
    /// Once, for one replica (`tf.distribute.OneDeviceStrategy`).
    OneDevice,
}

impl StrategyKind {
    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::ParameterServer => "parameter_server",
            Self::MultiWorkerMirrored => "multi_worker_mirrored",
            Self::Hybrid => "hybrid",
            Self::Mirrored => "mirrored",
            Self::CentralStorage => "central_storage",
            Self::OneDevice => "one_device",
        }
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

/// When gradients take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum UpdateConfig {
    /// As they come.
    Async,
    /// Together, as the mean of a step (`tf.compat.v1.train.SyncReplicasOptimizer`).
    Sync {
        /// Batches of a step, at least 1; absent = one for each task that trains. Tasks beyond it are backup workers.
        replicas_to_aggregate: Option<usize>,
    },
    /// As they come, while nobody is far ahead of the slowest (Ho et al., 2013).
    Ssp {
        /// Steps between the fastest and the slowest task, at most.
        staleness_steps_max: u64,
    },
}

/// Who reads the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Replication {
    /// Each worker reads its own (`between_graph`).
    BetweenGraph,
    /// The chief reads, and hands batches to workers that only compute.
    InGraph,
}

/// How variables are cut (see `trainyard_variable::Partitioner`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PartitionerConfig {
    /// As many pieces for every variable.
    Fixed {
        /// Pieces, at least 1.
        num_shards: usize,
    },
    /// Pieces of at least this size.
    MinSize {
        /// At least 1; 262144 by default.
        min_shard_bytes: usize,
        /// At least 1; absent = the number of parameter servers.
        max_shards: Option<usize>,
    },
    /// Pieces of at most this size.
    MaxSize {
        /// At least 1.
        max_shard_bytes: usize,
        /// At least 1; absent = no bound.
        max_shards: Option<usize>,
    },
}

/// How slices are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlacementConfig {
    /// In turn.
    RoundRobin,
    /// By bytes (the default).
    Greedy,
}
