//! Rules for the initial values of embeddings.

use trainyard_diagnostic::{Bound, Code, Key, Section, Takes, kinds, section};
use trainyard_variable::Initializer;

kinds! {
    /// Keys of an initializer by its kind (`tf.keras.initializers`).
    #[derive(Debug)]
    pub(crate) enum InitializerKeys = "initializer" {
        /// normal distribution around 0
        "normal" => Normal(DeviationKeys),
        /// normal distribution around 0, without values beyond two standard deviations
        "truncated_normal" => TruncatedNormal(DeviationKeys),
        /// every value from `low` to `high` alike
        "uniform" => Uniform(RangeKeys),
        /// every value in ±√(6 / (rows + dimension)) alike
        "glorot_uniform" => GlorotUniform(NoKeys),
        /// truncated normal distribution of deviation √(2 / rows)
        "he_normal" => HeNormal(NoKeys),
        /// 0
        "zeros" => Zeros(NoKeys),
        /// one value
        "constant" => Constant(ConstantKeys),
    }
}

section! {
    /// Keys of normal distributions.
    #[derive(Debug)]
    pub(crate) struct DeviationKeys {
        /// standard deviation, > 0
        stddev: Option<f32> = single(Bound::Positive).required_or_invalid("0.01");
    }
}

section! {
    /// Keys of a uniform distribution.
    #[derive(Debug)]
    pub(crate) struct RangeKeys {
        /// smallest value
        low: Option<f32> = single(Bound::None).required_or_invalid("-0.05");
        /// upper bound, more than `low`
        high: Option<f32> = single(Bound::None).required_or_invalid("0.05");
    }
}

section! {
    /// Keys of a constant.
    #[derive(Debug)]
    pub(crate) struct ConstantKeys {
        /// the value
        value: Option<f32> = single(Bound::None).required_or_invalid("0.1");
    }
}

/// The keys of kinds without parameters.
#[derive(Debug)]
pub(crate) struct NoKeys;

impl NoKeys {
    pub(crate) fn keys() -> Vec<Key> {
        Vec::new()
    }

    #[allow(clippy::unnecessary_wraps, reason = "as the sections with keys")]
    fn read_keys(_: &Section<'_>) -> Option<Self> {
        Some(Self)
    }
}

pub(crate) fn takes_initializer() -> Takes {
    Takes::TableByKind(InitializerKeys::kinds())
}

pub(crate) fn read_initializer(section: &Section<'_>, key: &'static str) -> Option<Initializer> {
    let section = section.section(key)?;
    let read = InitializerKeys::read_kind(&section, &InitializerKeys::kinds());
    if let Some((_, InitializerKeys::Uniform(keys))) = &read
        && let (Some(low), Some(high)) = (keys.low, keys.high)
        && low >= high
    {
        let message = format!("high must be more than low, given {low} to {high}");
        section.fail(Code::E1002, "high", message);
    }
    section.finish();
    Some(match read?.1 {
        InitializerKeys::Normal(keys) => Initializer::Normal {
            stddev: keys.stddev?,
        },
        InitializerKeys::TruncatedNormal(keys) => Initializer::TruncatedNormal {
            stddev: keys.stddev?,
        },
        InitializerKeys::Uniform(keys) => Initializer::Uniform {
            low: keys.low?,
            high: keys.high?,
        },
        InitializerKeys::GlorotUniform(NoKeys) => Initializer::GlorotUniform,
        InitializerKeys::HeNormal(NoKeys) => Initializer::HeNormal,
        InitializerKeys::Zeros(NoKeys) => Initializer::Zeros,
        InitializerKeys::Constant(keys) => Initializer::Constant { value: keys.value? },
    })
}
