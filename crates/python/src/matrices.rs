//! Matrices: all tables of one dimension are one for a module.
//!
//! A module may have many embeddings of few numbers, and each operation of a framework costs some microseconds. So the rows
//! that a batch reads of the tables of one dimension lie behind each other in one array, and embeddings that have at most
//! one id in each row are looked up together.

use numpy::{IntoPyArray as _, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::types::PyAny;
use pyo3::{Bound, IntoPyObject as _, PyResult, Python};
use trainyard_feature_column::{Features, Ids};
use trainyard_variable::{Gradients, Values};

use crate::row_ids::RowIds;

/// The tables of one dimension. Behind their rows, the matrix has a row of 0, which is the vector of a row without id.
#[derive(Debug)]
pub(crate) struct Matrix {
    dimension: usize,
    /// Indices of the tables among the variables.
    tables: Vec<usize>,
}

/// The ids of an embedding, and their table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableLookup {
    /// Index of the ids among those of a batch.
    pub(crate) ids: usize,
    /// Index of the table among the variables.
    pub(crate) table: usize,
    /// The vectors of a row are combined to one.
    pub(crate) combined: bool,
}

/// The lookups of a batch in a matrix.
#[derive(Debug)]
pub(crate) struct MatrixLookups {
    /// First row of each table.
    starts: Vec<usize>,
    /// Indices of the embeddings that have at most one id in each row, without weight.
    single: Vec<usize>,
    /// A row of the matrix for each of them, and each row of the batch.
    places: Vec<i64>,
    /// The other embeddings of the matrix, with their ids.
    others: Vec<(usize, RowIds)>,
}

impl Matrix {
    /// Groups tables by their dimensions, in the order in which dimensions first occur.
    pub(crate) fn of_tables(dimensions: impl Iterator<Item = usize>) -> Vec<Self> {
        let mut matrices: Vec<Self> = Vec::new();
        for (table, dimension) in dimensions.enumerate() {
            match matrices
                .iter_mut()
                .find(|matrix| matrix.dimension == dimension)
            {
                Some(matrix) => matrix.tables.push(table),
                None => matrices.push(Self {
                    dimension,
                    tables: vec![table],
                }),
            }
        }
        matrices
    }

    /// Returns the lookups of a batch, which reads so many rows of each table.
    pub(crate) fn lookups(
        &self,
        lookups: &[TableLookup],
        features: &Features,
        rows_read: &[usize],
    ) -> MatrixLookups {
        let mut end = 0;
        let starts = self.tables.iter().map(|table| {
            let start = end;
            end += rows_read[*table];
            start
        });
        let mut out = MatrixLookups {
            starts: starts.collect(),
            single: Vec::new(),
            places: Vec::new(),
            others: Vec::new(),
        };
        for (embedding, lookup) in lookups.iter().enumerate() {
            let Some(own) = self.tables.iter().position(|table| *table == lookup.table) else {
                continue;
            };
            let start = out.starts[own] as i64;
            let ids = &features.ids[lookup.ids];
            if lookup.combined && has_at_most_one(ids) {
                out.single.push(embedding);
                add_places(ids, features.rows, [start, end as i64], &mut out.places);
            } else {
                let ids = RowIds::of(ids, features.rows, |place| start + i64::from(place));
                out.others.push((embedding, ids));
            }
        }
        out
    }

    /// Returns the values of the matrix, of which the module may keep what it likes.
    pub(crate) fn array<'p>(
        &self,
        python: Python<'p>,
        values: &Values,
    ) -> Bound<'p, PyArray1<f32>> {
        let mut joined = Vec::with_capacity(self.len(values));
        for table in &self.tables {
            joined.extend_from_slice(&values[*table]);
        }
        joined.resize(joined.len() + self.dimension, 0.0);
        joined.into_pyarray(python)
    }

    /// Copies the gradient of the matrix into those of its tables.
    ///
    /// # Errors
    /// It has another length than the values.
    pub(crate) fn copy_gradient(
        &self,
        found: &[f32],
        values: &Values,
        gradients: &mut Gradients,
    ) -> PyResult<()> {
        let wanted = self.len(values);
        if found.len() != wanted {
            return Err(PyValueError::new_err(format!(
                "the gradient of the tables of dimension {} must have {wanted} values, given {}",
                self.dimension,
                found.len()
            )));
        }
        let mut rest = found;
        for table in &self.tables {
            let (own, behind) = rest.split_at(values[*table].len());
            gradients[*table].clear();
            gradients[*table].extend_from_slice(own);
            rest = behind;
        }
        Ok(())
    }

    /// Returns the number of values, those of the row of 0 included.
    fn len(&self, values: &Values) -> usize {
        let tables = self.tables.iter().map(|table| values[*table].len());
        tables.sum::<usize>() + self.dimension
    }
}

impl MatrixLookups {
    /// Returns the first row of each table, the embeddings with at most one id in each row, their places, and the other
    /// embeddings with values, offsets and weights of their ids.
    pub(crate) fn arrays<'p>(&self, python: Python<'p>) -> PyResult<Bound<'p, PyAny>> {
        let others = self.others.iter();
        let others = others.map(|(embedding, ids)| Ok((*embedding, ids.arrays(python)?)));
        let all = (
            &self.starts,
            &self.single,
            PyArray1::from_slice(python, &self.places),
            others.collect::<PyResult<Vec<_>>>()?,
        );
        Ok(all.into_pyobject(python)?.into_any())
    }
}

/// Returns whether each row has at most one id, without weight: whatever the combiner is, it returns the id's vector.
fn has_at_most_one(ids: &Ids) -> bool {
    let mut counts = ids.offsets.windows(2).map(|row| row[1] - row[0]);
    ids.weights.is_none() && counts.all(|count| count <= 1)
}

/// Adds a place for each row of a batch: that of its id, counted from `start`, or `empty`.
fn add_places(ids: &Ids, rows: usize, [start, empty]: [i64; 2], places: &mut Vec<i64>) {
    let place = |index: &u32| start + i64::from(*index);
    if let Some(one_of_each) = ids.one_of_each(0..rows) {
        places.extend(one_of_each.iter().map(place));
        return;
    }
    places.extend((0..rows).map(|row| {
        let own = &ids.index[ids.offsets[row] as usize..ids.offsets[row + 1] as usize];
        own.first().map_or(empty, place)
    }));
}
