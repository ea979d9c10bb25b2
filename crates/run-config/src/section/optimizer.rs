//! `[model.linear_optimizer]` and `[model.dnn_optimizer]`: update rules, and schedules of their learning rates.

use serde_json::{Map, Value as Json};
use trainyard_diagnostic::{Code, Section, Value};

use crate::OptimizerSection;

/// The range of a hyper-parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Range {
    /// Any number.
    Any,
    /// `> 0`.
    Positive,
    /// `>= 0`.
    NotNegative,
    /// `>= 1`.
    One,
    /// `<= 0`.
    NotPositive,
    /// `>= 0` and `< 1`.
    Fraction,
    /// True or false.
    Flag,
    /// `> 0`, or a schedule.
    Rate,
    /// `> 0`, or a schedule that is not a warm-up.
    RateBehind,
    /// Ascending numbers.
    Ascending,
    /// Numbers `>= 0`.
    Rates,
}

/// Name, and hyper-parameters with their ranges.
type Rule = (&'static str, &'static [(&'static str, Range)]);

const RATE: (&str, Range) = ("learning_rate", Range::Rate);
const ACCUMULATOR: (&str, Range) = ("initial_accumulator_value", Range::Positive);
const L1: (&str, Range) = ("l1_regularization_strength", Range::NotNegative);
const L2: (&str, Range) = ("l2_regularization_strength", Range::NotNegative);
const MOMENTUM: (&str, Range) = ("momentum", Range::Fraction);
const EPSILON: (&str, Range) = ("epsilon", Range::Positive);
const DECAY: (&str, Range) = ("decay", Range::Fraction);

const RULES: [Rule; 12] = [
    ("sgd", &[RATE]),
    ("momentum", &[RATE, MOMENTUM, ("use_nesterov", Range::Flag)]),
    (
        "keras_momentum",
        &[RATE, MOMENTUM, ("use_nesterov", Range::Flag)],
    ),
    (
        "adagrad",
        &[
            RATE,
            ("initial_accumulator_value", Range::NotNegative),
            ("epsilon", Range::NotNegative),
        ],
    ),
    (
        "adagrad_da",
        &[
            RATE,
            (
                "initial_gradient_squared_accumulator_value",
                Range::Positive,
            ),
            L1,
            L2,
        ],
    ),
    ("adadelta", &[RATE, ("rho", Range::Fraction), EPSILON]),
    (
        "adam",
        &[
            RATE,
            ("beta1", Range::Fraction),
            ("beta2", Range::Fraction),
            EPSILON,
            ("amsgrad", Range::Flag),
            ("lazy", Range::Flag),
            ("weight_decay", Range::NotNegative),
        ],
    ),
    (
        "rmsprop",
        &[RATE, DECAY, MOMENTUM, EPSILON, ("centered", Range::Flag)],
    ),
    (
        "keras_rmsprop",
        &[RATE, DECAY, MOMENTUM, EPSILON, ("centered", Range::Flag)],
    ),
    (
        "ftrl",
        &[
            RATE,
            ("learning_rate_power", Range::NotPositive),
            ("initial_accumulator_value", Range::NotNegative),
            L1,
            L2,
            ("l2_shrinkage_regularization_strength", Range::NotNegative),
            ("beta", Range::NotNegative),
        ],
    ),
    ("proximal_sgd", &[RATE, L1, L2]),
    ("proximal_adagrad", &[RATE, ACCUMULATOR, L1, L2]),
];

const START: (&str, Range) = ("learning_rate", Range::Positive);
const STEPS: (&str, Range) = ("decay_steps", Range::Positive);
const BY_RATE: &[(&str, Range)] = &[
    START,
    STEPS,
    ("decay_rate", Range::Positive),
    ("staircase", Range::Flag),
];

const SCHEDULES: [Rule; 9] = [
    ("exponential_decay", BY_RATE),
    ("natural_exp_decay", BY_RATE),
    ("inverse_time_decay", BY_RATE),
    (
        "polynomial_decay",
        &[
            START,
            STEPS,
            ("end_learning_rate", Range::NotNegative),
            ("power", Range::Any),
            ("cycle", Range::Flag),
        ],
    ),
    ("cosine_decay", &[START, STEPS, ("alpha", Range::Any)]),
    (
        "cosine_decay_restarts",
        &[
            START,
            ("first_decay_steps", Range::Positive),
            ("t_mul", Range::One),
            ("m_mul", Range::NotNegative),
            ("alpha", Range::Any),
        ],
    ),
    (
        "linear_cosine_decay",
        &[
            START,
            STEPS,
            ("num_periods", Range::Any),
            ("alpha", Range::Any),
            ("beta", Range::Any),
        ],
    ),
    (
        "piecewise_constant",
        &[("boundaries", Range::Ascending), ("values", Range::Rates)],
    ),
    WARMUP,
];
/// A warm-up before another schedule. It is the last in the list of schedules, because a warm-up cannot follow a
/// warm-up.
const WARMUP: Rule = (
    "warmup",
    &[
        ("warmup_steps", Range::Positive),
        ("learning_rate", Range::RateBehind),
    ],
);

const CLIPPINGS: [Rule; 3] = [
    ("value", &[("clip", Range::Positive)]),
    ("norm", &[("clip", Range::Positive)]),
    ("global_norm", &[("clip", Range::Positive)]),
];

/// Required keys of a schedule, if its kind has them.
const SCHEDULE_NEEDS: &[&str] = &[
    "learning_rate",
    "warmup_steps",
    "decay_steps",
    "decay_rate",
    "first_decay_steps",
    "boundaries",
    "values",
];

/// Reads an optimizer. Without a kind it is the default one.
pub(super) fn read(section: Section<'_>, default: &str) -> Option<OptimizerSection> {
    read_kind(section, "optimizer", &RULES, default, &[])
}

/// Reads a bound on gradients.
pub(super) fn read_clipping(section: Section<'_>) -> Option<OptimizerSection> {
    if section.node("kind").is_none() {
        section.missing("kind", "\"global_norm\"");
    }
    read_kind(
        section,
        "kind of clipping",
        &CLIPPINGS,
        "global_norm",
        &["clip"],
    )
}

/// Reads a kind and its parameters. Without a kind it is the default one. `needed` contains parameters that are
/// required if the kind has them.
fn read_kind(
    section: Section<'_>,
    what: &str,
    rules: &[Rule],
    default: &str,
    needed: &[&str],
) -> Option<OptimizerSection> {
    let known: Vec<(&str, Rule)> = rules.iter().map(|rule| (rule.0, *rule)).collect();
    let rule = match section.node("kind") {
        Some(_) => section.choice("kind", what, &known),
        None => rules.iter().find(|(name, _)| *name == default).copied(),
    };
    let Some((kind, parameters)) = rule else {
        // Without the kind the keys cannot be checked, so only the kind is reported.
        rules.iter().for_each(|(_, keys)| {
            section.know(&keys.iter().map(|(key, _)| *key).collect::<Vec<_>>())
        });
        return None;
    };
    let mut values = Map::new();
    for &(name, range) in parameters {
        if let Some(value) = parameter(&section, name, range) {
            values.insert(name.to_owned(), value);
        }
    }
    for &(name, _) in parameters {
        if needed.contains(&name) && section.node(name).is_none() {
            section.missing(
                name,
                if name == "boundaries" {
                    "[1000]"
                } else {
                    "0.1"
                },
            );
        }
    }
    section.finish();
    Some(OptimizerSection {
        kind: kind.to_owned(),
        values,
    })
}

fn parameter(section: &Section<'_>, name: &'static str, range: Range) -> Option<Json> {
    match range {
        Range::Flag => section.flag(name).map(Json::from),
        Range::Rate | Range::RateBehind
            if matches!(
                section.node(name).map(|node| &node.value),
                Some(Value::Table(_))
            ) =>
        {
            let inner = section.section(name)?;
            let known = if range == Range::Rate {
                &SCHEDULES[..]
            } else {
                &SCHEDULES[..SCHEDULES.len() - 1]
            };
            if inner.node("kind").is_none() {
                inner.missing("kind", "\"exponential_decay\"");
                known.iter().for_each(|(_, keys)| {
                    inner.know(&keys.iter().map(|(key, _)| *key).collect::<Vec<_>>())
                });
                return None;
            }
            let schedule = read_kind(inner, "schedule", known, "", SCHEDULE_NEEDS)?;
            let counts = |key: &str| {
                schedule
                    .values
                    .get(key)
                    .and_then(Json::as_array)
                    .map(Vec::len)
            };
            if let (Some(boundaries), Some(values)) = (counts("boundaries"), counts("values"))
                && values != boundaries + 1
            {
                let message = format!(
                    "values must be one more than the {boundaries} boundaries, given {values}"
                );
                section.fail(Code::E1002, name, message);
            }
            Some(schedule.fields().into())
        }
        Range::Ascending | Range::Rates => {
            let numbers = section.numbers(name)?;
            if range == Range::Ascending && numbers.windows(2).any(|pair| pair[0] >= pair[1]) {
                section.fail(Code::E1002, name, format!("{name} must ascend"));
            }
            if range == Range::Rates
                && let Some(bad) = numbers.iter().find(|number| **number < 0.0)
            {
                section.fail(
                    Code::E1002,
                    name,
                    format!("{name} must be >= 0, given {bad:?}"),
                );
            }
            Some(numbers.into())
        }
        _ => number(section, name, range),
    }
}

fn number(section: &Section<'_>, name: &'static str, range: Range) -> Option<Json> {
    // The check uses single precision, in which 1e-50 is 0. The value keeps its full precision.
    let value = section.single(name)?;
    let given = section.number(name)?;
    let (holds, rule) = match range {
        Range::Positive | Range::Rate | Range::RateBehind => (value > 0.0, "> 0"),
        Range::NotNegative => (value >= 0.0, ">= 0"),
        Range::One => (value >= 1.0, ">= 1"),
        Range::NotPositive => (value <= 0.0, "<= 0"),
        Range::Fraction => ((0.0..1.0).contains(&value), ">= 0 and < 1"),
        Range::Any | Range::Flag | Range::Ascending | Range::Rates => (true, ""),
    };
    if !holds {
        section.fail(
            Code::E1002,
            name,
            format!("{name} must be {rule}, given {given:?}"),
        );
    }
    Some(given.into())
}
