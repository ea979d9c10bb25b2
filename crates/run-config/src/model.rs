//! The model, fully checked.

use serde::{Serialize, Serializer};

use crate::Combiner;

/// What a model is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// A bias alone.
    Baseline,
    /// A linear part.
    Linear,
    /// Dense layers.
    Dnn,
    /// Both.
    DnnLinearCombined,
    /// A factorization machine: a linear part and the products of all pairs of embeddings (Rendle 2010).
    Fm,
    /// A factorization machine and dense layers over the same embeddings (Guo et al. 2017).
    DeepFm,
    /// Cross layers under dense layers (DCN-v2, stacked; Wang et al. 2021).
    Dcn,
    /// What a program brings along.
    Custom,
}

/// What a premade estimator predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// A class.
    Classifier,
    /// Numbers.
    Regressor,
    /// What its head says.
    Estimator,
}

/// A premade estimator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelKind {
    /// What it is made of.
    pub family: Family,
    /// What it predicts.
    pub goal: Goal,
}

const fn kind(family: Family, goal: Goal) -> ModelKind {
    ModelKind { family, goal }
}

impl ModelKind {
    /// Every kind with its name in a job file.
    pub const NAMES: [(&'static str, Self); 24] = [
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
        ("custom_classifier", kind(Family::Custom, Goal::Classifier)),
        ("custom_regressor", kind(Family::Custom, Goal::Regressor)),
        ("custom_estimator", kind(Family::Custom, Goal::Estimator)),
    ];

    /// Returns the name in a job file.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("", |(name, _)| name)
    }

    /// Returns whether `wide` features have a meaning.
    pub fn has_linear(self) -> bool {
        matches!(
            self.family,
            Family::Linear | Family::DnnLinearCombined | Family::Fm | Family::DeepFm
        )
    }

    /// Returns whether the program brings the model along.
    pub fn is_custom(self) -> bool {
        self.family == Family::Custom
    }

    /// Returns whether `deep` features have a meaning. To a custom model, every feature is deep.
    pub fn has_deep(self) -> bool {
        !matches!(self.family, Family::Baseline | Family::Linear)
    }

    /// Returns whether it has dense layers.
    pub fn has_dnn(self) -> bool {
        self.has_deep() && self.family != Family::Fm
    }

    /// Returns whether features are wide unless the job says otherwise.
    pub(crate) fn wide_by_default(self) -> bool {
        matches!(self.family, Family::Linear | Family::Fm | Family::DeepFm)
    }
}

impl Serialize for ModelKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What logits mean (`tf.estimator.*Head`).
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

/// How the losses of a batch become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReduction {
    /// Their weighted sum (TensorFlow 1's premade estimators).
    Sum,
    /// Their weighted sum, divided by their number (TensorFlow 2's).
    SumOverBatchSize,
}

/// What a classifier minimizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LossConfig {
    /// The logistic loss of each logit, or the cross entropy of the classes' softmax (the default).
    #[default]
    CrossEntropy,
    /// The same, times `(1 - p)^gamma` for the probability `p` that the model gives to the truth, and times `alpha`: examples
    /// that are right already count less (Lin et al. 2017; `tf.keras.losses.BinaryFocalCrossentropy`,
    /// `CategoricalFocalCrossentropy`).
    Focal {
        /// At least 0; 2 by default. 0 is the cross entropy.
        gamma: f32,
        /// Weight of positives, in [0, 1]; negatives have `1 - alpha`. Absent = both count 1.
        alpha: Option<f32>,
    },
    /// `max(0, 1 - y x)` of the logit `x` and `y`, which is 1 of positives and -1 of negatives (`tf.keras.losses.Hinge`).
    Hinge,
}

impl LossConfig {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whose values fill in what a job does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Defaults {
    /// Mean loss; the deep part's Adagrad has learning rate 0.05.
    Trainyard,
    /// Summed loss; the deep part's Adagrad has learning rate 0.05, 0.001 in combined models (`tf.compat.v1.estimator`).
    Tensorflow1,
    /// Mean loss; the deep part's Adagrad has learning rate 0.001 and epsilon 1e-7 (`tf.estimator`).
    Tensorflow2,
}

/// Functions between dense layers (`tf.nn`).
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
    /// 1.0507 times elu with 1.67326 for the 1 below 0.
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

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelConfig {
    /// Which premade estimator.
    pub kind: ModelKind,
    /// What its logits mean.
    pub head: HeadKind,
    /// Classes of a head that has them; 1 otherwise.
    pub n_classes: usize,
    /// Numbers that a regression predicts, at least 1; 1 by default.
    pub label_dimension: usize,
    /// Probabilities at which a binary or multi-label head reports accuracy, precision and recall.
    pub thresholds: Vec<f32>,
    /// Classes of a multi-label head that are reported one by one.
    pub classes_for_class_based_metrics: Vec<usize>,
    /// Numbers of predictions of which a head reports how many of the highest are right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_k: Vec<usize>,
    /// Buckets of predicted probabilities of which a binary head reports how often they came true; 0 = none.
    #[serde(skip_serializing_if = "is_zero")]
    pub calibration_buckets: usize,
    /// What a classifier minimizes.
    #[serde(skip_serializing_if = "LossConfig::is_default")]
    pub loss: LossConfig,
    /// What an example counts in training, by its class; empty = 1 each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub class_weights: Vec<f32>,
    /// How the losses of a batch become one.
    pub loss_reduction: LossReduction,
    /// Whose defaults fill in the rest.
    pub defaults: Defaults,
    /// Widths of the hidden layers; empty without dense layers.
    pub hidden_units: Vec<usize>,
    /// Function behind each hidden layer; relu by default.
    pub activation: Activation,
    /// Share of a hidden layer's outputs that is dropped in training, in [0, 1); 0 by default.
    pub dropout: f32,
    /// Whether each hidden layer is followed by batch normalisation; false by default.
    pub batch_norm: bool,
    /// Cross layers of a `dcn` model, at least 1; 2 by default, 0 in others.
    pub cross_layers: usize,
    /// How the linear part combines the weights of a row's ids; sum by default.
    pub sparse_combiner: Combiner,
    /// Optimizer of the linear part: Ftrl with learning rate min(0.2, 1/sqrt(columns)) by default, 0.005 instead of 0.2
    /// when combined, 0.3 of a baseline.
    pub linear_optimizer: Option<OptimizerSection>,
    /// Optimizer of the deep part: Adagrad by default.
    pub dnn_optimizer: Option<OptimizerSection>,
    /// Optimizer of a custom model, where its job names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<OptimizerSection>,
}

/// An optimizer as written: known keys of a known kind, defaults not filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OptimizerSection {
    /// Name of the rule.
    pub kind: String,
    /// Hyper-parameters that were given, by TensorFlow's name: numbers, switches, and tables for schedules.
    pub values: serde_json::Map<String, serde_json::Value>,
}

impl OptimizerSection {
    /// Returns the hyper-parameters with the name of the rule under `kind`, as the rule itself is read from JSON.
    pub fn fields(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut fields = self.values.clone();
        fields.insert("kind".to_owned(), self.kind.as_str().into());
        fields
    }
}
