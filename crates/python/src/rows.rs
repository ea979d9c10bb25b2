//! Sums of rows, which frameworks compute slowly: the backward pass of a lookup.

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::{PyResult, pyfunction};

/// Adds row `i` of `rows` to row `places[i]` of `sums`. Rows have `width` values; all arrays are flat.
///
/// # Errors
/// A place is outside of `sums`, or the lengths do not fit.
#[pyfunction]
pub(crate) fn add_rows(
    places: PyReadonlyArray1<'_, i64>,
    rows: PyReadonlyArray1<'_, f32>,
    mut sums: PyReadwriteArray1<'_, f32>,
    width: usize,
) -> PyResult<()> {
    let places = places.as_slice()?;
    let rows = rows.as_slice()?;
    let sums = sums.as_slice_mut()?;
    if width == 0 || places.len() * width != rows.len() {
        return Err(PyValueError::new_err(format!(
            "{} places of {width} values need as many rows, given {} values",
            places.len(),
            rows.len()
        )));
    }
    let last = sums.len() / width;
    for (place, row) in places.iter().zip(rows.chunks_exact(width)) {
        let sum = usize::try_from(*place)
            .ok()
            .filter(|place| *place < last)
            .map(|place| &mut sums[place * width..][..width]);
        let Some(sum) = sum else {
            return Err(PyValueError::new_err(format!(
                "a place must be 0 to {}, given {place}",
                last.saturating_sub(1)
            )));
        };
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += value;
        }
    }
    Ok(())
}
