//! Checkpoints as objects of Python: their variables, rows and ids.

use std::path::{Path, PathBuf};

use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyException, PyMemoryError, PyValueError};
use pyo3::{Bound, PyErr, PyResult, Python, create_exception, pyclass, pyfunction, pymethods};
use trainyard_checkpoint::{Error, Found, is_committed, list, of_step};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_feature_column::fingerprint64;
use trainyard_variable::{InitialRows, VariableSpec};

create_exception!(
    trainyard,
    CheckpointError,
    PyException,
    "A checkpoint is absent or damaged, or lacks what is asked of it."
);

/// Largest tensor that is verified when only some of its rows are read, in bytes. The checksum is that of the whole tensor.
const VERIFIED_BYTES_MAX: u64 = 64 << 20;

/// Tries to open a checkpoint which the chief of a running job may remove meanwhile.
const OPEN_TRIES: usize = 5;

/// Flat values of rows, and whether each of the ids has a row.
type FoundRows<'p> = (Bound<'p, PyArray1<f32>>, Bound<'p, PyArray1<bool>>);

/// Ids, and their values, flat.
type IdsAndValues<'p> = (Bound<'p, PyArray1<u64>>, Bound<'p, PyArray1<f32>>);

/// An opened checkpoint.
#[derive(Debug)]
#[pyclass(frozen, module = "trainyard._native")]
pub(crate) struct Checkpoint {
    opened: trainyard_checkpoint::Checkpoint,
}

#[pymethods]
impl Checkpoint {
    /// Opens the checkpoint of a step, by default the newest one.
    #[new]
    #[pyo3(signature = (model_dir, step=None))]
    fn new(python: Python<'_>, model_dir: PathBuf, step: Option<u64>) -> PyResult<Self> {
        let opened = python.detach(|| open(&model_dir, step)).map_err(failed)?;
        Ok(Self { opened })
    }

    /// The step.
    #[getter]
    fn step(&self) -> u64 {
        self.opened.manifest().global_step
    }

    /// The folder.
    #[getter]
    fn path(&self) -> String {
        self.opened.path().display().to_string()
    }

    /// The job of the run that trained the values, one line for each key.
    #[getter]
    fn job(&self) -> Vec<String> {
        self.opened.manifest().job.clone()
    }

    /// Returns the name, the shape, the rows in use of a dynamic table, and whether its ids without a row share one, of each
    /// variable.
    fn variables(&self) -> Vec<(String, Vec<usize>, Option<usize>, bool)> {
        let specs = self.opened.manifest().variables.iter();
        let described = specs.map(|spec| {
            let rows = spec.dynamic().map(|_| self.opened.rows_used(&spec.name));
            let shares = spec.shared_row().is_some();
            (spec.name.clone(), spec.shape.clone(), rows, shares)
        });
        described.collect()
    }

    /// Returns the values of a variable that is no dynamic table, flat.
    fn read<'p>(&self, python: Python<'p>, name: &str) -> PyResult<Bound<'p, PyArray1<f32>>> {
        let spec = self.spec(name)?;
        let mut values = room(spec.rows(), spec.width())?;
        python
            .detach(|| {
                let rows = 0..spec.rows();
                self.opened.read_rows(name, None, rows, &mut values)?;
                self.opened.check_parts(self.opened.check_read()?)
            })
            .map_err(|error| failed(error.into()))?;
        Ok(values.into_pyarray(python))
    }

    /// Returns the ids of a dynamic table, ascending, and their values, flat.
    fn read_dynamic<'p>(&self, python: Python<'p>, name: &str) -> PyResult<IdsAndValues<'p>> {
        let all = python
            .detach(|| {
                let all = self.opened.read_dynamic(name, &[], 0..1 << 64)?;
                self.opened.check_parts(self.opened.check_read()?)?;
                Ok(all)
            })
            .map_err(|error: Error| failed(error.into()))?;
        Ok((
            all.ids.into_pyarray(python),
            all.values.into_pyarray(python),
        ))
    }

    /// Returns rows of a variable that is no dynamic table, flat, in the order of `rows`. Only these rows are read.
    fn rows<'p>(
        &self,
        python: Python<'p>,
        name: &str,
        rows: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<Bound<'p, PyArray1<f32>>> {
        let spec = self.spec(name)?;
        let rows = rows.as_slice()?;
        if let Some(row) = rows.iter().find(|row| **row >= spec.rows() as u64) {
            return Err(PyValueError::new_err(format!(
                "`{name}` has {} rows, given the row {row}",
                spec.rows()
            )));
        }
        let mut values = room(rows.len(), spec.width())?;
        python
            .detach(|| {
                self.read_rows(spec, rows, &mut values)?;
                self.check_rows_read()
            })
            .map_err(|error| failed(error.into()))?;
        Ok(values.into_pyarray(python))
    }

    /// Returns the rows of ids of a dynamic table, flat, in the order of `ids`, and whether each id has a row: the values of
    /// another one are 0. Of the values, only these rows are read.
    fn rows_of_ids<'p>(
        &self,
        python: Python<'p>,
        name: &str,
        ids: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<FoundRows<'p>> {
        let spec = self.spec(name)?;
        let ids = ids.as_slice()?;
        let width = spec.width();
        let mut values = room(ids.len(), width)?;
        let found = python
            .detach(|| {
                let mut unique = ids.to_vec();
                unique.sort_unstable();
                unique.dedup();
                let rows = self.opened.read_ids(name, &unique)?;
                self.check_rows_read()?;
                let outs = values.chunks_exact_mut(width.max(1));
                let found = ids.iter().zip(outs).map(|(id, out)| {
                    let row = rows.ids.binary_search(id);
                    if let Ok(row) = row {
                        out.copy_from_slice(&rows.values[row * width..][..width]);
                    }
                    row.is_ok()
                });
                Ok(found.collect::<Vec<bool>>())
            })
            .map_err(|error: Error| failed(error.into()))?;
        Ok((values.into_pyarray(python), found.into_pyarray(python)))
    }

    /// Returns the values that ids without a row read if they share none, flat: the initial values of each.
    fn initial_rows<'p>(
        &self,
        python: Python<'p>,
        name: &str,
        ids: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<Bound<'p, PyArray1<f32>>> {
        let spec = self.spec(name)?;
        let ids = ids.as_slice()?;
        let rule = self.opened.first_rows(name).ok_or_else(|| {
            CheckpointError::new_err(format!(
                "{} has no rule of the initial values of `{name}`",
                self.path()
            ))
        })?;
        let mut values = room(ids.len(), spec.width())?;
        InitialRows::of(rule).fill_rows(ids.iter().copied(), &mut values);
        Ok(values.into_pyarray(python))
    }
}

impl Checkpoint {
    fn spec(&self, name: &str) -> PyResult<&VariableSpec> {
        let mut specs = self.opened.manifest().variables.iter();
        specs.find(|spec| spec.name == name).ok_or_else(|| {
            CheckpointError::new_err(format!("{} has no variable `{name}`", self.path()))
        })
    }

    /// Reads rows into `out`, those that follow each other at once.
    fn read_rows(&self, spec: &VariableSpec, rows: &[u64], out: &mut [f32]) -> Result<(), Error> {
        let width = spec.width();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|place| rows[*place]);
        let mut read = Vec::new();
        for run in order.chunk_by(|one, next| rows[*next] - rows[*one] <= 1) {
            let begin = rows[run[0]] as usize;
            let end = rows[run[run.len() - 1]] as usize + 1;
            read.resize((end - begin) * width, 0.0_f32);
            self.opened
                .read_rows(&spec.name, None, begin..end, &mut read)?;
            for place in run {
                let from = (rows[*place] as usize - begin) * width;
                out[place * width..][..width].copy_from_slice(&read[from..][..width]);
            }
        }
        Ok(())
    }

    /// Compares the checksums of the tensors that were read, unless one of them is large and only some of its rows were.
    fn check_rows_read(&self) -> Result<(), Error> {
        let tensors = || {
            self.opened.manifest().files().flat_map(|file| {
                let names = file.tensors.iter();
                names.map(move |tensor| (&file.file, tensor))
            })
        };
        let mut parts = self.opened.check_read()?;
        parts.retain(|part| {
            let own = tensors()
                .find(|(file, tensor)| (*file, &tensor.name) == (&part.file, &part.tensor));
            own.is_some_and(|(_, tensor)| tensor.bytes() <= VERIFIED_BYTES_MAX)
        });
        self.opened.check_parts(parts)
    }
}

/// Returns the 64-bit fingerprints of texts, the ids of dynamic tables.
#[pyfunction]
pub(crate) fn fingerprints<'p>(
    python: Python<'p>,
    texts: Vec<Vec<u8>>,
) -> Bound<'p, PyArray1<u64>> {
    let ids = texts.iter().map(|text| fingerprint64(text));
    ids.collect::<Vec<u64>>().into_pyarray(python)
}

/// Returns room for rows.
fn room(rows: usize, width: usize) -> PyResult<Vec<f32>> {
    let mut values = Vec::new();
    let count = rows.saturating_mul(width);
    values.try_reserve_exact(count).map_err(|_| {
        PyMemoryError::new_err(format!("no memory for {rows} rows of {width} values"))
    })?;
    values.resize(count, 0.0);
    Ok(values)
}

/// Returns the exception with the text of a message.
pub(crate) fn failed(problem: Diagnostic) -> PyErr {
    CheckpointError::new_err(problem.render().trim_end().to_owned())
}

fn open(
    model_dir: &Path,
    step: Option<u64>,
) -> Result<trainyard_checkpoint::Checkpoint, Diagnostic> {
    let mut tries = OPEN_TRIES;
    loop {
        let found = list(model_dir)?;
        let chosen = match step {
            Some(step) => of_step(&found, step),
            // The manifest of a checkpoint of term 0 is damaged. It may be the newest one.
            None => found.iter().find(|found| found.epoch == 0).or(found.last()),
        };
        let Some(chosen) = chosen else {
            return Err(absent(model_dir, step, &found));
        };
        let error = match trainyard_checkpoint::Checkpoint::open(&chosen.path) {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        tries -= 1;
        if tries > 0 && !is_committed(&chosen.path)? {
            continue;
        }
        let others = found.iter().filter(|other| other.path != chosen.path);
        return Err(with_steps(error.into(), others));
    }
}

fn absent(model_dir: &Path, step: Option<u64>, found: &[Found]) -> Diagnostic {
    let folder = model_dir.display();
    let Some(step) = step.filter(|_| !found.is_empty()) else {
        return Diagnostic::error(Code::E3004, format!("no checkpoint in {folder}"))
            .help("give the model_dir of a run that has written a checkpoint");
    };
    let message = format!("no checkpoint of step {step} in {folder}");
    with_steps(Diagnostic::error(Code::E3004, message), found.iter())
}

/// Adds the steps of checkpoints that may be read instead to a message.
fn with_steps<'a>(problem: Diagnostic, found: impl Iterator<Item = &'a Found>) -> Diagnostic {
    let steps: Vec<String> = found.map(|found| found.step.to_string()).collect();
    if steps.is_empty() {
        return problem.note("there is no other checkpoint");
    }
    problem
        .note(format!("steps: {}", steps.join(", ")))
        .help("give one of these steps")
}
