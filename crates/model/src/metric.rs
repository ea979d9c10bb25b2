//! Metrics: running sums over the examples of an evaluation (`tf.compat.v1.metrics`, `tf.keras.metrics.AUC`).

mod auc;
mod calibration;
mod confusion;
mod exact_auc;
mod mean;
mod per_class;
mod top_k;

pub use auc::{Auc, Summation};
pub use calibration::{Calibration, CalibrationBucket};
pub use confusion::{Class, Confusion, SensitivityAtSpecificity};
pub use exact_auc::ExactAuc;
pub use mean::Mean;
pub use per_class::MeanPerClassAccuracy;
pub use top_k::TopK;
