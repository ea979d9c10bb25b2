//! Integers of which a row of a batch has any number.

use numpy::PyArray1;
use pyo3::types::PyAny;
use pyo3::{Bound, IntoPyObject as _, PyResult, Python};
use trainyard_feature_column::Ids;

/// Integers by row.
#[derive(Debug)]
pub(crate) struct RowIds {
    values: Vec<i64>,
    /// First value of each row, and the number of values; absent = one value per row.
    offsets: Option<Vec<i64>>,
    weights: Option<Vec<f32>>,
}

impl RowIds {
    pub(crate) fn of(ids: &Ids, rows: usize, value: impl Fn(u32) -> i64) -> Self {
        let one_of_each = ids.one_of_each(0..rows).is_some();
        Self {
            values: ids.index.iter().map(|place| value(*place)).collect(),
            offsets: (!one_of_each).then(|| {
                ids.offsets
                    .iter()
                    .map(|offset| i64::from(*offset))
                    .collect()
            }),
            weights: ids.weights.clone(),
        }
    }

    pub(crate) fn arrays<'p>(&self, python: Python<'p>) -> PyResult<Bound<'p, PyAny>> {
        let values = PyArray1::from_slice(python, &self.values);
        let offsets = self.offsets.as_ref();
        let offsets = offsets.map(|offsets| PyArray1::from_slice(python, offsets));
        let weights = self.weights.as_ref();
        let weights = weights.map(|weights| PyArray1::from_slice(python, weights));
        Ok((values, offsets, weights).into_pyobject(python)?.into_any())
    }
}
