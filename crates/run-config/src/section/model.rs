//! `[model]`: the premade estimator, its head and its optimizers.

use std::collections::BTreeMap;

use trainyard_diagnostic::{Bound, Code, Diagnostic, Key, Section, Takes, Value, section};
use trainyard_variable::Initializer;

use super::attention::{attention_taken, read_attention};
use super::initializer::{read_initializer, takes_initializer};
use super::optimizer::{
    Usual, read_linear_optimizer, read_optimizer, takes_linear_optimizer, takes_optimizer,
};
use super::regularizer::{read_regularizer, takes_regularizer};
use super::task::{check_esmm, read_tasks, tasks_taken};
use crate::limit::{Limit, OfSome, of_some, required_by};
use crate::without_effect::warn_of_key;
use crate::{
    Activation, AttentionConfig, Combiner, Defaults, Family, Goal, HeadKind, InputConfig,
    LossConfig, LossReduction, MaskBlocks, ModelConfig, ModelKind, OptimizerSection, Params,
    Regularizer, TaskConfig,
};

/// Widest hidden layer.
const UNITS_MAX: u64 = 1 << 20;
/// Most buckets of a calibration.
const CALIBRATION_BUCKETS_MAX: u64 = 1000;
/// Most cross layers and attention layers.
const LAYERS_MAX: u64 = 64;
/// Most widths of a mask in the layer that makes it.
const MASK_RATIO_MAX: u64 = 64;
/// Most heads of an attention layer.
const HEADS_MAX: u64 = 64;
/// Most experts of a level.
const EXPERTS_MAX: u64 = 1024;
/// Most classes, and most numbers of a label.
pub(super) const CLASSES_MAX: u64 = 1 << 24;

section! {
    /// Keys of `[model]`.
    #[derive(Debug)]
    pub(crate) struct ModelKeys {
        /// `baseline_`, `linear_`, `dnn_`, `dnn_linear_combined_`, `fm_`, `deepfm_`, `dcn_`, `dlrm_`, `autoint_`, `xdeepfm_`, `final_mlp_`,
        /// `masknet_` or `din_`, then
        /// `classifier`, `regressor` or `estimator` ([the kinds](#kinds-of-models)). `custom_classifier`, `custom_regressor`, `custom_estimator`, `custom_multi_task`: the program
        /// supplies the model ([custom-models.md](custom-models.md)), `[[feature]]` is optional, and the keys are those
        /// of a deep part
        kind: Option<ModelKind> = choice("model", &ModelKind::NAMES).required_or_invalid("\"dnn_classifier\"");
        /// for an `_estimator`: `binary` `multi_class` `multi_label` `regression` `poisson` `logistic_regression`
        head: Option<HeadKind> = choice("head", &HeadKind::NAMES).optional_or_invalid("required with it");
        /// number of classes
        n_classes: Option<usize> = integer(2..=CLASSES_MAX).optional("2, or the length of the label's vocabulary");
        /// number of values that a regression predicts
        label_dimension: usize = integer(1..=CLASSES_MAX).or(1);
        /// `regression`: mean of the label. The model learns (label - `label_mean`) / `label_stddev`, so that its values are near 1
        /// whatever the unit of the label is. Predictions, losses and metrics are in the unit of the label
        label_mean: f32 = single(Bound::None).or(0.0);
        /// `regression`: standard deviation of the label
        label_stddev: f32 = single(Bound::Positive).or(1.0);
        /// `binary` and `multi_label`: probabilities at which accuracy, precision, recall and F1 score are reported
        thresholds: Option<Vec<f32>> = custom(read_thresholds, || Takes::Numbers, "").or_invalid(Vec::new()).said("none");
        /// a list of counts, for example `[1, 5]`: `precision_at_k/5` and `recall_at_k/5` measure how many of the 5
        /// highest predictions are correct, counted over all records (`tf.compat.v1.metrics.precision_at_k`,
        /// `recall_at_k`). With `multi_class` and `multi_label` they are the highest among the classes of a record.
        /// With a `binary` head they are the highest among the records of each group, so `eval.group_auc_column` is
        /// required
        top_k: Vec<usize> = integers(1..=CLASSES_MAX).or(Vec::new()).said("none");
        /// `binary`: number of buckets of predicted probabilities, of equal width, 1 to 1000. For each bucket that has
        /// records, evaluations report `calibration/0.2_to_0.3/prediction_mean`, `/label_mean` and `/share` (of the
        /// weight). They also report `calibration_error`, the mean distance between prediction and label (Guo et al.
        /// 2017)
        calibration_buckets: usize = integer(1..=CALIBRATION_BUCKETS_MAX).or(0).said("none");
        /// numbers of the classes, from 0, that a `multi_label` head reports individually
        classes_for_class_based_metrics: Vec<usize> = integers(0..=CLASSES_MAX).or(Vec::new()).said("none");
        /// for heads with classes. `cross_entropy`. `focal`: cross entropy times (1 - p)^`focal_gamma`, where p is the
        /// probability of the true class (Lin et al. 2017, `tf.keras.losses.BinaryFocalCrossentropy`). `hinge`: max(0,
        /// 1 - y x) of the logit x and y = 1 or -1, for `binary` only; its predictions are not probabilities
        /// (`tf.keras.losses.Hinge`). Evaluations report the loss as `average_loss`
        loss: Option<LossConfig> = choice("loss", &LossConfig::NAMES).or_invalid(LossConfig::CrossEntropy);
        /// for `focal`: >= 0
        focal_gamma: Option<f32> = custom(read_gamma, || Takes::Number(Bound::NotNegative), "2").or_invalid(LossConfig::GAMMA);
        /// for `focal` with `binary` and `multi_label`: weight of positives, 0 to 1; negatives have weight 1 - alpha
        focal_alpha: Option<f32> = custom(read_alpha, || Takes::Number(Bound::NotNegative), "").optional_or_invalid("both 1");
        /// `binary` and `multi_class`: weight of an example in training by its class, one number >= 0 for each class in
        /// class order, `[1.0, 5.0]` (`class_weight` of `tf.keras.Model.fit`). Evaluations do not use these weights.
        /// They shift the predicted probabilities
        class_weights: Option<Vec<f32>> = custom(read_class_weights, || Takes::Numbers, "").or_invalid(Vec::new()).said("1 each");
        /// `sum`, or `sum_over_batch_size`
        loss_reduction: Option<LossReduction> = choice("loss reduction", &LossReduction::NAMES).or_invalid(LossReduction::SumOverBatchSize);
        /// what a job has that does not say it. `trainyard`: the values that learn best from rows of which each occurs rarely: see
        /// below. `tensorflow1` (summed loss) and `tensorflow2` (deep learning rate 0.001, epsilon 1e-7): those of TensorFlow
        defaults: Option<Defaults> = choice("set of defaults", &Defaults::NAMES).or_invalid(Defaults::Trainyard);
        /// widths of the hidden layers
        hidden_units: Vec<usize> = integers(1..=UNITS_MAX).or(Vec::new()).said("required with dense layers; none in `dcn_*`, `autoint_*`, `masknet_*` and custom models");
        /// `relu` `relu6` `leaky_relu` `elu` `selu` `tanh` `sigmoid` `softplus` `softsign` `swish` `linear`
        activation: Option<Activation> = choice("activation", &Activation::NAMES).or_invalid(Activation::Relu);
        /// share of the outputs of a hidden layer that training drops
        dropout: Option<f32> = custom(read_dropout, || Takes::Number(Bound::NotNegative), "0").or_invalid(0.0);
        /// batch normalisation after each hidden layer
        batch_norm: bool = flag().or(false);
        /// `dcn_*`: number of cross layers below the dense layers
        cross_layers: usize = integer(1..=LAYERS_MAX).or(2);
        /// `dcn_*`: rank of the kernels of the cross layers, which are then products of two matrices of this many columns and
        /// rows (`projection_dim` of `tfrs.layers.dcn.Cross`). A fourth of the input's width or less saves work
        cross_projection_dim: Option<usize> = integer(1..=UNITS_MAX).optional("full rank");
        /// `dlrm_*`: widths of the hidden layers below the products of pairs. One more layer, of the embeddings' dimension,
        /// follows them
        bottom_units: Vec<usize> = integers(1..=UNITS_MAX).or(Vec::new()).said("none");
        /// `autoint_*`: number of attention layers
        attention_layers: usize = integer(1..=LAYERS_MAX).or(3);
        /// `autoint_*`: number of heads of an attention layer
        attention_heads: usize = integer(1..=HEADS_MAX).or(2);
        /// `autoint_*`: numbers of a vector of one head. A vector of a layer's output has `attention_heads` times as many
        attention_dim: usize = integer(1..=UNITS_MAX).or(32);
        /// `xdeepfm_*`: rows of each layer of the compressed interaction network, at least one layer
        cin_units: Vec<usize> = integers(1..=UNITS_MAX).or(vec![128, 128]).said("[128, 128]");
        /// `final_mlp_*`: widths of the hidden layers of the second stream; `hidden_units` are those of the first
        second_hidden_units: Vec<usize> = integers(1..=UNITS_MAX).or(Vec::new()).said("those of the first stream");
        /// `final_mlp_*`: number of parts of the streams' outputs, each with a bilinear product. It divides the last width of
        /// both streams
        fusion_heads: usize = integer(1..=HEADS_MAX).or(1);
        /// `masknet_*`: widths of the mask blocks, at least one block
        mask_units: Vec<usize> = integers(1..=UNITS_MAX).or(vec![64, 64, 64]).said("[64, 64, 64]");
        /// `masknet_*`: width of the layer that makes a mask, in widths of the mask
        mask_ratio: usize = integer(1..=MASK_RATIO_MAX).or(2);
        /// `masknet_*`: `parallel` blocks all read the input; of `serial` blocks, each reads the one before it
        mask_blocks: Option<MaskBlocks> = choice("arrangement", &MaskBlocks::NAMES).or_invalid(MaskBlocks::Parallel);
        /// `din_*`: widths of the hidden layers that weigh an id of a history, each under `activation`
        attention_units: Vec<usize> = integers(1..=UNITS_MAX).or(vec![80, 40]).said("[80, 40]");
        /// histories of `din_*`, each with its target
        attention: Option<Vec<AttentionConfig>> = custom(read_attention, attention_taken, "").optional_or_invalid("required in `din_*`");
        /// `shared_bottom`, `mmoe`, `ple`, `esmm`: widths of the hidden layers of the tower of each task
        tower_units: Vec<usize> = integers(1..=UNITS_MAX).or(Vec::new()).said("none; required in `esmm`");
        /// `mmoe`, `ple`: number of experts that the tasks share, in `ple` those of a level
        experts: usize = integer(1..=EXPERTS_MAX).or(8);
        /// `ple`: number of experts of each task, in each level
        task_experts: usize = integer(1..=EXPERTS_MAX).or(4);
        /// `ple`: number of levels of experts
        expert_levels: usize = integer(1..=LAYERS_MAX).or(2);
        /// tasks of `shared_bottom`, `mmoe`, `ple`, `esmm` and `custom_multi_task`
        task: Option<Vec<TaskConfig>> = custom(read_tasks, tasks_taken, "").optional_or_invalid("required in models of several tasks");
        /// initial values of the embeddings whose feature names none, `{ kind = "normal", stddev = 0.01 }`:
        /// see below
        embedding_initializer: Option<Initializer> = custom(read_initializer, takes_initializer, "")
            .optional_or_invalid("`normal` of deviation 0.01; with defaults of TensorFlow `truncated_normal` of deviation 1/√dimension");
        /// penalty of the embeddings whose feature names none, `{ l1 = 0.0, l2 = 1e-5 }`: see below
        embedding_regularizer: Option<Regularizer> = custom(read_regularizer, takes_regularizer, "")
            .optional_or_invalid("none");
        /// penalty of the weights of the linear part, without its bias
        linear_regularizer: Option<Regularizer> = custom(read_regularizer, takes_regularizer, "")
            .optional_or_invalid("none");
        /// penalty of the kernels of the dense layers, the last one included
        kernel_regularizer: Option<Regularizer> = custom(read_regularizer, takes_regularizer, "")
            .optional_or_invalid("none");
        /// linear part: `sum`, `mean` or `sqrtn` over the ids of a row
        sparse_combiner: Option<Combiner> = choice("combiner", &Combiner::NAMES).or_invalid(Combiner::Sum);
        /// optimizer of the linear part
        linear_optimizer: Option<OptimizerSection> = custom(read_linear_optimizer, takes_linear_optimizer, "")
            .optional_or_invalid("by `defaults`: Adagrad, or FTRL of TensorFlow");
        /// optimizer of the deep part
        dnn_optimizer: Option<OptimizerSection> = custom(read_optimizer, takes_optimizer, "")
            .optional_or_invalid("by `defaults`: lazy Adam, or Adagrad of TensorFlow");
    }
}

section! {
    /// Further keys of custom models. For other models they are unknown, and the message suggests the nearest key.
    #[derive(Debug)]
    pub(crate) struct CustomModelKeys {
        /// optimizer of a custom model
        optimizer: Option<OptimizerSection> = custom(read_optimizer, takes_optimizer, "")
            .optional_or_invalid("by `defaults`: lazy Adam, or Adagrad of TensorFlow");
        /// a table of keys of your own, which a custom model reads: numbers, flags, texts, lists and tables
        /// ([custom-models.md](custom-models.md#keys-of-your-own))
        params: Option<Params> = custom(read_params, || Takes::AnyTable, "").or_invalid(Params::default()).said("none");
    }
}

/// Returns the keys of `[model]`.
pub(crate) fn keys() -> Vec<Key> {
    let mut keys = ModelKeys::keys();
    keys.extend(CustomModelKeys::keys());
    keys
}

pub(crate) fn read(section: Section<'_>) -> Option<ModelConfig> {
    let keys = ModelKeys::read_keys(&section)?;
    let loss = loss(&section, &keys);
    let custom = if keys.kind.is_some_and(ModelKind::is_custom) {
        CustomModelKeys::read_keys(&section)?
    } else {
        CustomModelKeys {
            optimizer: None,
            params: Some(Params::default()),
        }
    };
    if let Some(kind) = keys.kind {
        check_keys(&section, kind);
        if let (Family::Esmm, Some(tasks)) = (kind.family, &keys.task) {
            check_esmm(&section, tasks);
        }
    }
    // An absent key may be `None`; a key that is there may not.
    let is_invalid =
        |key: &str, found: bool| !found && section.keys().any(|present| present == key);
    let invalid = is_invalid("head", keys.head.is_some())
        || is_invalid(
            "embedding_initializer",
            keys.embedding_initializer.is_some(),
        )
        || is_invalid(
            "embedding_regularizer",
            keys.embedding_regularizer.is_some(),
        )
        || is_invalid("linear_regularizer", keys.linear_regularizer.is_some())
        || is_invalid("kernel_regularizer", keys.kernel_regularizer.is_some())
        || is_invalid("linear_optimizer", keys.linear_optimizer.is_some())
        || is_invalid("dnn_optimizer", keys.dnn_optimizer.is_some())
        || is_invalid("task", keys.task.is_some())
        || is_invalid("attention", keys.attention.is_some())
        || (keys.kind.is_some_and(ModelKind::is_custom)
            && is_invalid("optimizer", custom.optimizer.is_some()));
    let reduction_is_given = section.node("loss_reduction").is_some();
    section.finish();
    if invalid {
        return None;
    }
    let kind = keys.kind?;
    let tasks = keys.task.filter(|_| kind.has_tasks()).unwrap_or_default();
    let head = match kind.goal {
        Goal::Tasks => tasks.first()?.head,
        Goal::Classifier if keys.n_classes.is_some_and(|classes| classes > 2) => {
            HeadKind::MultiClass
        }
        // More than two names of the label make it a multi-class head: see `settle`.
        Goal::Classifier => HeadKind::Binary,
        Goal::Regressor => HeadKind::Regression,
        Goal::Estimator => keys.head.unwrap_or(HeadKind::Binary),
    };
    let is_used = |key: &str| {
        let mut keys = USED_BY_SOME_KINDS.iter();
        keys.all(|(name, is_used)| *name != key || is_used(kind))
    };
    let units = |key: &str, given: Vec<usize>| if is_used(key) { given } else { Vec::new() };
    let count = |key: &str, given: usize| if is_used(key) { given } else { 0 };
    let defaults = keys.defaults?;
    let reduction = keys.loss_reduction?;
    Some(ModelConfig {
        kind,
        head,
        hidden_units: units("hidden_units", keys.hidden_units),
        // 0 stands for "not given" until `settle` has seen the label.
        n_classes: match tasks.first() {
            Some(task) => task.n_classes,
            None => keys.n_classes.unwrap_or(0),
        },
        label_dimension: keys.label_dimension,
        label_mean: keys.label_mean,
        label_stddev: keys.label_stddev,
        thresholds: keys.thresholds?,
        classes_for_class_based_metrics: keys.classes_for_class_based_metrics,
        top_k: keys.top_k,
        calibration_buckets: keys.calibration_buckets,
        loss: loss?,
        class_weights: keys.class_weights?,
        loss_reduction: match defaults {
            Defaults::Tensorflow1 if !reduction_is_given => LossReduction::Sum,
            _ => reduction,
        },
        defaults,
        activation: if is_used("activation") {
            keys.activation?
        } else {
            Activation::Relu
        },
        dropout: keys.dropout.filter(|_| is_used("dropout")).unwrap_or(0.0),
        batch_norm: keys.batch_norm && is_used("batch_norm"),
        cross_layers: count("cross_layers", keys.cross_layers),
        bottom_units: units("bottom_units", keys.bottom_units),
        cin_units: units("cin_units", keys.cin_units),
        second_hidden_units: units("second_hidden_units", keys.second_hidden_units),
        fusion_heads: count("fusion_heads", keys.fusion_heads),
        mask_units: units("mask_units", keys.mask_units),
        mask_ratio: count("mask_ratio", keys.mask_ratio),
        mask_blocks: if is_used("mask_blocks") {
            Some(keys.mask_blocks?)
        } else {
            None
        },
        attention: keys
            .attention
            .filter(|_| is_used("attention"))
            .unwrap_or_default(),
        attention_units: units("attention_units", keys.attention_units),
        tower_units: units("tower_units", keys.tower_units),
        experts: count("experts", keys.experts),
        task_experts: count("task_experts", keys.task_experts),
        expert_levels: count("expert_levels", keys.expert_levels),
        attention_layers: count("attention_layers", keys.attention_layers),
        attention_heads: count("attention_heads", keys.attention_heads),
        attention_dim: count("attention_dim", keys.attention_dim),
        cross_projection_dim: keys
            .cross_projection_dim
            .filter(|_| is_used("cross_projection_dim")),
        embedding_initializer: keys
            .embedding_initializer
            .or_else(|| usual_initializer(defaults))
            .filter(|_| is_used("embedding_initializer")),
        embedding_regularizer: keys
            .embedding_regularizer
            .filter(|_| is_used("embedding_regularizer")),
        linear_regularizer: keys
            .linear_regularizer
            .filter(|_| is_used("linear_regularizer")),
        kernel_regularizer: keys
            .kernel_regularizer
            .filter(|_| is_used("kernel_regularizer")),
        sparse_combiner: if is_used("sparse_combiner") {
            keys.sparse_combiner?
        } else {
            Combiner::Sum
        },
        linear_optimizer: keys
            .linear_optimizer
            .or_else(|| {
                let is_baseline = kind.family == Family::Baseline;
                Some(Usual::of_linear(defaults, is_baseline).named())
            })
            .filter(|_| is_used("linear_optimizer")),
        dnn_optimizer: keys
            .dnn_optimizer
            .or_else(|| Some(Usual::of_deep(defaults).named()))
            .filter(|_| is_used("dnn_optimizer")),
        optimizer: custom
            .optimizer
            .or_else(|| Some(Usual::of_deep(defaults).named()))
            .filter(|_| kind.is_custom()),
        params: custom.params?,
        constants: BTreeMap::new(),
        tasks,
    })
}

/// Returns the initial values of embeddings for which a job names none; absent = those of TensorFlow. A new id reads its initial
/// values: large ones are noise in each prediction until it has learned.
fn usual_initializer(defaults: Defaults) -> Option<Initializer> {
    match defaults {
        Defaults::Trainyard => Some(Initializer::Normal { stddev: 0.01 }),
        Defaults::Tensorflow1 | Defaults::Tensorflow2 => None,
    }
}

fn read_params(section: &Section<'_>, key: &'static str) -> Option<Params> {
    let node = section.node(key)?;
    let Value::Table(table) = &node.value else {
        let given = node.value.type_name();
        section.fail(
            Code::E1002,
            key,
            format!("params must be a table, given {given}"),
        );
        return None;
    };
    if let Some(number) = nonfinite(&node.value) {
        let message = format!("params must hold finite numbers, given {number}");
        section.fail(Code::E1002, key, message);
        return None;
    }
    Params::of(table)
        .inspect_err(|error| section.fail(Code::E1002, key, format!("params: {error}")))
        .ok()
}

/// Returns the first number that is infinite or none at all.
fn nonfinite(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => (!number.is_finite()).then_some(*number),
        Value::List(items) => items.iter().find_map(|item| nonfinite(&item.value)),
        Value::Table(table) => table
            .entries
            .iter()
            .find_map(|(_, _, node)| nonfinite(&node.value)),
        Value::Text(_) | Value::Integer(_) | Value::Flag(_) => None,
    }
}

fn read_dropout(section: &Section<'_>, key: &'static str) -> Option<f32> {
    let dropout = section.single(key)?;
    if !(0.0..1.0).contains(&dropout) {
        let message = format!("dropout must be >= 0 and < 1, given {dropout}");
        section.fail(Code::E1002, key, message);
        return None;
    }
    Some(dropout)
}

fn read_gamma(section: &Section<'_>, key: &'static str) -> Option<f32> {
    let gamma = section.single(key)?;
    if gamma < 0.0 {
        let message = format!("focal_gamma must be >= 0, given {gamma}");
        section.fail(Code::E1002, key, message);
        return None;
    }
    Some(gamma)
}

fn read_alpha(section: &Section<'_>, key: &'static str) -> Option<f32> {
    let alpha = section.single(key)?;
    if !(0.0..=1.0).contains(&alpha) {
        let message = format!("focal_alpha must be between 0 and 1, given {alpha}");
        section.fail(Code::E1002, key, message);
        return None;
    }
    Some(alpha)
}

/// Returns the loss with its parameters, and reports parameters of other losses.
fn loss(section: &Section<'_>, keys: &ModelKeys) -> Option<LossConfig> {
    let loss = match keys.loss? {
        LossConfig::Focal { .. } => LossConfig::Focal {
            gamma: keys.focal_gamma.unwrap_or(LossConfig::GAMMA),
            alpha: keys.focal_alpha,
        },
        other => other,
    };
    for (key, has_meaning) in OF_SOME_LOSSES {
        if !has_meaning(loss) && section.node(key).is_some() {
            // A job that names no loss may mean the one of the key.
            if section.node("loss").is_some() {
                warn_of_key(section, key, "without loss = \"focal\"");
            } else {
                let message = format!("{key} has no meaning without loss = \"focal\"");
                section.fail(Code::E1006, key, message);
            }
        }
    }
    Some(loss)
}

fn read_class_weights(section: &Section<'_>, key: &'static str) -> Option<Vec<f32>> {
    let weights: Vec<f32> = section
        .numbers(key)?
        .into_iter()
        .map(|number| number as f32)
        .collect();
    if let Some(bad) = weights
        .iter()
        .find(|weight| !(weight.is_finite() && **weight >= 0.0))
    {
        section.fail(
            Code::E1002,
            key,
            format!("class_weights must be >= 0, given {bad}"),
        );
        return None;
    }
    if !weights.is_empty() && weights.iter().all(|weight| *weight == 0.0) {
        let message = "class_weights are all 0: no record would count";
        section.fail(Code::E1002, key, message);
        return None;
    }
    Some(weights)
}

fn read_thresholds(section: &Section<'_>, key: &'static str) -> Option<Vec<f32>> {
    let thresholds: Vec<f32> = section
        .numbers(key)?
        .into_iter()
        .map(|number| number as f32)
        .collect();
    if let Some(bad) = thresholds
        .iter()
        .find(|threshold| !(**threshold > 0.0 && **threshold < 1.0))
    {
        section.fail(
            Code::E1002,
            key,
            format!("thresholds must lie between 0 and 1, given {bad}"),
        );
        return None;
    }
    Some(thresholds)
}

/// Keys that some kinds of models do not use. A job that names such a kind may have them, so that one job compares kinds.
const USED_BY_SOME_KINDS: [OfSome<ModelKind>; 29] = [
    ("hidden_units", |kind| {
        kind.has_dnn() && kind.family != Family::Esmm
    }),
    ("activation", ModelKind::has_dnn),
    ("dropout", ModelKind::has_dnn),
    ("batch_norm", ModelKind::has_dnn),
    ("cross_layers", |kind| kind.family == Family::Dcn),
    ("cross_projection_dim", |kind| kind.family == Family::Dcn),
    ("bottom_units", |kind| kind.family == Family::Dlrm),
    ("cin_units", |kind| kind.family == Family::XDeepFm),
    ("second_hidden_units", is_final_mlp),
    ("fusion_heads", is_final_mlp),
    ("mask_units", is_masknet),
    ("mask_ratio", is_masknet),
    ("mask_blocks", is_masknet),
    ("attention_layers", is_autoint),
    ("attention_heads", is_autoint),
    ("attention_dim", is_autoint),
    ("attention", is_din),
    ("attention_units", is_din),
    ("tower_units", ModelKind::has_tasks),
    ("experts", |kind| {
        matches!(kind.family, Family::Mmoe | Family::Ple)
    }),
    ("task_experts", is_ple),
    ("expert_levels", is_ple),
    ("embedding_initializer", ModelKind::has_deep),
    ("embedding_regularizer", ModelKind::has_deep),
    ("linear_regularizer", ModelKind::has_linear),
    ("kernel_regularizer", |kind| {
        kind.has_dnn() && !kind.is_custom()
    }),
    ("dnn_optimizer", |kind| kind.has_deep() && !kind.is_custom()),
    ("linear_optimizer", |kind| {
        kind.has_linear() || kind.family == Family::Baseline
    }),
    ("sparse_combiner", ModelKind::has_linear),
];

fn is_final_mlp(kind: ModelKind) -> bool {
    kind.family == Family::FinalMlp
}

fn is_masknet(kind: ModelKind) -> bool {
    kind.family == Family::MaskNet
}

fn is_autoint(kind: ModelKind) -> bool {
    kind.family == Family::AutoInt
}

fn is_din(kind: ModelKind) -> bool {
    kind.family == Family::Din
}

fn is_ple(kind: ModelKind) -> bool {
    kind.family == Family::Ple
}

/// Keys that say what is predicted, and contradict some kinds of models.
const OF_SOME_KINDS: [OfSome<ModelKind>; 14] = [
    ("head", |kind| kind.goal == Goal::Estimator),
    ("n_classes", |kind| {
        kind.goal != Goal::Regressor && has_one_task(kind)
    }),
    ("label_dimension", |kind| {
        kind.goal != Goal::Classifier && has_one_task(kind)
    }),
    ("label_mean", has_scale),
    ("label_stddev", has_scale),
    ("thresholds", has_one_task),
    ("top_k", has_one_task),
    ("calibration_buckets", has_one_task),
    ("classes_for_class_based_metrics", has_one_task),
    ("loss", has_one_task),
    ("focal_gamma", has_one_task),
    ("focal_alpha", has_one_task),
    ("class_weights", has_one_task),
    ("task", ModelKind::has_tasks),
];

fn has_one_task(kind: ModelKind) -> bool {
    !kind.has_tasks()
}

/// Returns whether a kind of model may have a scale of its label.
fn has_scale(kind: ModelKind) -> bool {
    kind.goal != Goal::Classifier && has_one_task(kind) && !kind.is_custom()
}

/// Keys of custom models, which are unknown to others.
const OF_CUSTOM_MODELS: [OfSome<ModelKind>; 2] = [
    ("optimizer", ModelKind::is_custom),
    ("params", ModelKind::is_custom),
];

/// Keys that some kinds of models require.
const REQUIRED_BY_KIND: [OfSome<ModelKind>; 5] = [
    ("hidden_units", |kind| {
        let may_lack = [
            Family::Dcn,
            Family::AutoInt,
            Family::MaskNet,
            Family::Esmm,
            Family::Custom,
        ];
        kind.has_dnn() && !may_lack.contains(&kind.family)
    }),
    ("tower_units", |kind| kind.family == Family::Esmm),
    ("head", |kind| kind.goal == Goal::Estimator),
    ("task", ModelKind::has_tasks),
    ("attention", is_din),
];

/// Parameters of some losses only.
const OF_SOME_LOSSES: [OfSome<LossConfig>; 2] =
    [("focal_gamma", is_focal), ("focal_alpha", is_focal)];

fn is_focal(loss: LossConfig) -> bool {
    matches!(loss, LossConfig::Focal { .. })
}

/// Returns the limits of the keys by the kind of model and by the loss.
pub(crate) fn limits() -> Vec<Limit> {
    let kinds = &ModelKind::NAMES;
    let mut limits = of_some("kind", kinds, &OF_SOME_KINDS);
    limits.extend(of_some("kind", kinds, &OF_CUSTOM_MODELS));
    limits.extend(required_by("kind", kinds, &REQUIRED_BY_KIND));
    limits
}

/// Refuses keys that have no meaning for this kind of model, and reports those that it requires.
fn check_keys(section: &Section<'_>, kind: ModelKind) {
    let is_given = |key: &str| section.keys().any(|name| name == key);
    for (key, is_required) in REQUIRED_BY_KIND {
        if is_required(kind) && !is_given(key) {
            match key {
                "hidden_units" | "tower_units" => section.missing(key, "[100, 50]"),
                "task" => section.missing_section(
                    key,
                    "[[model.task]]",
                    "name = \"click\", head = \"binary\", label = { column = \"click\" }",
                ),
                "attention" => section.missing_section(
                    key,
                    "[[model.attention]]",
                    "history = \"clicked_items\", target = \"item\"",
                ),
                _ => section.missing(key, "\"multi_label\""),
            }
        }
    }
    for (key, has_meaning) in OF_SOME_KINDS {
        if !has_meaning(kind) && is_given(key) {
            let model = match key {
                _ if kind.has_tasks() => {
                    "a model of several tasks: each [[model.task]] has a head of its own"
                }
                "task" => {
                    "a model of one task: it is for shared_bottom, mmoe, ple, esmm and custom_multi_task"
                }
                "n_classes" => "a regressor",
                "label_dimension" => "a classifier",
                "label_mean" | "label_stddev" if kind.is_custom() => "a custom model",
                "label_mean" | "label_stddev" => "a classifier",
                _ => "this kind of model",
            };
            let message = format!("{key} has no meaning for {model}");
            section.fail(Code::E1006, key, message);
        }
    }
    for (key, _) in unused(section, kind) {
        warn_of_key(section, key, &format!("in a {}", kind.name()));
    }
}

/// Returns whether a job names a kind of model that has several tasks, even if other keys of it are wrong.
pub(crate) fn has_tasks(root: &Section<'_>) -> bool {
    let kind = root
        .section("model")
        .and_then(|model| model.node("kind"))
        .map(|node| &node.value);
    ModelKind::NAMES.iter().any(|(name, known)| {
        known.has_tasks() && matches!(kind, Some(Value::Text(given)) if given == name)
    })
}

/// Returns the given keys that a kind of model does not use.
fn unused<'a>(
    section: &'a Section<'_>,
    kind: ModelKind,
) -> impl Iterator<Item = OfSome<ModelKind>> + use<'a> {
    USED_BY_SOME_KINDS
        .into_iter()
        .filter(move |(key, is_used)| !is_used(kind) && section.keys().any(|name| name == *key))
}

/// Returns the settings of loss and metrics that the head does not support: the key, and the reason.
fn misfits_of_head(model: &ModelConfig) -> Vec<(&'static str, String)> {
    let head = model.head;
    let classes = model.n_classes;
    let name = head.name();
    let weights = &model.class_weights;
    let has_alpha = matches!(model.loss, LossConfig::Focal { alpha: Some(_), .. });
    let given = [
        ("loss", model.loss != LossConfig::CrossEntropy),
        ("class_weights", !weights.is_empty()),
        ("top_k", !model.top_k.is_empty()),
        ("calibration_buckets", model.calibration_buckets > 0),
    ];
    if head != HeadKind::Regression && model.has_label_scale() {
        let key = if model.label_mean == 0.0 {
            "label_stddev"
        } else {
            "label_mean"
        };
        let message = format!("{key} has no meaning for a {name} head");
        return vec![(key, message)];
    }
    if !head.has_classes() {
        let given = given.into_iter().filter(|(_, given)| *given);
        return given
            .map(|(key, _)| {
                (
                    key,
                    format!("{key} has no meaning for a {name} head: it has no classes"),
                )
            })
            .collect();
    }
    let mut found = Vec::new();
    if model.loss == LossConfig::Hinge && head != HeadKind::Binary {
        found.push((
            "loss",
            format!("loss = \"hinge\" needs a binary head, given {name}"),
        ));
    }
    if has_alpha && head == HeadKind::MultiClass {
        let why = "weighs positives against negatives: a multi_class head takes class_weights";
        found.push(("focal_alpha", format!("focal_alpha {why}")));
    }
    if !weights.is_empty() && head == HeadKind::MultiLabel {
        let why = "has no meaning for a multi_label head: an example may be of several classes";
        found.push(("class_weights", format!("class_weights {why}")));
    } else if !weights.is_empty() && weights.len() != classes {
        let count = weights.len();
        let rule = format!("must be one number for each of {classes} classes, in their order");
        found.push((
            "class_weights",
            format!("class_weights {rule}, given {count}"),
        ));
    }
    if model.calibration_buckets > 0 && head != HeadKind::Binary {
        found.push((
            "calibration_buckets",
            format!("calibration_buckets needs a binary head, given {name}"),
        ));
    }
    if let Some(count) = model
        .top_k
        .iter()
        .find(|count| head != HeadKind::Binary && **count > classes)
    {
        found.push((
            "top_k",
            format!("top_k must be at most n_classes ({classes}), given {count}"),
        ));
    }
    found
}

/// Checks the head against the label, and completes the model from the label.
pub(crate) fn settle(root: &Section<'_>, model: &mut ModelConfig, input: &InputConfig) {
    if model.kind.has_tasks() {
        return;
    }
    let label = &input.label;
    let given = model.n_classes;
    let place = root.section("input").and_then(|input| input.place("label"));
    let fail = |message: String| {
        let problem = Diagnostic::error(Code::E1006, message);
        root.problems().push(match place.clone() {
            Some(place) => problem.at(place),
            None => problem,
        });
    };
    let fail_in_model = |key: &'static str, message: String| {
        let problem = Diagnostic::error(Code::E1006, message);
        let place = root.section("model").and_then(|model| model.place(key));
        root.problems().push(match place {
            Some(place) => problem.at(place),
            None => problem,
        });
    };
    let named = label.vocabulary.as_ref().map(Vec::len);
    if !model.head.has_classes() {
        model.n_classes = 1;
        for (key, message) in misfits_of_head(model) {
            fail_in_model(key, message);
        }
        if label.positive.is_some() || named.is_some() {
            let goal = if model.kind.goal == Goal::Regressor {
                "a regressor"
            } else {
                "this head"
            };
            fail(format!(
                "label.positive and label.vocabulary have no meaning for {goal}"
            ));
        }
        return;
    }
    let least = if model.head == HeadKind::MultiClass && named.is_none() && given == 0 {
        0
    } else {
        2
    };
    model.n_classes = named.unwrap_or(if given == 0 { least } else { given });
    if model.n_classes == 0 {
        fail("a multi_class head needs n_classes, or label.vocabulary".to_owned());
        model.n_classes = 3;
    }
    if model.kind.goal == Goal::Classifier {
        model.head = if model.n_classes > 2 {
            HeadKind::MultiClass
        } else {
            HeadKind::Binary
        };
    }
    if model.head == HeadKind::Binary && model.n_classes != 2 {
        fail(format!(
            "a binary head has 2 classes, given {}",
            model.n_classes
        ));
    }
    if given != 0 && given != model.n_classes {
        fail(format!(
            "label.vocabulary names {} classes, model.n_classes says {given}",
            model.n_classes
        ));
    }
    for (key, message) in misfits_of_head(model) {
        fail_in_model(key, message);
    }
    if label.positive.is_some() && model.head != HeadKind::Binary {
        fail(format!(
            "label.positive needs a model of 2 classes, given {}",
            model.n_classes
        ));
    }
    if let Some(class) = model
        .classes_for_class_based_metrics
        .iter()
        .find(|class| **class >= model.n_classes)
    {
        fail(format!(
            "classes_for_class_based_metrics must be below n_classes ({}), given {class}",
            model.n_classes
        ));
    }
}
