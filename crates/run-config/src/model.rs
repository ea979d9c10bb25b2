//! The model configuration, after validation.

use std::collections::BTreeMap;

use crate::Regularizer;
use serde::{Serialize, Serializer};
use trainyard_variable::Initializer;

use crate::{Combiner, Params};

/// Parts of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A bias only.
    Baseline,
    /// A linear part.
    Linear,
    /// Dense layers.
    Dnn,
    /// A linear part and dense layers.
    DnnLinearCombined,
    /// A factorization machine: a linear part and the products of all pairs of embeddings (Rendle 2010).
    Fm,
    /// A factorization machine and dense layers over the same embeddings (Guo et al. 2017).
    DeepFm,
    /// Cross layers under dense layers (DCN-v2, stacked; Wang et al. 2021).
    Dcn,
    /// Products of pairs of embeddings and of dense layers over the other inputs (Naumov et al. 2019).
    Dlrm,
    /// Multi-head self-attention over the features (Song et al. 2019).
    AutoInt,
    /// A compressed interaction network over the embeddings, dense layers and a linear part (Lian et al. 2018).
    XDeepFm,
    /// Two streams of dense layers and a bilinear product of their outputs (Mao et al. 2023).
    FinalMlp,
    /// Blocks that multiply the layer-normalised input by masks made of it (Wang et al. 2021).
    MaskNet,
    /// Attention over histories of ids, and dense layers (Zhou et al. 2018).
    Din,
    /// Dense layers that all tasks share, and a tower for each task (Caruana 1997).
    SharedBottom,
    /// Experts that all tasks share, and a gate and a tower for each task (Ma et al. 2018).
    Mmoe,
    /// Levels of experts that tasks share, and experts of each task, with gates (Tang et al. 2020).
    Ple,
    /// The probability of a click, and of a click with a conversion, over shared embeddings (Ma et al. 2018).
    Esmm,
    /// A model that the program provides.
    Custom,
}

/// Target of a premade estimator's predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// A class.
    Classifier,
    /// Numbers.
    Regressor,
    /// The target of the model's head.
    Estimator,
    /// The target of each task's head.
    Tasks,
}

/// A premade estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelKind {
    /// Its parts.
    pub family: Family,
    /// The target of its predictions.
    pub goal: Goal,
}

const fn kind(family: Family, goal: Goal) -> ModelKind {
    ModelKind { family, goal }
}

impl ModelKind {
    /// Every kind with its name in a job file.
    pub const NAMES: [(&'static str, Self); 47] = [
        (
            "baseline_classifier",
            kind(Family::Baseline, Goal::Classifier),
        ),
        (
            "baseline_regressor",
            kind(Family::Baseline, Goal::Regressor),
        ),
        (
            "baseline_estimator",
            kind(Family::Baseline, Goal::Estimator),
        ),
        ("linear_classifier", kind(Family::Linear, Goal::Classifier)),
        ("linear_regressor", kind(Family::Linear, Goal::Regressor)),
        ("linear_estimator", kind(Family::Linear, Goal::Estimator)),
        ("dnn_classifier", kind(Family::Dnn, Goal::Classifier)),
        ("dnn_regressor", kind(Family::Dnn, Goal::Regressor)),
        ("dnn_estimator", kind(Family::Dnn, Goal::Estimator)),
        (
            "dnn_linear_combined_classifier",
            kind(Family::DnnLinearCombined, Goal::Classifier),
        ),
        (
            "dnn_linear_combined_regressor",
            kind(Family::DnnLinearCombined, Goal::Regressor),
        ),
        (
            "dnn_linear_combined_estimator",
            kind(Family::DnnLinearCombined, Goal::Estimator),
        ),
        ("fm_classifier", kind(Family::Fm, Goal::Classifier)),
        ("fm_regressor", kind(Family::Fm, Goal::Regressor)),
        ("fm_estimator", kind(Family::Fm, Goal::Estimator)),
        ("deepfm_classifier", kind(Family::DeepFm, Goal::Classifier)),
        ("deepfm_regressor", kind(Family::DeepFm, Goal::Regressor)),
        ("deepfm_estimator", kind(Family::DeepFm, Goal::Estimator)),
        ("dcn_classifier", kind(Family::Dcn, Goal::Classifier)),
        ("dcn_regressor", kind(Family::Dcn, Goal::Regressor)),
        ("dcn_estimator", kind(Family::Dcn, Goal::Estimator)),
        ("dlrm_classifier", kind(Family::Dlrm, Goal::Classifier)),
        ("dlrm_regressor", kind(Family::Dlrm, Goal::Regressor)),
        ("dlrm_estimator", kind(Family::Dlrm, Goal::Estimator)),
        (
            "autoint_classifier",
            kind(Family::AutoInt, Goal::Classifier),
        ),
        ("autoint_regressor", kind(Family::AutoInt, Goal::Regressor)),
        ("autoint_estimator", kind(Family::AutoInt, Goal::Estimator)),
        (
            "xdeepfm_classifier",
            kind(Family::XDeepFm, Goal::Classifier),
        ),
        ("xdeepfm_regressor", kind(Family::XDeepFm, Goal::Regressor)),
        ("xdeepfm_estimator", kind(Family::XDeepFm, Goal::Estimator)),
        (
            "final_mlp_classifier",
            kind(Family::FinalMlp, Goal::Classifier),
        ),
        (
            "final_mlp_regressor",
            kind(Family::FinalMlp, Goal::Regressor),
        ),
        (
            "final_mlp_estimator",
            kind(Family::FinalMlp, Goal::Estimator),
        ),
        (
            "masknet_classifier",
            kind(Family::MaskNet, Goal::Classifier),
        ),
        ("masknet_regressor", kind(Family::MaskNet, Goal::Regressor)),
        ("masknet_estimator", kind(Family::MaskNet, Goal::Estimator)),
        ("din_classifier", kind(Family::Din, Goal::Classifier)),
        ("din_regressor", kind(Family::Din, Goal::Regressor)),
        ("din_estimator", kind(Family::Din, Goal::Estimator)),
        ("shared_bottom", kind(Family::SharedBottom, Goal::Tasks)),
        ("mmoe", kind(Family::Mmoe, Goal::Tasks)),
        ("ple", kind(Family::Ple, Goal::Tasks)),
        ("esmm", kind(Family::Esmm, Goal::Tasks)),
        ("custom_classifier", kind(Family::Custom, Goal::Classifier)),
        ("custom_regressor", kind(Family::Custom, Goal::Regressor)),
        ("custom_estimator", kind(Family::Custom, Goal::Estimator)),
        ("custom_multi_task", kind(Family::Custom, Goal::Tasks)),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("", |(name, _)| name)
    }

    /// Returns whether `wide` features are used.
    pub fn has_linear(self) -> bool {
        matches!(
            self.family,
            Family::Linear
                | Family::DnnLinearCombined
                | Family::Fm
                | Family::DeepFm
                | Family::XDeepFm
        )
    }

    /// Returns whether the program provides the model.
    pub fn is_custom(self) -> bool {
        self.family == Family::Custom
    }

    /// Returns whether the model has several tasks, each with a label and a head.
    pub fn has_tasks(self) -> bool {
        self.goal == Goal::Tasks
    }

    /// Returns whether `deep` features are used. A custom model treats every feature as deep.
    pub fn has_deep(self) -> bool {
        !matches!(self.family, Family::Baseline | Family::Linear)
    }

    /// Returns whether the model has dense layers.
    pub fn has_dnn(self) -> bool {
        self.has_deep() && self.family != Family::Fm
    }

    /// Returns whether features are wide by default.
    pub(crate) fn wide_by_default(self) -> bool {
        matches!(
            self.family,
            Family::Linear | Family::Fm | Family::DeepFm | Family::XDeepFm
        )
    }
}

impl Serialize for ModelKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Heads (`tf.estimator.*Head`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadKind {
    /// `BinaryClassHead`.
    Binary,
    /// `MultiClassHead`.
    MultiClass,
    /// `MultiLabelHead`.
    MultiLabel,
    /// `RegressionHead`.
    Regression,
    /// `PoissonRegressionHead`.
    Poisson,
    /// `LogisticRegressionHead`.
    LogisticRegression,
}

impl HeadKind {
    /// Every head with its name in a job file.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("binary", Self::Binary),
        ("multi_class", Self::MultiClass),
        ("multi_label", Self::MultiLabel),
        ("regression", Self::Regression),
        ("poisson", Self::Poisson),
        ("logistic_regression", Self::LogisticRegression),
    ];

    /// Heads of a task: those whose label is one value, so that a label may be missing.
    pub const OF_TASKS: [(&'static str, Self); 5] = [
        ("binary", Self::Binary),
        ("multi_class", Self::MultiClass),
        ("regression", Self::Regression),
        ("poisson", Self::Poisson),
        ("logistic_regression", Self::LogisticRegression),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("", |(name, _)| name)
    }

    /// Returns whether labels are classes.
    pub fn has_classes(self) -> bool {
        matches!(self, Self::Binary | Self::MultiClass | Self::MultiLabel)
    }
}

/// Reduction of the losses of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReduction {
    /// Their weighted sum (TensorFlow 1's premade estimators).
    Sum,
    /// Their weighted sum, divided by their number (TensorFlow 2's).
    SumOverBatchSize,
}

impl LossReduction {
    /// Every reduction with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] = [
        ("sum", Self::Sum),
        ("sum_over_batch_size", Self::SumOverBatchSize),
    ];
}

/// Loss of a classifier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LossConfig {
    /// The logistic loss of each logit, or the cross entropy of the classes' softmax (the default).
    #[default]
    CrossEntropy,
    /// Cross entropy times `(1 - p)^gamma` and times `alpha`, where `p` is the predicted probability of the truth.
    /// Examples that are predicted well count less (Lin et al. 2017; `tf.keras.losses.BinaryFocalCrossentropy`,
    /// `CategoricalFocalCrossentropy`).
    Focal {
        /// Exponent, at least 0; 2 by default. 0 is the cross entropy.
        gamma: f32,
        /// Weight of positives, in [0, 1]; negatives have `1 - alpha`. Absent = both have weight 1.
        alpha: Option<f32>,
    },
    /// `max(0, 1 - y x)` of the logit `x`, where `y` is 1 for positives and -1 for negatives (`tf.keras.losses.Hinge`).
    Hinge,
}

impl LossConfig {
    /// Default exponent of the focal loss, as in Keras.
    pub(crate) const GAMMA: f32 = 2.0;

    /// Every loss with its name in a job file, with default parameters.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("cross_entropy", Self::CrossEntropy),
        (
            "focal",
            Self::Focal {
                gamma: Self::GAMMA,
                alpha: None,
            },
        ),
        ("hinge", Self::Hinge),
    ];

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Sets of default values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Defaults {
    /// Mean loss, lazy Adam for the deep part, Adagrad with small accumulators for the linear part, small embeddings.
    Trainyard,
    /// Summed loss; the deep part's Adagrad has learning rate 0.05, in combined models 0.001
    /// (`tf.compat.v1.estimator`).
    Tensorflow1,
    /// Mean loss; the deep part's Adagrad has learning rate 0.001 and epsilon 1e-7 (`tf.estimator`).
    Tensorflow2,
}

impl Defaults {
    /// Every set with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("trainyard", Self::Trainyard),
        ("tensorflow1", Self::Tensorflow1),
        ("tensorflow2", Self::Tensorflow2),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trainyard => "trainyard",
            Self::Tensorflow1 => "tensorflow1",
            Self::Tensorflow2 => "tensorflow2",
        }
    }
}

/// Activation functions between dense layers (`tf.nn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `max(x, 0.2 x)`.
    LeakyRelu,
    /// `x`, or `e^x - 1` below 0.
    Elu,
    /// 1.0507 times elu, with 1.67326 in place of elu's 1 below 0.
    Selu,
    /// `tanh x`.
    Tanh,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `ln(1 + e^x)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// `x sigmoid(x)`.
    Swish,
    /// `x`.
    Linear,
}

impl Activation {
    /// Every activation with its name in a job file.
    pub const NAMES: [(&'static str, Self); 11] = [
        ("relu", Self::Relu),
        ("relu6", Self::Relu6),
        ("leaky_relu", Self::LeakyRelu),
        ("elu", Self::Elu),
        ("selu", Self::Selu),
        ("tanh", Self::Tanh),
        ("sigmoid", Self::Sigmoid),
        ("softplus", Self::Softplus),
        ("softsign", Self::Softsign),
        ("swish", Self::Swish),
        ("linear", Self::Linear),
    ];
}

/// Arrangement of mask blocks (Wang et al. 2021).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskBlocks {
    /// All blocks read the input.
    Parallel,
    /// Each block reads the one before it.
    Serial,
}

impl MaskBlocks {
    /// Every arrangement with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] =
        [("parallel", Self::Parallel), ("serial", Self::Serial)];
}

/// Ids of a history that count where there are more than its most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptIds {
    /// The last of the list.
    Last,
    /// The first of the list.
    First,
}

impl KeptIds {
    /// Every choice with its name in a job file.
    pub const NAMES: [(&'static str, Self); 2] = [("last", Self::Last), ("first", Self::First)];
}

/// A history of ids, and the id that decides how much each of them counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttentionConfig {
    /// Name of the feature of several ids.
    pub history: String,
    /// Name of the feature of one id, which shares the table of the history.
    pub target: String,
    /// Most ids that count in a record, at least 1; 50 by default.
    pub history_max: usize,
    /// Ids that count where a record has more; the last by default.
    pub keep: KeptIds,
}

impl ModelConfig {
    /// Returns whether the label has another mean or deviation than 0 and 1.
    pub fn has_label_scale(&self) -> bool {
        self.label_mean != 0.0 || self.label_stddev != 1.0
    }

    /// Returns the heads: that of the model, or those of its tasks.
    pub fn heads(&self) -> Vec<HeadKind> {
        if self.tasks.is_empty() {
            return vec![self.head];
        }
        self.tasks.iter().map(|task| task.head).collect()
    }

    /// Returns the model as one of a single task.
    #[must_use]
    pub fn of_task(&self, task: &TaskConfig) -> Self {
        Self {
            head: task.head,
            n_classes: task.n_classes,
            tasks: Vec::new(),
            ..self.clone()
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_no_mean(mean: &f32) -> bool {
    *mean == 0.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one(deviation: &f32) -> bool {
    *deviation == 1.0
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelConfig {
    /// Premade or custom model.
    pub kind: ModelKind,
    /// Its head; in a model of several tasks that of the first.
    pub head: HeadKind,
    /// Number of classes, if the head has classes; 1 otherwise. In a model of several tasks that of the first.
    pub n_classes: usize,
    /// Number of values that a regression predicts, at least 1; 1 by default.
    pub label_dimension: usize,
    /// Mean of the label of a regression, which the model adds to what it has learned; 0 by default.
    #[serde(skip_serializing_if = "is_no_mean")]
    pub label_mean: f32,
    /// Standard deviation of the label of a regression, the unit of what the model learns, above 0; 1 by default.
    #[serde(skip_serializing_if = "is_one")]
    pub label_stddev: f32,
    /// Probabilities at which a binary or multi-label head reports accuracy, precision and recall.
    pub thresholds: Vec<f32>,
    /// Classes of a multi-label head with metrics of their own.
    pub classes_for_class_based_metrics: Vec<usize>,
    /// Values of k for which a head reports precision and recall of the k highest predictions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_k: Vec<usize>,
    /// Buckets of predicted probabilities for the calibration of a binary head; 0 = none.
    #[serde(skip_serializing_if = "is_zero")]
    pub calibration_buckets: usize,
    /// Loss of a classifier.
    #[serde(skip_serializing_if = "LossConfig::is_default")]
    pub loss: LossConfig,
    /// Training weight of an example, by its class; empty = 1 for all classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class_weights: Vec<f32>,
    /// Reduction of the losses of a batch.
    pub loss_reduction: LossReduction,
    /// Set of default values for missing keys.
    pub defaults: Defaults,
    /// Widths of the hidden layers; empty without dense layers.
    pub hidden_units: Vec<usize>,
    /// Activation function of each hidden layer; relu by default.
    pub activation: Activation,
    /// Share of a hidden layer's outputs that training drops, in [0, 1); 0 by default.
    pub dropout: f32,
    /// Batch normalisation follows each hidden layer; false by default.
    pub batch_norm: bool,
    /// Number of cross layers of a `dcn` model, at least 1; 2 by default, 0 in other models.
    pub cross_layers: usize,
    /// Rank of the kernels of the cross layers of a `dcn` model; absent = full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_projection_dim: Option<usize>,
    /// Widths of the hidden layers below the products of a `dlrm` model; empty by default and in other models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bottom_units: Vec<usize>,
    /// Number of attention layers of an `autoint` model, at least 1; 3 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub attention_layers: usize,
    /// Heads of an attention layer, at least 1; 2 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub attention_heads: usize,
    /// Numbers of a vector of one head, at least 1; 32 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub attention_dim: usize,
    /// Rows of each layer of the compressed interaction network of an `xdeepfm` model; two of 128 by default, empty in other models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cin_units: Vec<usize>,
    /// Widths of the hidden layers of the second stream of a `final_mlp` model; empty = those of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub second_hidden_units: Vec<usize>,
    /// Heads of the product of the streams of a `final_mlp` model, at least 1; 1 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub fusion_heads: usize,
    /// Widths of the blocks of a `masknet` model; three of 64 by default, empty in other models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mask_units: Vec<usize>,
    /// Width of the layer that makes a mask, in widths of the mask, at least 1; 2 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub mask_ratio: usize,
    /// Arrangement of the blocks of a `masknet` model; parallel by default, absent in other models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_blocks: Option<MaskBlocks>,
    /// Histories of a `din` model with their targets, at least one; empty in other models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attention: Vec<AttentionConfig>,
    /// Widths of the hidden layers of the attention of a `din` model; 80 and 40 by default, empty in other models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attention_units: Vec<usize>,
    /// Widths of the hidden layers of each task's tower; empty by default and in models of one task.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tower_units: Vec<usize>,
    /// Number of experts that the tasks of an `mmoe` or `ple` model share, at least 1; 8 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub experts: usize,
    /// Number of experts of each task in a level of a `ple` model, at least 1; 4 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub task_experts: usize,
    /// Levels of experts of a `ple` model, at least 1; 2 by default, 0 in other models.
    #[serde(skip_serializing_if = "is_zero")]
    pub expert_levels: usize,
    /// Tasks, at least one in the kinds that have tasks; empty in others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskConfig>,
    /// Initial values of embeddings whose feature names none; absent = a truncated normal distribution of deviation
    /// 1/√dimension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_initializer: Option<Initializer>,
    /// Penalty of the embeddings whose feature names none; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_regularizer: Option<Regularizer>,
    /// Penalty of the weights of the linear part, without its bias; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_regularizer: Option<Regularizer>,
    /// Penalty of the kernels of the dense layers; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_regularizer: Option<Regularizer>,
    /// Combination of the weights of a row's ids in the linear part; sum by default.
    pub sparse_combiner: Combiner,
    /// Optimizer of the linear part: that of the job, or the usual one of its defaults.
    pub linear_optimizer: Option<OptimizerSection>,
    /// Optimizer of the deep part: that of the job, or the usual one of its defaults.
    pub dnn_optimizer: Option<OptimizerSection>,
    /// Optimizer of a custom model: that of the job, or the usual one of its defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerSection>,
    /// Keys of a custom model's own.
    #[serde(skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    /// Values that the code of a custom model makes and no key sets, by name, each with its type and a digest. All processes
    /// of a job must have the same ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub constants: BTreeMap<String, String>,
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

/// A task of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskConfig {
    /// Name, which is unique, and no metric's.
    pub name: String,
    /// Its label. Records without it do not count in the task.
    pub label: LabelConfig,
    /// Its head.
    pub head: HeadKind,
    /// Number of classes, if the head has classes; 1 otherwise.
    pub n_classes: usize,
    /// Weight of its loss in the loss of the model, above 0; 1 by default.
    pub weight: f32,
    /// Column with the weight of each example in this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_column: Option<String>,
}

/// An optimizer: valid keys of a valid kind, without TensorFlow's defaults.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OptimizerSection {
    /// Name of the rule.
    pub kind: String,
    /// Hyper-parameters that were given, or are usual, by TensorFlow's names: numbers, flags, and tables for schedules.
    pub values: serde_json::Map<String, serde_json::Value>,
}

impl OptimizerSection {
    /// Returns the hyper-parameters with the name of the rule under `kind`, as the rule is deserialized from JSON.
    pub fn fields(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut fields = self.values.clone();
        fields.insert("kind".to_owned(), self.kind.as_str().into());
        fields
    }
}
