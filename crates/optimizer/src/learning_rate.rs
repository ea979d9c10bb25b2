//! The learning rate: a number, or a schedule of the global step.

mod schedule;

use serde::{Deserialize, Serialize};

pub use schedule::Schedule;

use crate::Error;
use crate::error::positive;

/// A learning rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LearningRate {
    /// The same rate at every step, above 0.
    Constant(f32),
    /// A function of the global step.
    Scheduled(Schedule),
}

impl LearningRate {
    /// Returns the rate of update `step`, counted from 1. TensorFlow's schedules see `step - 1`.
    pub fn at(&self, step: u64) -> f32 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Scheduled(schedule) => schedule.rate(step.saturating_sub(1)),
        }
    }

    /// Returns the same rate, `factor` times as high at every step.
    pub(crate) fn times(&self, factor: f32) -> Self {
        match self {
            Self::Constant(rate) => Self::Constant(rate * factor),
            Self::Scheduled(schedule) => Self::Scheduled(schedule.clone().times(factor)),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        match self {
            Self::Constant(rate) => positive("learning_rate", *rate),
            Self::Scheduled(schedule) => schedule.validate(),
        }
    }

    /// `0.001`, the default of several rules.
    pub(crate) fn thousandth() -> Self {
        Self::Constant(0.001)
    }
}

impl From<f32> for LearningRate {
    fn from(rate: f32) -> Self {
        Self::Constant(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_rises_to_that_of_the_schedule_which_follows_from_its_beginning() {
        let text = r#"{"kind": "warmup", "warmup_steps": 4, "learning_rate":
            {"kind": "polynomial_decay", "learning_rate": 0.5, "decay_steps": 10, "end_learning_rate": 0.0}}"#;
        let rate: LearningRate = serde_json::from_str(text).expect("a rate");
        let rates: Vec<f32> = (1..=7).map(|step| rate.at(step)).collect();
        assert_eq!(rates, [0.0, 0.125, 0.25, 0.375, 0.5, 0.45, 0.4]);
        assert_eq!(rate.at(14 + 1), 0.0, "it ends ten steps behind the rise");
    }

    #[test]
    fn a_rate_times_a_number_is_as_many_times_as_high_at_every_step() {
        for text in [
            "0.5",
            r#"{"kind": "exponential_decay", "learning_rate": 0.5, "decay_steps": 10, "decay_rate": 0.5}"#,
            r#"{"kind": "polynomial_decay", "learning_rate": 0.5, "decay_steps": 10, "end_learning_rate": 0.25}"#,
            r#"{"kind": "cosine_decay", "learning_rate": 0.5, "decay_steps": 10, "alpha": 0.125}"#,
            r#"{"kind": "warmup", "warmup_steps": 4, "learning_rate": 0.5}"#,
            r#"{"kind": "piecewise_constant", "boundaries": [5], "values": [0.5, 0.25]}"#,
        ] {
            let rate: LearningRate = serde_json::from_str(text).expect("a rate");
            let scaled = rate.times(4.0);
            for step in 1..30 {
                let once = rate.at(step);
                let four = scaled.at(step);
                assert!(
                    (four - 4.0 * once).abs() <= 1e-6,
                    "{text} at {step}: {once} and {four}"
                );
            }
        }
    }
}
