//! `[model.linear_optimizer]` and `[model.dnn_optimizer]`: update rules with their hyper-parameters.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use trainyard_diagnostic::{Bound, Section, Takes, Value, kinds, section};

use super::learning_rate::{read_rate, takes_rate};
use crate::{Defaults, OptimizerSection};

kinds! {
    /// Hyper-parameters by the kind of optimizer, under TensorFlow's names and defaults.
    #[derive(Debug, Serialize)]
    #[serde(untagged)]
    pub(crate) enum OptimizerKeys = "optimizer" {
        /// gradient descent
        "sgd" => Sgd(RateKeys),
        /// momentum, also Nesterov's
        "momentum" => Momentum(RateKeys, MomentumKeys),
        /// momentum as Keras writes it. It differs from `momentum` only when the learning rate changes
        "keras_momentum" => KerasMomentum(RateKeys, MomentumKeys),
        /// divides by the root of the sum of squared gradients. Default of the linear part: see above
        "adagrad" => Adagrad(RateKeys, AccumulatorKeys, AdagradKeys),
        /// Adagrad by dual averaging
        "adagrad_da" => AdagradDa(RateKeys, SquaredAccumulatorKeys, PenaltyKeys),
        /// divides by the root of the mean of squared gradients, times the root of the mean of squared updates
        "adadelta" => Adadelta(OwnRateKeys, AdadeltaKeys),
        /// mean of the gradients, divided by the root of the mean of their squares. Default of the deep part and of custom
        /// models: see above
        "adam" => Adam(OwnRateKeys, AdamKeys),
        /// divides by the root of the mean of squared gradients
        "rmsprop" => RmsProp(OwnRateKeys, DecayKeys, RmsPropKeys, CenteredKeys),
        /// RMSProp as Keras writes it: `epsilon` is added after the root, and without momentum each step decays all rows
        /// of a table
        "keras_rmsprop" => KerasRmsProp(OwnRateKeys, DecayKeys, KerasRmsPropKeys, CenteredKeys),
        /// FTRL-Proximal. Default of baselines, and of the linear part with defaults of TensorFlow: see above
        "ftrl" => Ftrl(RateKeys, PowerKeys, AccumulatorKeys, PenaltyKeys, FtrlKeys),
        /// gradient descent with penalties by their proximal operators
        "proximal_sgd" => ProximalSgd(RateKeys, PenaltyKeys),
        /// Adagrad with penalties by their proximal operators
        "proximal_adagrad" => ProximalAdagrad(RateKeys, PositiveAccumulatorKeys, PenaltyKeys),
    }
}

section! {
    /// Learning rate of optimizers that take that of their part of the model by default.
    #[derive(Debug, Serialize)]
    pub(crate) struct RateKeys {
        /// factor of each step: a number > 0, or a schedule (below)
        learning_rate: Option<Json> = custom(read_rate, takes_rate, "")
            .optional_or_invalid("that of its part of the model: see above");
    }
}

section! {
    /// Learning rate of optimizers with a default of their own.
    #[derive(Debug, Serialize)]
    pub(crate) struct OwnRateKeys {
        /// factor of each step: a number > 0, or a schedule (below)
        learning_rate: Option<Json> = custom(read_rate, takes_rate, "0.001").optional_with(Json::Null);
    }
}

section! {
    /// Hyper-parameters of momentum.
    #[derive(Debug, Serialize)]
    pub(crate) struct MomentumKeys {
        /// share of the previous update that each update repeats, >= 0 and < 1
        momentum: Option<f64> = written(Bound::Fraction).optional_with(0.9);
        /// takes the gradient where the momentum leads (Nesterov)
        use_nesterov: Option<bool> = flag().optional_with(false);
    }
}

section! {
    /// Accumulator that may start at 0.
    #[derive(Debug, Serialize)]
    pub(crate) struct AccumulatorKeys {
        /// first value of the sum of squared gradients
        initial_accumulator_value: Option<f64> = written(Bound::NotNegative).optional_with(0.1);
    }
}

section! {
    /// Accumulator that divides from the first step on, so it cannot start at 0.
    #[derive(Debug, Serialize)]
    pub(crate) struct PositiveAccumulatorKeys {
        /// first value of the sum of squared gradients
        initial_accumulator_value: Option<f64> = written(Bound::Positive).optional_with(0.1);
    }
}

section! {
    /// Accumulator of dual averaging.
    #[derive(Debug, Serialize)]
    pub(crate) struct SquaredAccumulatorKeys {
        /// first value of the sum of squared gradients
        initial_gradient_squared_accumulator_value: Option<f64> = written(Bound::Positive).optional_with(0.1);
    }
}

section! {
    /// Penalties on the size of values.
    #[derive(Debug, Serialize)]
    pub(crate) struct PenaltyKeys {
        /// penalty on absolute values, which makes values 0
        l1_regularization_strength: Option<f64> = written(Bound::NotNegative).optional_with(0.0);
        /// penalty on squared values
        l2_regularization_strength: Option<f64> = written(Bound::NotNegative).optional_with(0.0);
    }
}

section! {
    /// Hyper-parameters of Adagrad alone.
    #[derive(Debug, Serialize)]
    pub(crate) struct AdagradKeys {
        /// is added to the root of the sum of squares
        epsilon: Option<f64> = written(Bound::NotNegative).optional_with(0.0);
    }
}

section! {
    /// Hyper-parameters of Adadelta alone.
    #[derive(Debug, Serialize)]
    pub(crate) struct AdadeltaKeys {
        /// share of both means that a step keeps, >= 0 and < 1
        rho: Option<f64> = written(Bound::Fraction).optional_with(0.95);
        /// is added to both means before their roots
        epsilon: Option<f64> = written(Bound::Positive).optional_with(1e-8);
    }
}

section! {
    /// Hyper-parameters of Adam alone.
    #[derive(Debug, Serialize)]
    pub(crate) struct AdamKeys {
        /// share of the mean of gradients that a step keeps, >= 0 and < 1
        beta1: Option<f64> = written(Bound::Fraction).optional_with(0.9);
        /// share of the mean of squares that a step keeps, >= 0 and < 1
        beta2: Option<f64> = written(Bound::Fraction).optional_with(0.999);
        /// is added to the root of the mean of squares
        epsilon: Option<f64> = written(Bound::Positive).optional_with(1e-8);
        /// divides by the largest mean of squares so far (AMSGrad)
        amsgrad: Option<bool> = flag().optional_with(false);
        /// `false`: each step updates all rows of a table, as in TensorFlow. `true`: each step updates only the rows of the
        /// batch, which large tables need
        lazy: Option<bool> = flag().optional_with(false);
        /// with a value above 0, each step first multiplies each value that it updates by 1 - learning rate x weight decay
        /// (AdamW)
        weight_decay: Option<f64> = written(Bound::NotNegative).optional_with(0.0);
    }
}

section! {
    /// Hyper-parameters of both forms of RMSProp.
    #[derive(Debug, Serialize)]
    pub(crate) struct DecayKeys {
        /// share of the mean of squares that a step keeps, >= 0 and < 1
        decay: Option<f64> = written(Bound::Fraction).optional_with(0.9);
        /// share of the previous update that each update repeats, >= 0 and < 1
        momentum: Option<f64> = written(Bound::Fraction).optional_with(0.0);
    }
}

section! {
    /// Hyper-parameters of TensorFlow 1's RMSProp alone.
    #[derive(Debug, Serialize)]
    pub(crate) struct RmsPropKeys {
        /// is added to the mean of squares before its root
        epsilon: Option<f64> = written(Bound::Positive).optional_with(1e-10);
    }
}

section! {
    /// Hyper-parameters of Keras's RMSprop alone.
    #[derive(Debug, Serialize)]
    pub(crate) struct KerasRmsPropKeys {
        /// is added to the root of the mean of squares
        epsilon: Option<f64> = written(Bound::Positive).optional_with(1e-7);
    }
}

section! {
    /// Centering of both forms of RMSProp.
    #[derive(Debug, Serialize)]
    pub(crate) struct CenteredKeys {
        /// divides by the root of the variance instead of the mean of squares
        centered: Option<bool> = flag().optional_with(false);
    }
}

section! {
    /// Hyper-parameters of FTRL before those that it shares.
    #[derive(Debug, Serialize)]
    pub(crate) struct PowerKeys {
        /// power of the sum of squares by which learning rates fall, <= 0
        learning_rate_power: Option<f64> = written(Bound::NotPositive).optional_with(-0.5);
    }
}

section! {
    /// Hyper-parameters of FTRL alone.
    #[derive(Debug, Serialize)]
    pub(crate) struct FtrlKeys {
        /// penalty on squared values that is part of the gradient
        l2_shrinkage_regularization_strength: Option<f64> = written(Bound::NotNegative).optional_with(0.0);
        /// adds beta / (2 x learning rate) to `l2_regularization_strength`
        beta: Option<f64> = written(Bound::NotNegative).optional_with(0.0);
    }
}

kinds! {
    /// Keys of `train.clip_gradients` by its kind.
    #[derive(Debug, Serialize)]
    #[serde(untagged)]
    pub(crate) enum ClippingKeys = "kind of clipping" {
        /// scales all gradients of a step if their common Euclidean norm exceeds `clip` (`tf.clip_by_global_norm`)
        "global_norm" => GlobalNorm(ClipKeys),
        /// scales the gradient of each variable whose Euclidean norm exceeds `clip` (`tf.clip_by_norm`)
        "norm" => Norm(ClipKeys),
        /// limits each number of a gradient to -`clip` to `clip` (`tf.clip_by_value`)
        "value" => Value(ClipKeys),
    }
}

section! {
    /// Bound of every kind of clipping.
    #[derive(Debug, Serialize)]
    pub(crate) struct ClipKeys {
        /// the bound, > 0
        clip: Option<f64> = written(Bound::Positive).required_or_invalid("5.0");
    }
}

/// The optimizer of a part of a model for which a job names none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Usual {
    kind: &'static str,
    /// Hyper-parameters that differ from those of the kind.
    values: Map<String, Json>,
}

impl Usual {
    fn of(kind: &'static str, values: Json) -> Self {
        let values = match values {
            Json::Object(values) => values,
            _ => Map::new(),
        };
        Self { kind, values }
    }

    /// Returns that of the linear part. A weight of an id that one record of a batch has gets a gradient of about 1/batch, as the
    /// loss is a mean: beside TensorFlow's accumulator of 0.1, which is for a summed loss, its steps would be a hundredth of
    /// the rate. The bias of a baseline has the gradient of the whole batch.
    pub(super) fn of_linear(defaults: Defaults, is_baseline: bool) -> Self {
        match defaults {
            Defaults::Trainyard if !is_baseline => Self::of(
                "adagrad",
                json!({"learning_rate": 0.1, "initial_accumulator_value": 1e-4}),
            ),
            _ => Self::of("ftrl", json!({})),
        }
    }

    /// Returns that of dense layers, embeddings and custom models, with the rate of the field's benchmark (BARS, Zhu et al. 2022).
    /// The rows that a batch does not read stay as they are.
    pub(super) fn of_deep(defaults: Defaults) -> Self {
        match defaults {
            Defaults::Trainyard => Self::of("adam", json!({"learning_rate": 0.001, "lazy": true})),
            Defaults::Tensorflow1 | Defaults::Tensorflow2 => Self::of("adagrad", json!({})),
        }
    }

    /// Returns the optimizer as a job could name it.
    pub(super) fn named(self) -> OptimizerSection {
        OptimizerSection {
            kind: self.kind.to_owned(),
            values: self.values,
        }
    }
}

/// Returns the defaults that a `[model]` names.
fn defaults(model: &Section<'_>) -> Defaults {
    let name = match model.node("defaults").map(|node| &node.value) {
        Some(Value::Text(name)) => name.as_str(),
        _ => "",
    };
    let mut known = Defaults::NAMES.into_iter();
    let found = known.find(|(known, _)| *known == name);
    found.map_or(Defaults::Trainyard, |(_, defaults)| defaults)
}

fn is_baseline(model: &Section<'_>) -> bool {
    let kind = model.node("kind").map(|node| &node.value);
    matches!(kind, Some(Value::Text(kind)) if kind.starts_with("baseline"))
}

pub(super) fn takes_linear_optimizer() -> Takes {
    Takes::TableByKind(OptimizerKeys::kinds().or("adagrad"))
}

pub(super) fn read_linear_optimizer(
    model: &Section<'_>,
    key: &'static str,
) -> Option<OptimizerSection> {
    let usual = Usual::of_linear(defaults(model), is_baseline(model));
    read(model.section(key)?, usual)
}

pub(super) fn takes_optimizer() -> Takes {
    Takes::TableByKind(OptimizerKeys::kinds().or("adam"))
}

pub(super) fn read_optimizer(model: &Section<'_>, key: &'static str) -> Option<OptimizerSection> {
    let usual = Usual::of_deep(defaults(model));
    read(model.section(key)?, usual)
}

/// Reads an optimizer. Without a kind it is the usual one, with the hyper-parameters that are given in place of its own.
fn read(section: Section<'_>, usual: Usual) -> Option<OptimizerSection> {
    let is_named = section.node("kind").is_some();
    let read = OptimizerKeys::read_kind(&section, &OptimizerKeys::kinds().or(usual.kind));
    section.finish();
    let (kind, keys) = read?;
    if is_named {
        return Some(OptimizerSection {
            kind: kind.to_owned(),
            values: given(&keys),
        });
    }
    let mut usual = usual.named();
    usual.values.extend(given(&keys));
    Some(usual)
}

pub(super) fn takes_clipping() -> Takes {
    Takes::TableByKind(ClippingKeys::kinds())
}

/// Reads a bound on gradients.
pub(super) fn read_clipping(section: &Section<'_>, key: &'static str) -> Option<OptimizerSection> {
    let section = section.section(key)?;
    let read = ClippingKeys::read_kind(&section, &ClippingKeys::kinds());
    section.finish();
    let (kind, keys) = read?;
    Some(OptimizerSection {
        kind: kind.to_owned(),
        values: given(&keys),
    })
}

/// Returns the keys that a table has, of one section or of several.
pub(super) fn given(keys: &impl Serialize) -> Map<String, Json> {
    let sections = match serde_json::to_value(keys) {
        Ok(Json::Array(sections)) => sections,
        Ok(section) => vec![section],
        Err(error) => unreachable!("flags, texts and finite numbers are JSON: {error}"),
    };
    let fields = sections.into_iter().flat_map(|section| match section {
        Json::Object(fields) => fields,
        _ => Map::new(),
    });
    fields.filter(|(_, value)| !value.is_null()).collect()
}
