//! A job after validation: every value is in range, and every cross reference holds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trainyard_diagnostic::Document;
use trainyard_input_options::{BadRows, Compression, Format, Sharding};
use trainyard_optimizer::{Guard, Update};
use trainyard_tensor::Encoding;
use trainyard_variable::{Partitioner, Placement};
use trainyard_write_ahead_log::Durability;

use crate::{FeatureConfig, ModelConfig, OptimizerSection};

/// One training run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// The job file, for messages.
    pub path: PathBuf,
    /// Directory of checkpoints, evaluations and exports. A relative path is relative to the working folder.
    pub model_dir: PathBuf,
    /// Folder of this machine for files that cannot be in a bucket; see [`Job::local_dir`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_dir: Option<PathBuf>,
    /// Operation of the run.
    pub run: RunConfig,
    /// Input of training and evaluation.
    pub input: InputConfig,
    /// Feature columns, in file order.
    pub features: Vec<FeatureConfig>,
    /// The model.
    pub model: ModelConfig,
    /// End of training.
    pub train: TrainSpec,
    /// Schedule and kind of evaluations.
    pub eval: EvalSpec,
    /// Further evaluations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evaluations: Vec<EvaluationConfig>,
    /// Exports after evaluations.
    pub exporters: Vec<ExporterConfig>,
    /// Distribution of training.
    pub strategy: StrategyConfig,
    /// Durability and memory of parameter servers.
    pub parameter_servers: ParameterServersConfig,
    /// The job file with the changes of `--set`.
    #[serde(skip)]
    pub(crate) written: Written,
}

/// The document of a job file. It does not take part in comparisons, so that jobs with the same settings are equal.
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

/// Bounds on the values of a push, and the bound on rejections.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GuardSection {
    /// Bounds on the values of a push.
    #[serde(flatten)]
    pub bounds: Guard,
    /// Rejected pushes among the latest 64 of a task after which the task is excluded; 16 by default, 0 = never.
    pub quarantine_after: u32,
}

impl Default for GuardSection {
    fn default() -> Self {
        Self {
            bounds: Guard::default(),
            quarantine_after: 16,
        }
    }
}

/// Durability, memory and guard of parameter servers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ParameterServersConfig {
    /// Condition under which a push is acknowledged.
    pub durability: Durability,
    /// Length of a server's log at which it requests a checkpoint, in bytes; 4 GiB by default.
    pub log_bytes_max: u64,
    /// Memory budget of a server's process for parameters and the data that grows with them, in bytes; absent = no
    /// bound.
    pub memory_bytes_max: Option<u64>,
    /// Bounds on the values of pushes.
    pub guard: GuardSection,
}

impl Default for ParameterServersConfig {
    fn default() -> Self {
        let durability = Durability::default();
        let guard = GuardSection::default();
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
    /// Seed of parameter initialization and shuffling; 0 by default.
    pub seed: u64,
    /// Steps between summaries; 100 by default, 0 = none.
    pub save_summary_steps: u64,
    /// Whether histograms of all variables are written at each checkpoint; false by default.
    pub summary_histograms: bool,
    /// Steps between checkpoints; excludes `save_checkpoints_secs`.
    pub save_checkpoints_steps: Option<u64>,
    /// Seconds between checkpoints; 600 if neither is given.
    pub save_checkpoints_secs: Option<u64>,
    /// Number of checkpoints to keep; 5 by default, 0 = all.
    pub keep_checkpoint_max: usize,
    /// Hours after which one more checkpoint is kept permanently; 10000 by default.
    pub keep_checkpoint_every_n_hours: f64,
    /// Steps between progress lines of the log; 100 by default, 0 = none.
    pub log_step_count_steps: u64,
    /// Timeout for the other tasks at start; 7200 by default.
    pub session_creation_timeout_secs: u64,
    /// Threads that share the work of a step; 0 = the number of cores that the process may use.
    pub intra_op_parallelism_threads: usize,
}

/// Input of training and evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputConfig {
    /// Record format; for libsvm files, with the base of their indices.
    #[serde(flatten)]
    pub format: Format,
    /// Compression of the files; absent = by the extension of each file's name.
    pub compression: Option<Compression>,
    /// Column names of files without a header line; absent = the first line of each file holds them.
    pub columns: Option<Vec<String>>,
    /// The label.
    pub label: LabelConfig,
    /// Column with the weight of each example.
    pub weight_column: Option<String>,
    /// Whether spaces around fields are removed; true by default.
    pub trim: bool,
    /// Treatment of bad rows.
    pub bad_rows: BadRows,
    /// Most bad rows of a task under `skip`; 100 by default.
    pub bad_rows_max: u64,
    /// Texts that stand for a missing value, besides the empty text; none by default.
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
    /// Byte between the labels of one record, for heads with several labels; `|` by default.
    pub separator: u8,
}

/// One input: its files, and how they become batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputPart {
    /// Paths, URLs and patterns, as written; a relative path is relative to the working folder, then to the job file.
    pub files: Vec<String>,
    /// Records in a batch; 128 by default.
    pub batch_size: usize,
    /// Records in the shuffle buffer; 0 = file order. 10000 by default for training, 0 for evaluation.
    pub shuffle_rows: usize,
    /// Number of passes; absent = unlimited in training, one in evaluation.
    pub epochs: Option<u64>,
    /// Division of the records among the workers; `dynamic` by default in training.
    pub sharding: Sharding,
    /// Number of batches that are read ahead; 4 by default.
    pub prefetch_batches: usize,
}

/// End of training (`tf.estimator.TrainSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainSpec {
    /// Global step at which training ends, at least 1; absent = at the end of the input.
    pub max_steps: Option<u64>,
    /// Bound on the gradients of a step, as `trainyard_optimizer::Clipping` reads it; absent = none.
    pub clip_gradients: Option<OptimizerSection>,
    /// Checkpoint whose values are the initial values; absent = random initialization.
    pub warm_start: Option<WarmStartConfig>,
    /// Evaluations that end training earlier; absent = never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<EarlyStoppingConfig>,
}

/// Evaluations that end training (`tf.estimator.experimental.stop_if_no_decrease_hook` and its siblings). The job ends
/// at its best checkpoint. At least one of the first three bounds is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EarlyStoppingConfig {
    /// Name of the metric; `loss` by default.
    pub metric: String,
    /// Whether a higher metric is better; false for `loss` and `average_loss`, true otherwise.
    pub higher_is_better: bool,
    /// Evaluations without improvement after the best one that end the job; at least 1.
    pub max_evaluations_without_improvement: Option<u64>,
    /// Steps without improvement after the best evaluation that end the job; at least 1.
    pub max_steps_without_improvement: Option<u64>,
    /// Value of the metric at which the job ends.
    pub stop_at: Option<f64>,
    /// Steps before which no evaluation ends the job; 0 by default.
    pub min_steps: u64,
    /// Largest gain that does not count as improvement; 0 by default.
    pub min_delta: f64,
}

/// Source of the initial values of a new model (`tf.estimator.WarmStartSettings`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmStartConfig {
    /// A checkpoint of Trainyard (a folder `model.ckpt-<step>`, or a model directory, whose latest checkpoint counts),
    /// or the prefix of a TensorFlow checkpoint. A relative path is relative to the working folder, then to the job
    /// file.
    pub from: String,
    /// Regular expression that must match the whole name of a variable; `.*` by default.
    pub variables: String,
    /// (variable of this job, name in the checkpoint), if the names differ.
    pub rename: Vec<(String, String)>,
}

/// Schedule and kind of evaluations (`tf.estimator.EvalSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvalSpec {
    /// Batches per evaluation; absent = to the end of the input.
    pub steps: Option<u64>,
    /// Seconds before the first evaluation; 120 by default.
    pub start_delay_secs: u64,
    /// Least seconds between evaluations; 600 by default.
    pub throttle_secs: u64,
    /// Whether training data is also evaluated, to show overfitting; false by default.
    pub on_training_data: bool,
    /// Whether every checkpoint is evaluated, in order; false by default: only the newest, as evaluations finish.
    pub every_checkpoint: bool,
    /// Column that divides the examples into groups for the group AUC; absent = no group AUC.
    pub group_auc_column: Option<String>,
}

/// A further evaluation of each evaluated checkpoint (`name` of `tf.estimator.EvalSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluationConfig {
    /// Name of the evaluation. Its results are in `eval_<name>`.
    pub name: String,
    /// Input of the evaluation.
    #[serde(flatten)]
    pub input: InputPart,
    /// Batches per evaluation; absent = to the end of the input.
    pub steps: Option<u64>,
}

/// Trigger of an exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExporterKind {
    /// After every evaluation (`LatestExporter`).
    Latest,
    /// When the metric is better than in all earlier evaluations (`BestExporter`).
    Best,
    /// After the last evaluation (`FinalExporter`).
    Final,
}

/// Format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// The variables, in one file `model.safetensors` (the default).
    Safetensors,
    /// The model as an ONNX graph that predicts, in one file `model.onnx`.
    Onnx,
}

impl ExportFormat {
    /// Every format with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] =
        [("safetensors", Self::Safetensors), ("onnx", Self::Onnx)];
}

/// Files of an export besides its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportForm {
    /// Formats, at least one; safetensors by default.
    pub formats: Vec<ExportFormat>,
    /// Whether the ids of features that ONNX cannot hash become inputs of the graph. By default, such features are
    /// refused.
    pub hashed_as_ids: bool,
}

/// One `[[exporter]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExporterConfig {
    /// Trigger of the exporter.
    pub kind: ExporterKind,
    /// Folder under `export/`; the kind by default.
    pub name: String,
    /// Number of exports to keep; 5 by default, 0 = all.
    pub exports_to_keep: usize,
    /// Metric that `best` compares; `loss` by default.
    pub metric: String,
    /// Whether a higher metric is better; false for `loss` and `average_loss`, true otherwise.
    pub higher_is_better: bool,
    /// Files that it writes.
    #[serde(flatten)]
    pub form: ExportForm,
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
    /// Whether learning rates are multiplied by the batches of a step, or by the tasks that train (Goyal et al., 2017,
    /// the linear scaling rule); false by default.
    pub scale_learning_rate: bool,
    /// Division of variables into slices; by default slices of at least 256 KiB, at most one per ps.
    pub partitioner: Partitioner,
    /// Placement of slices on parameter servers.
    pub placement: Placement,
    /// Whether the chief also trains; true by default, false under in-graph replication.
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

/// Update mode, and the size of a synchronous step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UpdateSection {
    /// When gradients take effect; `async` by default.
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
