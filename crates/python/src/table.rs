//! Values of Python as a Parquet file, with their types: the batches of an `input_fn`.

use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::types::{
    PyAnyMethods as _, PyBool, PyBytes, PyBytesMethods as _, PyFloat, PyInt, PyList,
    PyStringMethods as _, PyTuple, PyTypeMethods as _,
};
use pyo3::{Bound, PyAny, PyResult, Python, pyfunction};
use trainyard_input::{Cell, ColumnKind, ColumnLayout, Format, Layout, TableWriter, Value};

/// A column with its cells.
struct Gathered {
    layout: ColumnLayout,
    cells: Vec<Cell>,
    /// A list had values beside missing ones, which are left out.
    is_shortened: bool,
}

/// Writes columns of equal lengths as a Parquet file. A cell is a number, a text, bytes, a list of these, or missing: None,
/// NaN, NaT, NA, or an empty text. Returns for each column whether it holds lists, and whether a list was shortened because
/// some of its values are missing.
///
/// # Errors
/// A value is of another type, or the file cannot be written.
#[pyfunction]
pub(crate) fn write_table(
    python: Python<'_>,
    path: PathBuf,
    columns: Vec<(String, Bound<'_, PyList>)>,
) -> PyResult<Vec<(bool, bool)>> {
    let gathered = columns
        .into_iter()
        .map(|(name, values)| gathered(name, &values));
    let gathered = gathered.collect::<PyResult<Vec<_>>>()?;
    let found = gathered.iter();
    let found = found
        .map(|column| (column.layout.list, column.is_shortened))
        .collect();
    python
        .detach(|| write(&path, gathered))
        .map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok(found)
}

fn write(path: &std::path::Path, gathered: Vec<Gathered>) -> Result<(), trainyard_input::Error> {
    let layouts = gathered.iter().map(|column| column.layout.clone());
    let layout = Layout {
        columns: layouts.collect(),
    };
    let mut writer = TableWriter::create(path, Format::Parquet, layout)?;
    let rows = gathered.first().map_or(0, |column| column.cells.len());
    let mut columns: Vec<_> = gathered
        .into_iter()
        .map(|column| column.cells.into_iter())
        .collect();
    for _ in 0..rows {
        let row: Vec<Cell> = columns.iter_mut().filter_map(Iterator::next).collect();
        writer.write(&row)?;
    }
    writer.finish()
}

fn gathered(name: String, values: &Bound<'_, PyList>) -> PyResult<Gathered> {
    let mut kind: Option<ColumnKind> = None;
    let mut list = false;
    let mut is_shortened = false;
    let mut cells = Vec::with_capacity(values.len()?);
    for given in values.try_iter()? {
        let given = given?;
        let mut cell = Cell::default();
        let mut add = |given: &Bound<'_, PyAny>| -> PyResult<bool> {
            let Some(value) = value(&name, given)? else {
                return Ok(false);
            };
            kind = kind.max(kind_of(given, &value));
            cell.values.push(value);
            Ok(true)
        };
        if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
            let mut missing = 0;
            for each in given.try_iter()? {
                missing += usize::from(!add(&each?)?);
            }
            is_shortened |= missing > 0;
            cell.list = true;
            list = true;
        } else {
            add(&given)?;
        }
        cells.push(cell);
    }
    // Whole numbers are read as numbers, ids and texts alike, so a column without values fits any feature.
    let kind = kind.or(Some(ColumnKind::Int));
    Ok(Gathered {
        layout: ColumnLayout { name, kind, list },
        cells,
        is_shortened,
    })
}

/// Returns the type of a value. Booleans become a column of Parquet's booleans, which tells them from the whole numbers that they are.
fn kind_of(given: &Bound<'_, PyAny>, value: &Value) -> Option<ColumnKind> {
    let is_boolean = given.is_instance_of::<PyBool>()
        || given
            .get_type()
            .name()
            .is_ok_and(|name| name == "bool" || name == "bool_");
    match is_boolean {
        true => Some(ColumnKind::Boolean),
        false => value.kind(),
    }
}

/// Returns a value, or None for a missing one.
fn value(column: &str, given: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| Value::Text(bytes.to_vec()));
    if given.is_none() {
        return Ok(None);
    }
    if given.is_instance_of::<PyFloat>() {
        let number: f64 = given.extract()?;
        return Ok((!number.is_nan()).then_some(Value::Float(number)));
    }
    if let Ok(found) = given.cast::<pyo3::types::PyString>() {
        return Ok(text(found.to_cow()?.as_bytes()));
    }
    if let Ok(found) = given.cast::<PyBytes>() {
        return Ok(text(found.as_bytes()));
    }
    if given.is_instance_of::<PyInt>() {
        // An id of 64 bits without sign is the text of its digits.
        return Ok(match given.extract() {
            Ok(number) => Some(Value::Int(number)),
            Err(_) => text(given.str()?.to_cow()?.as_bytes()),
        });
    }
    let kind = given.get_type().name()?.to_string();
    if kind == "NAType" || kind == "NaTType" {
        return Ok(None);
    }
    if given.hasattr("isoformat")? {
        return Ok(text(given.str()?.to_cow()?.as_bytes()));
    }
    if given.hasattr("item")? && !given.hasattr("__len__")? {
        // A number or text of numpy.
        let inner = given.call_method0("item")?;
        if !inner.get_type().is(given.get_type()) {
            return value(column, &inner);
        }
    }
    if given.hasattr("__float__")? && !given.hasattr("__len__")? {
        let number: f64 = given.call_method0("__float__")?.extract()?;
        return Ok((!number.is_nan()).then_some(Value::Float(number)));
    }
    Err(PyTypeError::new_err(format!(
        "the column `{column}` must hold numbers, texts, bytes, or lists of these, given a {kind}: convert its values, or leave \
         the column out"
    )))
}
