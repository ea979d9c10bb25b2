//! Learning rates that change with the global step (`tf.compat.v1.train.*_decay`).

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::error::{positive, require};
use crate::{Error, LearningRate};

/// A learning rate as a function of the global step `s`, under TensorFlow's names and defaults. `r` is the initial
/// rate; `p = s / decay_steps`, rounded down with `staircase`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Schedule {
    /// `r decay_rate^p`.
    ExponentialDecay {
        /// `r`, above 0.
        learning_rate: f32,
        /// Above 0.
        decay_steps: f64,
        /// Above 0.
        decay_rate: f64,
        /// The rate falls in steps; false by default.
        #[serde(default)]
        staircase: bool,
    },
    /// `r e^(-decay_rate p)`.
    NaturalExpDecay {
        /// `r`, above 0.
        learning_rate: f32,
        /// Above 0.
        decay_steps: f64,
        /// Above 0.
        decay_rate: f64,
        /// The rate falls in steps; false by default.
        #[serde(default)]
        staircase: bool,
    },
    /// `r / (1 + decay_rate p)`.
    InverseTimeDecay {
        /// `r`, above 0.
        learning_rate: f32,
        /// Above 0.
        decay_steps: f64,
        /// Above 0.
        decay_rate: f64,
        /// The rate falls in steps; false by default.
        #[serde(default)]
        staircase: bool,
    },
    /// `(r - end) (1 - s / decay_steps)^power + end`; afterwards `end`, or a new decay with `cycle`.
    PolynomialDecay {
        /// `r`, above 0.
        learning_rate: f32,
        /// Above 0.
        decay_steps: f64,
        /// 0.0001 by default.
        #[serde(default = "default_end")]
        end_learning_rate: f64,
        /// 1 by default.
        #[serde(default = "one")]
        power: f64,
        /// False by default.
        #[serde(default)]
        cycle: bool,
    },
    /// `r ((1 - alpha) (1 + cos(π p)) / 2 + alpha)` (Loshchilov and Hutter 2016).
    CosineDecay {
        /// `r`, above 0.
        learning_rate: f32,
        /// Above 0.
        decay_steps: f64,
        /// Share of `r` that stays; 0 by default.
        #[serde(default)]
        alpha: f64,
    },
    /// Cosine decay that restarts, each time `t_mul` times as long and `m_mul` times as high.
    CosineDecayRestarts {
        /// `r`, above 0.
        learning_rate: f32,
        /// Above 0.
        first_decay_steps: f64,
        /// 2 by default, at least 1.
        #[serde(default = "two")]
        t_mul: f64,
        /// 1 by default.
        #[serde(default = "one")]
        m_mul: f64,
        /// Share of `r` that stays; 0 by default.
        #[serde(default)]
        alpha: f64,
    },
    /// `r ((alpha + 1 - p) (1 + cos(2π num_periods p)) / 2 + beta)` (Bello et al. 2017).
    LinearCosineDecay {
        /// `r`, above 0.
        learning_rate: f32,
        /// Above 0.
        decay_steps: f64,
        /// 0.5 by default.
        #[serde(default = "half")]
        num_periods: f64,
        /// 0 by default.
        #[serde(default)]
        alpha: f64,
        /// 0.001 by default.
        #[serde(default = "thousandth")]
        beta: f64,
    },
    /// `r s / warmup_steps` below `warmup_steps`, where `r` is the first value of the rate that follows. Afterwards the
    /// rate that follows, at `s - warmup_steps` (the warm-up of `tf.keras.optimizers.schedules.CosineDecay`, before any
    /// rate).
    Warmup {
        /// Above 0.
        warmup_steps: f64,
        /// The rate that follows: a number or a schedule.
        learning_rate: Box<LearningRate>,
    },
    /// `values[i]` for the first `boundaries[i]` that is not below `s`; the last value after all boundaries.
    PiecewiseConstant {
        /// Ascending.
        boundaries: Vec<f64>,
        /// One value more than boundaries.
        values: Vec<f64>,
    },
}

fn default_end() -> f64 {
    1e-4
}

fn one() -> f64 {
    1.0
}

fn two() -> f64 {
    2.0
}

fn half() -> f64 {
    0.5
}

fn thousandth() -> f64 {
    1e-3
}

impl Schedule {
    /// Returns the same schedule, `factor` times as high.
    pub(crate) fn times(mut self, factor: f32) -> Self {
        match &mut self {
            Self::ExponentialDecay { learning_rate, .. }
            | Self::NaturalExpDecay { learning_rate, .. }
            | Self::InverseTimeDecay { learning_rate, .. }
            | Self::CosineDecay { learning_rate, .. }
            | Self::CosineDecayRestarts { learning_rate, .. }
            | Self::LinearCosineDecay { learning_rate, .. } => *learning_rate *= factor,
            Self::PolynomialDecay {
                learning_rate,
                end_learning_rate,
                ..
            } => {
                *learning_rate *= factor;
                *end_learning_rate *= f64::from(factor);
            }
            Self::Warmup { learning_rate, .. } => **learning_rate = learning_rate.times(factor),
            Self::PiecewiseConstant { values, .. } => {
                values
                    .iter_mut()
                    .for_each(|value| *value *= f64::from(factor));
            }
        }
        self
    }

    /// Returns the learning rate at global step `step`, from 0.
    pub fn rate(&self, step: u64) -> f32 {
        let s = step as f64;
        let periods = |steps: f64, staircase: bool| {
            if staircase {
                (s / steps).floor()
            } else {
                s / steps
            }
        };
        let rate = match self {
            Self::ExponentialDecay {
                learning_rate,
                decay_steps,
                decay_rate,
                staircase,
            } => f64::from(*learning_rate) * decay_rate.powf(periods(*decay_steps, *staircase)),
            Self::NaturalExpDecay {
                learning_rate,
                decay_steps,
                decay_rate,
                staircase,
            } => {
                f64::from(*learning_rate) * (-decay_rate * periods(*decay_steps, *staircase)).exp()
            }
            Self::InverseTimeDecay {
                learning_rate,
                decay_steps,
                decay_rate,
                staircase,
            } => f64::from(*learning_rate) / (1.0 + decay_rate * periods(*decay_steps, *staircase)),
            &Self::PolynomialDecay {
                learning_rate,
                decay_steps,
                end_learning_rate: end,
                power,
                cycle,
            } => {
                let cycles = if cycle {
                    (s / decay_steps).ceil().max(1.0)
                } else {
                    1.0
                };
                let done = s.min(decay_steps * cycles) / (decay_steps * cycles);
                (f64::from(learning_rate) - end) * (1.0 - done).powf(power) + end
            }
            &Self::CosineDecay {
                learning_rate,
                decay_steps,
                alpha,
            } => {
                let done = s.min(decay_steps) / decay_steps;
                f64::from(learning_rate) * ((1.0 - alpha) * cosine(done) + alpha)
            }
            &Self::CosineDecayRestarts {
                learning_rate,
                first_decay_steps,
                t_mul,
                m_mul,
                alpha,
            } => {
                let (restarts, done) = restart(s / first_decay_steps, t_mul);
                let height = m_mul.powf(restarts) * cosine(done);
                f64::from(learning_rate) * ((1.0 - alpha) * height + alpha)
            }
            &Self::LinearCosineDecay {
                learning_rate,
                decay_steps,
                num_periods,
                alpha,
                beta,
            } => {
                let done = s.min(decay_steps) / decay_steps;
                let wave = cosine(2.0 * num_periods * done);
                f64::from(learning_rate) * ((alpha + 1.0 - done) * wave + beta)
            }
            Self::Warmup {
                warmup_steps,
                learning_rate,
            } if s < *warmup_steps => f64::from(learning_rate.at(1)) * s / warmup_steps,
            Self::Warmup {
                warmup_steps,
                learning_rate,
            } => {
                // A schedule sees the step before the one that is counted.
                f64::from(learning_rate.at((s - warmup_steps) as u64 + 1))
            }
            Self::PiecewiseConstant { boundaries, values } => {
                let place = boundaries.partition_point(|boundary| *boundary < s);
                values.get(place).copied().unwrap_or_default()
            }
        };
        rate as f32
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        match self {
            Self::ExponentialDecay {
                learning_rate,
                decay_steps,
                decay_rate,
                ..
            }
            | Self::NaturalExpDecay {
                learning_rate,
                decay_steps,
                decay_rate,
                ..
            }
            | Self::InverseTimeDecay {
                learning_rate,
                decay_steps,
                decay_rate,
                ..
            } => {
                positive("learning_rate", *learning_rate)?;
                positive("decay_steps", *decay_steps as f32)?;
                positive("decay_rate", *decay_rate as f32)
            }
            Self::PolynomialDecay {
                learning_rate,
                decay_steps,
                ..
            }
            | Self::CosineDecay {
                learning_rate,
                decay_steps,
                ..
            }
            | Self::LinearCosineDecay {
                learning_rate,
                decay_steps,
                ..
            } => {
                positive("learning_rate", *learning_rate)?;
                positive("decay_steps", *decay_steps as f32)
            }
            Self::CosineDecayRestarts {
                learning_rate,
                first_decay_steps,
                t_mul,
                ..
            } => {
                positive("learning_rate", *learning_rate)?;
                positive("first_decay_steps", *first_decay_steps as f32)?;
                require(*t_mul >= 1.0, "t_mul", ">= 1", *t_mul as f32)
            }
            Self::Warmup {
                warmup_steps,
                learning_rate,
            } => {
                positive("warmup_steps", *warmup_steps as f32)?;
                learning_rate.validate()
            }
            Self::PiecewiseConstant { boundaries, values } => {
                let ascends = boundaries.windows(2).all(|pair| pair[0] < pair[1]);
                require(
                    ascends,
                    "boundaries",
                    "ascending",
                    boundaries.first().map_or(0.0, |first| *first as f32),
                )?;
                let rule = "one more than there are boundaries";
                require(
                    values.len() == boundaries.len() + 1,
                    "values",
                    rule,
                    values.len() as f32,
                )?;
                match values
                    .iter()
                    .find(|value| !value.is_finite() || **value < 0.0)
                {
                    Some(value) => require(false, "values", ">= 0", *value as f32),
                    None => Ok(()),
                }
            }
        }
    }
}

fn cosine(done: f64) -> f64 {
    0.5 * (1.0 + (PI * done).cos())
}

/// Returns the number of restarts so far, and the finished share of the current period.
fn restart(periods: f64, t_mul: f64) -> (f64, f64) {
    if t_mul == 1.0 {
        return (periods.floor(), periods.fract());
    }
    let restarts = ((1.0 - periods * (1.0 - t_mul)).ln() / t_mul.ln()).floor();
    let length = t_mul.powf(restarts);
    (
        restarts,
        (periods - (1.0 - length) / (1.0 - t_mul)) / length,
    )
}
