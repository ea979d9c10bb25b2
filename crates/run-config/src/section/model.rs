//! `[model]`: the premade estimator and its optimizers.

use trainyard_diagnostic::{Code, Section};

use super::single;
use crate::{InputConfig, ModelConfig, ModelKind, OptimizerSection};

/// Widest hidden layer.
const UNITS_MAX: u64 = 1 << 20;

/// Name, and hyper-parameters with their ranges: (name, least, least is allowed, most). A most of 1 is not allowed.
type Rule = (&'static str, &'static [(&'static str, f64, bool, f64)]);

const RULES: [Rule; 4] = [
    ("sgd", &[("learning_rate", 0.0, false, f64::MAX)]),
    (
        "adagrad",
        &[("learning_rate", 0.0, false, f64::MAX), ("initial_accumulator_value", 0.0, false, f64::MAX)],
    ),
    (
        "adam",
        &[
            ("learning_rate", 0.0, false, f64::MAX),
            ("beta1", 0.0, true, 1.0),
            ("beta2", 0.0, true, 1.0),
            ("epsilon", 0.0, false, f64::MAX),
        ],
    ),
    (
        "ftrl",
        &[
            ("learning_rate", 0.0, false, f64::MAX),
            ("learning_rate_power", f64::MIN, true, 0.0),
            ("initial_accumulator_value", 0.0, true, f64::MAX),
            ("l1_regularization_strength", 0.0, true, f64::MAX),
            ("l2_regularization_strength", 0.0, true, f64::MAX),
            ("l2_shrinkage_regularization_strength", 0.0, true, f64::MAX),
            ("beta", 0.0, true, f64::MAX),
        ],
    ),
];

impl ModelKind {
    /// Every kind with its name in a job file.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("linear_classifier", Self::LinearClassifier),
        ("linear_regressor", Self::LinearRegressor),
        ("dnn_classifier", Self::DnnClassifier),
        ("dnn_regressor", Self::DnnRegressor),
        ("dnn_linear_combined_classifier", Self::DnnLinearCombinedClassifier),
        ("dnn_linear_combined_regressor", Self::DnnLinearCombinedRegressor),
        ("custom_classifier", Self::CustomClassifier),
        ("custom_regressor", Self::CustomRegressor),
    ];

    /// Returns whether it has a linear part.
    pub fn has_linear(self) -> bool {
        !matches!(self, Self::DnnClassifier | Self::DnnRegressor) && !self.is_custom()
    }

    /// Returns whether it has a deep part. A custom model has: its features take the keys of a deep part.
    pub fn has_dnn(self) -> bool {
        !matches!(self, Self::LinearClassifier | Self::LinearRegressor)
    }

    /// Returns whether it predicts a class.
    pub fn is_classifier(self) -> bool {
        matches!(
            self,
            Self::LinearClassifier
                | Self::DnnClassifier
                | Self::DnnLinearCombinedClassifier
                | Self::CustomClassifier
        )
    }

    /// Returns whether the program brings the model along.
    pub fn is_custom(self) -> bool {
        matches!(self, Self::CustomClassifier | Self::CustomRegressor)
    }
}

pub(crate) fn read(section: Section<'_>) -> Option<ModelConfig> {
    if section.node("kind").is_none() {
        section.missing("kind", "\"dnn_classifier\"");
    }
    let kind = section.node("kind").and_then(|_| section.choice("kind", "model", &ModelKind::NAMES));
    let hidden_units = section.integers("hidden_units", 1..=UNITS_MAX);
    let n_classes = section.integer("n_classes", 2..=1 << 24);
    let linear_optimizer = read_optimizer(section.section("linear_optimizer"), "ftrl");
    let dnn_optimizer = read_optimizer(section.section("dnn_optimizer"), "adagrad");
    // A key of custom models alone: elsewhere it is unknown, and the nearest right name is told.
    let custom = kind.is_some_and(ModelKind::is_custom);
    let optimizer = match custom.then(|| section.section("optimizer")).flatten() {
        Some(optimizer) => read_optimizer(Some(optimizer), "adagrad").map(Some),
        None => Some(None),
    };
    if let Some(kind) = kind {
        if kind.has_dnn() && !kind.is_custom() && section.node("hidden_units").is_none() {
            section.missing("hidden_units", "[100, 50]");
        }
        for (key, used) in [
            ("hidden_units", kind.has_dnn()),
            ("dnn_optimizer", kind.has_dnn() && !kind.is_custom()),
            ("linear_optimizer", kind.has_linear()),
        ] {
            if !used && section.keys().any(|name| name == key) {
                section.fail(Code::E1006, key, format!("{key} has no meaning for this kind of model"));
            }
        }
        if !kind.is_classifier() && section.node("n_classes").is_some() {
            section.fail(Code::E1006, "n_classes", "n_classes has no meaning for a regressor");
        }
    }
    section.finish();
    Some(ModelConfig {
        kind: kind?,
        hidden_units: hidden_units.unwrap_or_default().into_iter().map(|units| units as usize).collect(),
        // 0 stands for "not given" until `settle_classes` has seen the label.
        n_classes: n_classes.unwrap_or(0) as usize,
        linear_optimizer: linear_optimizer?,
        dnn_optimizer: dnn_optimizer?,
        optimizer: optimizer?,
    })
}

/// Checks the number of classes against the label, and fills in what the label tells.
pub(crate) fn settle_classes(root: &Section<'_>, model: &mut ModelConfig, input: &InputConfig) {
    let (label, given) = (&input.label, model.n_classes);
    model.n_classes = match &label.vocabulary {
        _ if !model.kind.is_classifier() => 1,
        Some(classes) => classes.len(),
        None if given == 0 => 2,
        None => given,
    };
    let place = root.section("input").and_then(|input| input.place("label"));
    let fail = |message: String| {
        let problem = trainyard_diagnostic::Diagnostic::error(Code::E1006, message);
        root.problems().push(match place.clone() {
            Some(place) => problem.at(place),
            None => problem,
        });
    };
    if !model.kind.is_classifier() {
        if label.positive.is_some() || label.vocabulary.is_some() {
            fail("label.positive and label.vocabulary have no meaning for a regressor".to_owned());
        }
        return;
    }
    if given != 0 && given != model.n_classes {
        fail(format!("label.vocabulary names {} classes, model.n_classes says {given}", model.n_classes));
    }
    if label.positive.is_some() && model.n_classes != 2 {
        fail(format!("label.positive needs a model of 2 classes, given {}", model.n_classes));
    }
}

fn read_optimizer(section: Option<Section<'_>>, default: &str) -> Option<OptimizerSection> {
    let Some(section) = section else {
        return Some(OptimizerSection { kind: default.to_owned(), values: Vec::new() });
    };
    let known: Vec<(&str, Rule)> = RULES.iter().map(|rule| (rule.0, *rule)).collect();
    let rule = match section.node("kind") {
        Some(_) => section.choice("kind", "optimizer", &known),
        None => RULES.iter().find(|(name, _)| *name == default).copied(),
    };
    let Some((kind, parameters)) = rule else {
        // The keys cannot be judged without the kind: only the kind is reported.
        section.know(&["learning_rate", "initial_accumulator_value", "beta1", "beta2", "epsilon"]);
        return None;
    };
    let mut values = Vec::new();
    for &(name, least, inclusive, most) in parameters {
        // Judged in the precision that it is used in: 1e-50 is 0 there. Kept as it was written.
        let Some(value) = single(&section, name).map(f64::from) else { continue };
        let Some(given) = section.number(name) else { continue };
        let above = if most == 1.0 { value >= most } else { value > most };
        if above || value < least || value == least && !inclusive {
            let rule = match (least == f64::MIN, most == f64::MAX) {
                (true, _) => format!("<= {most}"),
                (_, true) => format!("{} {least}", if inclusive { ">=" } else { ">" }),
                _ => format!(">= {least} and < 1"),
            };
            section.fail(Code::E1002, name, format!("{name} must be {rule}, given {given:?}"));
        }
        values.push((name.to_owned(), given));
    }
    section.finish();
    Some(OptimizerSection { kind: kind.to_owned(), values })
}
