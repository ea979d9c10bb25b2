//! Rows of the optimizers and of the schedules of their learning rates.

use crate::keys::row::{Row, row};

/// An optimizer, the keys that both jobs have, and each of its keys with another value.
type Rule = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const L1: (&str, &str) = ("l1_regularization_strength", "0.05");
const L2: (&str, &str) = ("l2_regularization_strength", "0.05");
const RATE: (&str, &str) = ("learning_rate", "0.07");
const NESTEROV: (&str, &str) = ("use_nesterov", "true");

const OPTIMIZERS: [Rule; 12] = [
    ("sgd", "learning_rate = 0.1", &[RATE]),
    (
        "momentum",
        "learning_rate = 0.1",
        &[RATE, ("momentum", "0.5"), NESTEROV],
    ),
    (
        "keras_momentum",
        "learning_rate = 0.1",
        &[RATE, ("momentum", "0.5"), NESTEROV],
    ),
    (
        "adagrad",
        "learning_rate = 0.1",
        &[
            RATE,
            ("initial_accumulator_value", "0.5"),
            ("epsilon", "0.1"),
        ],
    ),
    (
        "adagrad_da",
        "learning_rate = 0.1",
        &[
            RATE,
            ("initial_gradient_squared_accumulator_value", "0.5"),
            L1,
            L2,
        ],
    ),
    (
        "adadelta",
        "learning_rate = 1.0",
        &[RATE, ("rho", "0.5"), ("epsilon", "0.001")],
    ),
    (
        "adam",
        "learning_rate = 0.1",
        &[
            RATE,
            ("beta1", "0.5"),
            ("beta2", "0.5"),
            ("epsilon", "0.1"),
            ("amsgrad", "true"),
            ("lazy", "true"),
            ("weight_decay", "0.5"),
        ],
    ),
    (
        "rmsprop",
        "learning_rate = 0.1",
        &[
            RATE,
            ("decay", "0.5"),
            ("momentum", "0.5"),
            ("epsilon", "0.1"),
            ("centered", "true"),
        ],
    ),
    (
        "keras_rmsprop",
        "learning_rate = 0.1",
        &[
            RATE,
            ("decay", "0.5"),
            ("momentum", "0.5"),
            ("epsilon", "0.1"),
            ("centered", "true"),
        ],
    ),
    (
        "ftrl",
        "learning_rate = 0.1",
        &[
            RATE,
            ("learning_rate_power", "-0.3"),
            ("initial_accumulator_value", "0.5"),
            L1,
            L2,
            ("l2_shrinkage_regularization_strength", "0.05"),
            ("beta", "0.5"),
        ],
    ),
    ("proximal_sgd", "learning_rate = 0.1", &[RATE, L1, L2]),
    (
        "proximal_adagrad",
        "learning_rate = 0.1",
        &[RATE, ("initial_accumulator_value", "0.5"), L1, L2],
    ),
];

const BY_RATE: &str = "learning_rate = 0.1, decay_steps = 3, decay_rate = 0.5";
const OF_RATE: &[(&str, &str)] = &[
    RATE,
    ("decay_steps", "4"),
    ("decay_rate", "0.8"),
    ("staircase", "true"),
];

const SCHEDULES: [Rule; 9] = [
    ("exponential_decay", BY_RATE, OF_RATE),
    ("natural_exp_decay", BY_RATE, OF_RATE),
    ("inverse_time_decay", BY_RATE, OF_RATE),
    (
        "polynomial_decay",
        "learning_rate = 0.1, decay_steps = 5",
        &[
            RATE,
            ("decay_steps", "4"),
            ("end_learning_rate", "0.05"),
            ("power", "2.0"),
            ("cycle", "true"),
        ],
    ),
    (
        "cosine_decay",
        "learning_rate = 0.1, decay_steps = 20",
        &[RATE, ("decay_steps", "10"), ("alpha", "0.3")],
    ),
    (
        "cosine_decay_restarts",
        "learning_rate = 0.1, first_decay_steps = 2",
        &[
            RATE,
            ("first_decay_steps", "3"),
            ("t_mul", "3.0"),
            ("m_mul", "0.5"),
            ("alpha", "0.3"),
        ],
    ),
    (
        "linear_cosine_decay",
        "learning_rate = 0.1, decay_steps = 20",
        &[
            RATE,
            ("decay_steps", "10"),
            ("num_periods", "1.5"),
            ("alpha", "0.3"),
            ("beta", "0.1"),
        ],
    ),
    (
        "warmup",
        "warmup_steps = 3, learning_rate = 0.1",
        &[("warmup_steps", "5"), RATE],
    ),
    (
        "piecewise_constant",
        "boundaries = [3.0], values = [0.1, 0.05]",
        &[("boundaries", "[5.0]"), ("values", "[0.1, 0.02]")],
    ),
];

const MODEL: [(&str, &str); 5] = [
    ("model.kind", "\"dnn_classifier\""),
    ("feature.1.wide", "-"),
    ("input.train.batch_size", "4"),
    ("input.train.epochs", "1"),
    ("input.eval", "-"),
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, base, keys) in OPTIMIZERS {
        let both = format!("{{ kind = \"{kind}\", {base} }}");
        let of_kind = row("").over(&MODEL).over(&[("model.dnn_optimizer", &both)]);
        let changed = |(key, value): &(&str, &str)| {
            of_kind
                .clone()
                .of(format!("optimizer.{kind}.{key}"))
                .set(format!("model.dnn_optimizer.{key}"), *value)
        };
        rows.extend(keys.iter().map(changed));
        let other = format!("{{ kind = \"{kind}\", learning_rate = 0.02 }}");
        rows.push(
            row("optimizer.kind")
                .over(&MODEL)
                .set("model.dnn_optimizer", other),
        );
    }
    for (kind, base, keys) in SCHEDULES {
        let both = format!("{{ kind = \"sgd\", learning_rate = {{ kind = \"{kind}\", {base} }} }}");
        let of_kind = row("").over(&MODEL).over(&[("model.dnn_optimizer", &both)]);
        let changed = |(key, value): &(&str, &str)| {
            of_kind
                .clone()
                .of(format!("schedule.{kind}.{key}"))
                .set(format!("model.dnn_optimizer.learning_rate.{key}"), *value)
        };
        rows.extend(keys.iter().map(changed));
        let constant = [(
            "model.dnn_optimizer",
            "{ kind = \"sgd\", learning_rate = 0.1 }",
        )];
        rows.push(
            row("schedule.kind")
                .over(&MODEL)
                .over(&constant)
                .set("model.dnn_optimizer", both),
        );
    }
    rows
}
