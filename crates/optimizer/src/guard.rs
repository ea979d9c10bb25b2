//! The guard: the bounds that the gradients of a batch must keep.

use serde::Serialize;

/// Treatment of a push that holds infinity or NaN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Nonfinite {
    /// The push is rejected. Its batch counts as done, and training continues (the default).
    #[default]
    Reject,
    /// Infinity and NaN become 0, and the other values count.
    Zero,
    /// The push is refused. The task that computed it ends, and with it the job.
    Halt,
}

impl Nonfinite {
    /// Every treatment with its name in a job file.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("reject", Self::Reject),
        ("zero", Self::Zero),
        ("halt", Self::Halt),
    ];
}

/// The bounds of the values of a push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Guard {
    /// Treatment of infinity and NaN in loss or gradients.
    pub nonfinite: Nonfinite,
    /// Largest Euclidean norm of all gradients of a batch together; absent = any.
    pub max_norm: Option<f32>,
    /// Largest absolute value of a gradient; absent = any below 2^50.
    pub max_abs: Option<f32>,
}

impl Guard {
    /// Returns whether finite values have a bound of the job.
    pub fn has_bounds(&self) -> bool {
        self.max_norm.is_some() || self.max_abs.is_some()
    }

    /// Returns the guard of values that are no gradients: those of moving averages.
    pub fn without_bounds(&self) -> Self {
        Self {
            max_norm: None,
            max_abs: None,
            ..*self
        }
    }
}
