//! Values of metrics.

use std::collections::BTreeMap;

/// Metric values by TensorFlow's names.
pub type Scores = BTreeMap<String, f64>;
