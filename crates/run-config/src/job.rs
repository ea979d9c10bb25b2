//! A job, fully checked: every value here is in range and every cross reference holds.

use std::path::PathBuf;

use serde::Serialize;

/// One training run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// The job file, for messages.
    pub path: PathBuf,
    /// Where checkpoints, evaluations and exports go. A relative path is relative to the working folder.
    pub model_dir: PathBuf,
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
    /// What is exported after evaluations.
    pub exporters: Vec<ExporterConfig>,
    /// How training is distributed.
    pub strategy: StrategyConfig,
}

/// Operation of a run (`tf.estimator.RunConfig`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunConfig {
    /// Seed of initial values and shuffles; 0 by default.
    pub seed: u64,
    /// Steps between summaries; 100 by default, 0 = none.
    pub save_summary_steps: u64,
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
}

/// Record formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Comma-separated, quotes allowed.
    Csv,
    /// Tab-separated, no quotes.
    Tsv,
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
}

/// One input: files and the way they become batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputPart {
    /// Paths and globs, as written; a relative one is relative to the working folder, then to the job file.
    pub files: Vec<String>,
    /// Records in a batch; 128 by default.
    pub batch_size: usize,
    /// Records in the shuffle buffer; 0 = file order. 10000 by default for training, 0 for evaluation.
    pub shuffle_rows: usize,
    /// Passes over the data; absent = for ever in training, once in evaluation.
    pub epochs: Option<u64>,
    /// How records are divided over workers; `row` by default.
    pub sharding: Sharding,
    /// Batches read ahead; 4 by default.
    pub prefetch_batches: usize,
}

/// One `[[feature]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeatureConfig {
    /// Name, unique in the job. By default the column's name, `<column>_bucketized` for buckets, the parts joined by
    /// `_X_` for a cross.
    pub name: String,
    /// What it is made of.
    pub kind: FeatureKind,
    /// Whether it feeds the linear part.
    pub wide: bool,
    /// How it feeds the deep part.
    pub deep: Option<Deep>,
}

impl FeatureConfig {
    /// Returns a numeric feature of the column's name, as it is read, without which a record is bad.
    pub fn numeric(column: impl Into<String>) -> Self {
        let column = column.into();
        let kind =
            FeatureKind::Numeric { column: column.clone(), normalizer: Normalizer::None, default: None };
        Self { name: column, kind, wide: false, deep: Some(Deep::Value) }
    }
}

/// How a feature enters the deep part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Deep {
    /// A numeric value as it is.
    Value,
    /// One position per bucket.
    Indicator,
    /// A learned vector of this many values, the mean over a row's ids.
    Embedding(usize),
}

/// Transformations of a numeric column.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalizer {
    /// As it is.
    None,
    /// `ln(1 + max(x, 0))`.
    Log1p,
    /// `(x - mean) / stddev`.
    Standardize {
        /// Subtracted.
        mean: f32,
        /// Divided by; not 0.
        stddev: f32,
    },
}

/// Feature column kinds (`tf.feature_column`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum FeatureKind {
    /// `numeric_column`.
    Numeric {
        /// Input column.
        column: String,
        /// Applied to each value.
        normalizer: Normalizer,
        /// Stands for a missing value; absent = a missing value is a bad row.
        default: Option<f32>,
    },
    /// `bucketized_column`.
    Bucketized {
        /// Input column.
        column: String,
        /// Strictly ascending.
        boundaries: Vec<f32>,
        /// Stands for a missing value; absent = a missing value is a bad row.
        default: Option<f32>,
    },
    /// `categorical_column_with_hash_bucket` over text.
    Hashed {
        /// Input column.
        column: String,
        /// Number of buckets, at least 1.
        buckets: u32,
    },
    /// `categorical_column_with_vocabulary_list` (or `_file`, read when the job was).
    Vocabulary {
        /// Input column.
        column: String,
        /// Values, in id order, without repetition.
        values: Vec<String>,
        /// Buckets for values that are not listed; 0 = such a value has no id.
        oov_buckets: u32,
    },
    /// `categorical_column_with_identity`.
    Identity {
        /// Input column.
        column: String,
        /// Number of ids, at least 1.
        buckets: u32,
        /// Stands for an id out of range; absent = such an id is a bad row.
        default: Option<u32>,
    },
    /// `crossed_column`.
    Crossed {
        /// Names of other features (bucketized) or input columns, at least 2, in hashing order.
        keys: Vec<String>,
        /// Number of buckets, at least 1.
        buckets: u32,
    },
}

/// Premade estimators, and models of a program of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// `LinearClassifier`.
    LinearClassifier,
    /// `LinearRegressor`.
    LinearRegressor,
    /// `DNNClassifier`.
    DnnClassifier,
    /// `DNNRegressor`.
    DnnRegressor,
    /// `DNNLinearCombinedClassifier`.
    DnnLinearCombinedClassifier,
    /// `DNNLinearCombinedRegressor`.
    DnnLinearCombinedRegressor,
    /// A classifier that a program brings along.
    CustomClassifier,
    /// A regressor that a program brings along.
    CustomRegressor,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelConfig {
    /// Which premade estimator, or that there is none.
    pub kind: ModelKind,
    /// Widths of the hidden layers; empty for linear models, and where a custom model's job names none.
    pub hidden_units: Vec<usize>,
    /// Classes of a classifier; 2 by default, or the length of the label vocabulary.
    pub n_classes: usize,
    /// Optimizer of the linear part: Ftrl with learning rate min(0.2, 1/sqrt(columns)) by default, 0.005 instead of 0.2 when combined.
    pub linear_optimizer: OptimizerSection,
    /// Optimizer of the deep part: Adagrad with learning rate 0.05 by default (TensorFlow 1).
    pub dnn_optimizer: OptimizerSection,
    /// Optimizer of a custom model, where its job names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerSection>,
}

/// An optimizer as written: known keys of a known kind, defaults not filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OptimizerSection {
    /// `sgd`, `adagrad`, `adam` or `ftrl`.
    pub kind: String,
    /// Hyper-parameters that were given, by TensorFlow's name.
    pub values: Vec<(String, f64)>,
}

/// When training ends (`tf.estimator.TrainSpec`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainSpec {
    /// Global step at which training ends, at least 1; absent = when the input is used up.
    pub max_steps: Option<u64>,
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
}

/// How training is distributed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StrategyConfig {
    /// Where parameters live.
    pub kind: StrategyKind,
    /// How variables are cut; by default pieces of at least 256 KiB, at most one per ps.
    pub partitioner: PartitionerConfig,
    /// How slices are placed.
    pub placement: PlacementConfig,
    /// Whether the chief trains too; true by default.
    pub chief_trains: bool,
}

/// Where parameters live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StrategyKind {
    /// On parameter servers.
    ParameterServer,
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
