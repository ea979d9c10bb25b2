//! `[model]`: the premade estimator, its head and its optimizers.

use trainyard_diagnostic::{Code, Diagnostic, Section};

use super::optimizer;
use crate::{
    Activation, Combiner, Defaults, Family, Goal, HeadKind, InputConfig, LossConfig, LossReduction,
    ModelConfig, ModelKind, OptimizerSection,
};

/// Widest hidden layer.
const UNITS_MAX: u64 = 1 << 20;
/// Most buckets of a calibration.
const CALIBRATION_BUCKETS_MAX: u64 = 1000;
/// Default exponent of the focal loss, as in Keras.
const FOCAL_GAMMA: f32 = 2.0;
/// Most classes, and most numbers of a label.
const CLASSES_MAX: u64 = 1 << 24;

pub(crate) fn read(section: Section<'_>) -> Option<ModelConfig> {
    if section.node("kind").is_none() {
        section.missing("kind", "\"dnn_classifier\"");
    }
    let kind = section
        .node("kind")
        .and_then(|_| section.choice("kind", "model", &ModelKind::NAMES));
    let head = read_choice(&section, "head", "head", &HeadKind::NAMES);
    let hidden_units = section.integers("hidden_units", 1..=UNITS_MAX);
    let n_classes = section.integer("n_classes", 2..=CLASSES_MAX);
    let label_dimension = section.integer("label_dimension", 1..=CLASSES_MAX);
    let thresholds = read_thresholds(&section);
    let classes = section.integers("classes_for_class_based_metrics", 0..=CLASSES_MAX);
    let top_k = section.integers("top_k", 1..=CLASSES_MAX);
    let calibration_buckets = section.integer("calibration_buckets", 1..=CALIBRATION_BUCKETS_MAX);
    let loss = read_loss(&section);
    let class_weights = read_class_weights(&section);
    let reductions = [
        ("sum", LossReduction::Sum),
        ("sum_over_batch_size", LossReduction::SumOverBatchSize),
    ];
    let reduction = read_choice(&section, "loss_reduction", "loss reduction", &reductions);
    let known = [
        ("trainyard", Defaults::Trainyard),
        ("tensorflow1", Defaults::Tensorflow1),
        ("tensorflow2", Defaults::Tensorflow2),
    ];
    let defaults = read_choice(&section, "defaults", "set of defaults", &known);
    let activation = read_choice(&section, "activation", "activation", &Activation::NAMES);
    let combiner = read_choice(&section, "sparse_combiner", "combiner", &Combiner::NAMES);
    let dropout = section.single("dropout");
    if let Some(dropout) = dropout.filter(|dropout| !(0.0..1.0).contains(dropout)) {
        section.fail(
            Code::E1002,
            "dropout",
            format!("dropout must be >= 0 and < 1, given {dropout}"),
        );
    }
    let batch_norm = section.flag("batch_norm");
    let cross_layers = section.integer("cross_layers", 1..=64);
    let linear_optimizer = read_optimizer(&section, "linear_optimizer", "ftrl");
    let dnn_optimizer = read_optimizer(&section, "dnn_optimizer", "adagrad");
    // Only custom models have this key. For other models it is unknown, and the message suggests the nearest key.
    let optimizer = if kind.is_some_and(ModelKind::is_custom) {
        read_optimizer(&section, "optimizer", "adagrad")
    } else {
        Some(None)
    };
    if let Some(kind) = kind {
        check_keys(&section, kind);
    }
    section.finish();
    let kind = kind?;
    let head = match (kind.goal, head?) {
        (Goal::Classifier, _) if n_classes.is_some_and(|classes| classes > 2) => {
            HeadKind::MultiClass
        }
        // More than two names of the label make it a multi-class head: see `settle`.
        (Goal::Classifier, _) => HeadKind::Binary,
        (Goal::Regressor, _) => HeadKind::Regression,
        (Goal::Estimator, head) => head.unwrap_or(HeadKind::Binary),
    };
    let defaults = defaults?.unwrap_or(Defaults::Trainyard);
    let usual = match defaults {
        Defaults::Tensorflow1 => LossReduction::Sum,
        Defaults::Trainyard | Defaults::Tensorflow2 => LossReduction::SumOverBatchSize,
    };
    Some(ModelConfig {
        kind,
        head,
        hidden_units: hidden_units
            .unwrap_or_default()
            .into_iter()
            .map(|units| units as usize)
            .collect(),
        // 0 stands for "not given" until `settle` has seen the label.
        n_classes: n_classes.unwrap_or(0) as usize,
        label_dimension: label_dimension.unwrap_or(1) as usize,
        thresholds: thresholds?,
        classes_for_class_based_metrics: classes
            .unwrap_or_default()
            .into_iter()
            .map(|class| class as usize)
            .collect(),
        top_k: top_k
            .unwrap_or_default()
            .into_iter()
            .map(|count| count as usize)
            .collect(),
        calibration_buckets: calibration_buckets.unwrap_or(0) as usize,
        loss: loss?,
        class_weights: class_weights?,
        loss_reduction: reduction?.unwrap_or(usual),
        defaults,
        activation: activation?.unwrap_or(Activation::Relu),
        dropout: dropout.unwrap_or(0.0),
        batch_norm: batch_norm.unwrap_or(false),
        cross_layers: match kind.family {
            Family::Dcn => cross_layers.unwrap_or(2) as usize,
            _ => 0,
        },
        sparse_combiner: combiner?.unwrap_or(Combiner::Sum),
        linear_optimizer: linear_optimizer?,
        dnn_optimizer: dnn_optimizer?,
        optimizer: optimizer?,
    })
}

/// Reads a choice. Returns `Some(None)` if the key is absent, and `None` if it is invalid.
#[allow(clippy::option_option)]
fn read_choice<T: Copy>(
    section: &Section<'_>,
    key: &'static str,
    what: &str,
    known: &[(&str, T)],
) -> Option<Option<T>> {
    match section.node(key) {
        None => Some(None),
        Some(_) => section.choice(key, what, known).map(Some),
    }
}

#[allow(clippy::option_option)]
fn read_optimizer(
    section: &Section<'_>,
    key: &'static str,
    default: &str,
) -> Option<Option<OptimizerSection>> {
    match section.node(key) {
        None => Some(None),
        Some(_) => optimizer::read(section.section(key)?, default).map(Some),
    }
}

fn read_loss(section: &Section<'_>) -> Option<LossConfig> {
    let gamma = section.single("focal_gamma");
    let alpha = section.single("focal_alpha");
    if let Some(gamma) = gamma.filter(|gamma| *gamma < 0.0) {
        section.fail(
            Code::E1002,
            "focal_gamma",
            format!("focal_gamma must be >= 0, given {gamma}"),
        );
    }
    if let Some(alpha) = alpha.filter(|alpha| !(0.0..=1.0).contains(alpha)) {
        section.fail(
            Code::E1002,
            "focal_alpha",
            format!("focal_alpha must be between 0 and 1, given {alpha}"),
        );
    }
    let known = [
        ("cross_entropy", LossConfig::CrossEntropy),
        (
            "focal",
            LossConfig::Focal {
                gamma: gamma.unwrap_or(FOCAL_GAMMA),
                alpha,
            },
        ),
        ("hinge", LossConfig::Hinge),
    ];
    let loss = read_choice(section, "loss", "loss", &known)?.unwrap_or_default();
    if !matches!(loss, LossConfig::Focal { .. }) {
        for key in ["focal_gamma", "focal_alpha"]
            .into_iter()
            .filter(|key| section.node(key).is_some())
        {
            section.fail(
                Code::E1006,
                key,
                format!("{key} has no meaning without loss = \"focal\""),
            );
        }
    }
    Some(loss)
}

fn read_class_weights(section: &Section<'_>) -> Option<Vec<f32>> {
    if section.node("class_weights").is_none() {
        return Some(Vec::new());
    }
    let weights: Vec<f32> = section
        .numbers("class_weights")?
        .into_iter()
        .map(|number| number as f32)
        .collect();
    if let Some(bad) = weights
        .iter()
        .find(|weight| !(weight.is_finite() && **weight >= 0.0))
    {
        section.fail(
            Code::E1002,
            "class_weights",
            format!("class_weights must be >= 0, given {bad}"),
        );
        return None;
    }
    Some(weights)
}

fn read_thresholds(section: &Section<'_>) -> Option<Vec<f32>> {
    if section.node("thresholds").is_none() {
        return Some(Vec::new());
    }
    let thresholds: Vec<f32> = section
        .numbers("thresholds")?
        .into_iter()
        .map(|number| number as f32)
        .collect();
    if let Some(bad) = thresholds
        .iter()
        .find(|threshold| !(**threshold > 0.0 && **threshold < 1.0))
    {
        section.fail(
            Code::E1002,
            "thresholds",
            format!("thresholds must lie between 0 and 1, given {bad}"),
        );
        return None;
    }
    Some(thresholds)
}

/// Refuses keys that have no meaning for this kind of model.
fn check_keys(section: &Section<'_>, kind: ModelKind) {
    let free = kind.is_custom() || kind.family == Family::Dcn;
    if kind.has_dnn() && !free && section.node("hidden_units").is_none() {
        section.missing("hidden_units", "[100, 50]");
    }
    if kind.goal == Goal::Estimator && section.node("head").is_none() {
        section.missing("head", "\"multi_label\"");
    }
    let linear = kind.has_linear() || kind.family == Family::Baseline;
    for (key, used) in [
        ("hidden_units", kind.has_dnn()),
        ("activation", kind.has_dnn()),
        ("dropout", kind.has_dnn()),
        ("batch_norm", kind.has_dnn()),
        ("cross_layers", kind.family == Family::Dcn),
        ("dnn_optimizer", kind.has_deep() && !kind.is_custom()),
        ("linear_optimizer", linear),
        ("sparse_combiner", kind.has_linear()),
        ("head", kind.goal == Goal::Estimator),
    ] {
        if !used && section.keys().any(|name| name == key) {
            section.fail(
                Code::E1006,
                key,
                format!("{key} has no meaning for this kind of model"),
            );
        }
    }
    if kind.goal == Goal::Regressor && section.node("n_classes").is_some() {
        section.fail(
            Code::E1006,
            "n_classes",
            "n_classes has no meaning for a regressor",
        );
    }
    if kind.goal == Goal::Classifier && section.node("label_dimension").is_some() {
        section.fail(
            Code::E1006,
            "label_dimension",
            "label_dimension has no meaning for a classifier",
        );
    }
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
