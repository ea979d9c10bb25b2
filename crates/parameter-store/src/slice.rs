//! The values and slots of one slice, and how gradients are applied to them.

use std::ops::Range;

use parking_lot::RwLock;
use trainyard_optimizer::OptimizerConfig;

use crate::Error;

/// Values and slots, row-major, `rows x width` each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SliceValues {
    /// Values.
    pub values: Vec<f32>,
    /// The optimizer's slots, in the order of `OptimizerConfig::slots`.
    pub slots: Vec<Vec<f32>>,
}

/// One slice. Its lock covers values and slots together, so that no reader sees half of an update.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) variable: usize,
    pub(crate) part: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) width: usize,
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) state: RwLock<SliceValues>,
}

impl Slice {
    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() * self.width
    }

    /// Checks that `rows` ascend strictly and lie within the slice.
    pub(crate) fn check_rows(&self, number: u32, rows: &[u32]) -> Result<(), Error> {
        if let Some(pair) = rows.windows(2).find(|pair| pair[0] >= pair[1]) {
            let message = format!("rows of slice {number} must ascend, given {} before {}", pair[0], pair[1]);
            return Err(Error::BadRequest(message));
        }
        let outside =
            rows.first().into_iter().chain(rows.last()).find(|&&row| !self.rows.contains(&(row as usize)));
        match outside {
            Some(row) => {
                let Range { start, end } = self.rows;
                Err(Error::BadRequest(format!(
                    "rows of slice {number} must lie in {start}..{end}, given {row}"
                )))
            }
            None => Ok(()),
        }
    }

    /// Appends all values to `out`.
    pub(crate) fn read_whole(&self, out: &mut Vec<f32>) {
        out.extend_from_slice(&self.state.read().values);
    }

    /// Appends the values of checked rows to `out`.
    pub(crate) fn read_rows(&self, rows: &[u32], out: &mut Vec<f32>) {
        let state = self.state.read();
        for &row in rows {
            let begin = (row as usize - self.rows.start) * self.width;
            out.extend_from_slice(&state.values[begin..begin + self.width]);
        }
    }

    /// Applies a gradient of the whole slice. `step` counts from 1.
    pub(crate) fn apply_whole(&self, step: u64, gradient: &[f32]) {
        let state = &mut *self.state.write();
        let mut slots: Vec<&mut [f32]> = state.slots.iter_mut().map(Vec::as_mut_slice).collect();
        self.optimizer.apply_dense(step, &mut state.values, &mut slots, gradient);
    }

    /// Applies a gradient of checked rows. `scratch` is overwritten with their places in the slice.
    pub(crate) fn apply_rows(&self, step: u64, rows: &[u32], gradient: &[f32], scratch: &mut Vec<u32>) {
        let begin = self.rows.start as u32;
        scratch.clear();
        scratch.extend(rows.iter().map(|row| row - begin));
        let state = &mut *self.state.write();
        let mut slots: Vec<&mut [f32]> = state.slots.iter_mut().map(Vec::as_mut_slice).collect();
        self.optimizer.apply_rows(step, self.width, scratch, &mut state.values, &mut slots, gradient);
    }
}
