//! Predictions that a model in Python makes itself.

use std::collections::BTreeMap;

use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::{PyAnyMethods as _, PyDict, PyDictMethods as _};
use pyo3::{Bound, PyAny, PyResult};
use trainyard_model::Prediction;

/// The values of a key, one after the other.
enum Values {
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Values {
    fn of(found: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(floats) = found.cast::<PyArray1<f32>>() {
            return Ok(Self::Floats(floats.try_readonly()?.as_slice()?.to_vec()));
        }
        if let Ok(ints) = found.cast::<PyArray1<i64>>() {
            return Ok(Self::Ints(ints.try_readonly()?.as_slice()?.to_vec()));
        }
        found.extract().map(Self::Texts).map_err(|_| {
            PyTypeError::new_err(
                "predictions must be flat arrays of float32 or int64, or lists of texts",
            )
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    fn of_row(&self, row: usize, width: usize) -> Prediction {
        let places = row * width..(row + 1) * width;
        match self {
            Self::Floats(values) => Prediction::Floats(values[places].to_vec()),
            Self::Ints(values) => Prediction::Ints(values[places].to_vec()),
            Self::Texts(values) => Prediction::Texts(values[places].to_vec()),
        }
    }
}

/// Returns the predictions of each row, from a dictionary of flat arrays.
pub(crate) fn by_row(
    found: &Bound<'_, PyDict>,
    rows: usize,
) -> PyResult<Vec<BTreeMap<String, Prediction>>> {
    let mut out = vec![BTreeMap::new(); rows];
    for (key, values) in found.iter() {
        let key: String = key.extract()?;
        let values = Values::of(&values)?;
        if rows == 0 || !values.len().is_multiple_of(rows) {
            return Err(PyValueError::new_err(format!(
                "the predictions `{key}` must be as many in each of {rows} rows, given {} values",
                values.len()
            )));
        }
        let width = values.len() / rows;
        for (row, out) in out.iter_mut().enumerate() {
            out.insert(key.clone(), values.of_row(row, width));
        }
    }
    Ok(out)
}
