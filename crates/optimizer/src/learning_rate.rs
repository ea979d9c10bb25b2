//! The learning rate: a number, or a schedule of the global step.

use serde::{Deserialize, Serialize};

use crate::error::positive;
use crate::{Error, Schedule};

/// A learning rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LearningRate {
    /// The same at every step, above 0.
    Constant(f32),
    /// A function of the global step.
    Scheduled(Schedule),
}

impl LearningRate {
    /// Returns the rate of the update that counts `step`, from 1: TensorFlow's schedules see `step - 1`.
    pub fn at(&self, step: u64) -> f32 {
        match self {
            Self::Constant(rate) => *rate,
            Self::Scheduled(schedule) => schedule.rate(step.saturating_sub(1)),
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
