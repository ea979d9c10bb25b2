//! `learning_rate` of an optimizer: a number, or a schedule by the global step.

use serde::Serialize;
use serde_json::{Map, Value as Json};
use trainyard_diagnostic::rule::Form;
use trainyard_diagnostic::{Bound, Code, Kinds, Section, Takes, Value, form, kinds, section};

use super::optimizer::given;

kinds! {
    /// Keys of a schedule by its kind (`tf.compat.v1.train.*_decay`), under TensorFlow's names and defaults.
    #[derive(Debug, Serialize)]
    #[serde(untagged)]
    pub(crate) enum ScheduleKeys = "schedule" {
        /// rate x `decay_rate`^(step / `decay_steps`)
        "exponential_decay" => ExponentialDecay(StartKeys, StepKeys, DecayRateKeys),
        /// rate x e^(-`decay_rate` x step / `decay_steps`)
        "natural_exp_decay" => NaturalExpDecay(StartKeys, StepKeys, DecayRateKeys),
        /// rate / (1 + `decay_rate` x step / `decay_steps`)
        "inverse_time_decay" => InverseTimeDecay(StartKeys, StepKeys, DecayRateKeys),
        /// from the first rate to `end_learning_rate` in `decay_steps` steps
        "polynomial_decay" => PolynomialDecay(StartKeys, StepKeys, PolynomialKeys),
        /// half a cosine from the first rate to `alpha` times the first rate
        "cosine_decay" => CosineDecay(StartKeys, StepKeys, RestKeys),
        /// cosine decays one after the other
        "cosine_decay_restarts" => CosineDecayRestarts(StartKeys, RestartKeys, RestKeys),
        /// rate x ((`alpha` + 1 - p) (1 + cos(2π `num_periods` p)) / 2 + `beta`), where p is step / `decay_steps`
        "linear_cosine_decay" => LinearCosineDecay(StartKeys, StepKeys, LinearCosineKeys),
        /// one value until each boundary, and one after the last
        "piecewise_constant" => PiecewiseConstant(PieceKeys),
    }
}

kinds! {
    /// Keys of a schedule before another rate. It is a declaration of its own, since it does not follow itself.
    #[derive(Debug, Serialize)]
    #[serde(untagged)]
    pub(crate) enum RiseKeys = "schedule" {
        /// rises linearly from 0 to the first rate of the schedule that follows, and then follows that schedule, whose steps count from the end of the rise
        "warmup" => Warmup(WarmupKeys),
    }
}

section! {
    /// First rate of a schedule.
    #[derive(Debug, Serialize)]
    pub(crate) struct StartKeys {
        /// first rate, > 0
        learning_rate: Option<f64> = written(Bound::Positive).required_or_invalid("0.1");
    }
}

section! {
    /// Length of a decay.
    #[derive(Debug, Serialize)]
    pub(crate) struct StepKeys {
        /// steps of a decay, > 0
        decay_steps: Option<f64> = written(Bound::Positive).required_or_invalid("1000");
    }
}

section! {
    /// Speed of a decay.
    #[derive(Debug, Serialize)]
    pub(crate) struct DecayRateKeys {
        /// speed of the decay, > 0, by the formula of the schedule
        decay_rate: Option<f64> = written(Bound::Positive).required_or_invalid("0.96");
        /// the rate changes after each `decay_steps` steps only: the quotient is rounded down
        staircase: Option<bool> = flag().optional_with(false);
    }
}

section! {
    /// End and form of a polynomial decay.
    #[derive(Debug, Serialize)]
    pub(crate) struct PolynomialKeys {
        /// last rate, >= 0
        end_learning_rate: Option<f64> = written(Bound::NotNegative).optional_with(0.0001);
        /// power of the polynomial; 1 = a straight line
        power: Option<f64> = written(Bound::None).optional_with(1.0);
        /// starts a longer decay after the end of one, instead of staying at `end_learning_rate`
        cycle: Option<bool> = flag().optional_with(false);
    }
}

section! {
    /// Rest of the rate at the end of a cosine.
    #[derive(Debug, Serialize)]
    pub(crate) struct RestKeys {
        /// share of the first rate that remains at the end
        alpha: Option<f64> = written(Bound::None).optional_with(0.0);
    }
}

section! {
    /// Lengths and heights of restarts.
    #[derive(Debug, Serialize)]
    pub(crate) struct RestartKeys {
        /// steps of the first decay, > 0
        first_decay_steps: Option<f64> = written(Bound::Positive).required_or_invalid("1000");
        /// length of each decay in lengths of the one before, >= 1
        t_mul: Option<f64> = written(Bound::AtLeastOne).optional_with(2.0);
        /// first rate of each decay in first rates of the one before, >= 0
        m_mul: Option<f64> = written(Bound::NotNegative).optional_with(1.0);
    }
}

section! {
    /// Form of a linear cosine decay.
    #[derive(Debug, Serialize)]
    pub(crate) struct LinearCosineKeys {
        /// periods of the cosine
        num_periods: Option<f64> = written(Bound::None).optional_with(0.5);
        /// is added to the linear part
        alpha: Option<f64> = written(Bound::None).optional_with(0.0);
        /// is added to the product
        beta: Option<f64> = written(Bound::None).optional_with(0.001);
    }
}

section! {
    /// Boundaries and values of a step function.
    #[derive(Debug, Serialize)]
    pub(crate) struct PieceKeys {
        /// ascending steps; each is the last one with its value
        boundaries: Option<Vec<f64>> = custom(read_boundaries, || Takes::Numbers, "").required_or_invalid("[1000]");
        /// rates >= 0, one more than boundaries
        values: Option<Vec<f64>> = custom(read_values, || Takes::Numbers, "").required_or_invalid("[0.1, 0.01]");
    }
}

section! {
    /// Length of a warm-up, and the rate that follows.
    #[derive(Debug, Serialize)]
    pub(crate) struct WarmupKeys {
        /// steps of the rise, > 0
        warmup_steps: Option<f64> = written(Bound::Positive).required_or_invalid("1000");
        /// rate that follows: a number > 0, or a schedule other than `warmup`
        learning_rate: Option<Json> = custom(read_rate_that_follows, takes_rate_that_follows, "").required_or_invalid("0.1");
    }
}

fn schedules() -> Kinds {
    ScheduleKeys::kinds().and(RiseKeys::kinds())
}

fn rate_or(schedules: Kinds) -> Takes {
    Takes::AnyOf(vec![
        Takes::Number(Bound::Positive),
        Takes::TableByKind(schedules),
    ])
}

pub(super) fn takes_rate() -> Takes {
    rate_or(schedules())
}

fn takes_rate_that_follows() -> Takes {
    rate_or(ScheduleKeys::kinds())
}

/// Reads a rate: a number, or a schedule.
pub(super) fn read_rate(section: &Section<'_>, key: &'static str) -> Option<Json> {
    read(section, key, schedules)
}

fn read_rate_that_follows(section: &Section<'_>, key: &'static str) -> Option<Json> {
    read(section, key, ScheduleKeys::kinds)
}

fn read(section: &Section<'_>, key: &'static str, schedules: fn() -> Kinds) -> Option<Json> {
    match section.node(key)?.value {
        Value::Table(_) => read_schedule(section, key, &schedules()).map(Json::from),
        _ => form::written(Bound::Positive)
            .get(section, key)
            .map(Json::from),
    }
}

fn read_schedule(
    section: &Section<'_>,
    key: &'static str,
    schedules: &Kinds,
) -> Option<Map<String, Json>> {
    let inner = section.section(key)?;
    let kind = inner.kind(schedules);
    let schedule = kind.and_then(|kind| ScheduleKeys::read_keys(&inner, kind));
    let rise = kind.and_then(|kind| RiseKeys::read_keys(&inner, kind));
    inner.finish();
    if let Some(ScheduleKeys::PiecewiseConstant(PieceKeys {
        boundaries: Some(boundaries),
        values: Some(values),
    })) = &schedule
        && values.len() != boundaries.len() + 1
    {
        let message = format!(
            "values must be one more than the {} boundaries, given {}",
            boundaries.len(),
            values.len()
        );
        section.fail(Code::E1002, key, message);
    }
    let mut fields = match (schedule, rise) {
        (Some(keys), _) => given(&keys),
        (None, keys) => given(&keys?),
    };
    fields.insert("kind".to_owned(), kind?.into());
    Some(fields)
}

fn read_boundaries(section: &Section<'_>, key: &'static str) -> Option<Vec<f64>> {
    let boundaries = section.numbers(key)?;
    if boundaries.windows(2).any(|pair| pair[0] >= pair[1]) {
        section.fail(Code::E1002, key, format!("{key} must ascend"));
    }
    Some(boundaries)
}

fn read_values(section: &Section<'_>, key: &'static str) -> Option<Vec<f64>> {
    let values = section.numbers(key)?;
    if let Some(bad) = values.iter().find(|value| **value < 0.0) {
        let message = format!("{key} must be >= 0, given {bad:?}");
        section.fail(Code::E1002, key, message);
    }
    Some(values)
}
