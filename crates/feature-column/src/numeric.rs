//! `numeric_column`: numbers, normalised.

use std::sync::Arc;

use trainyard_input::{Batch, Cells};
use trainyard_run_config::{Normalizer, Numbers};

use crate::Error;

/// Whole numbers whose logarithm is remembered.
const COUNTS: u16 = 1024;

/// A numeric feature.
#[derive(Debug, Clone)]
pub struct Numeric {
    /// Its name.
    pub name: String,
    /// Whether it feeds the linear part.
    pub wide: bool,
    /// Whether it feeds the deep part.
    pub deep: bool,
    /// First of its places in a row of [`crate::Features::numbers`].
    pub begin: usize,
    /// Its places in a row, at least 1.
    pub width: usize,
    /// What the job says of its numbers.
    pub numbers: Numbers,
    pub(crate) source: Source,
}

/// Where numbers come from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) column: String,
    pub(crate) field: usize,
    pub(crate) width: usize,
    normalizer: Normalizer,
    /// What log1p makes of the whole numbers from 0: its numbers are mostly small counts.
    logarithms: Arc<[f32]>,
}

impl Source {
    pub(crate) fn new(numbers: &Numbers, field: usize) -> Self {
        let Numbers { column, width, normalizer, .. } = numbers;
        let logarithms = match normalizer {
            Normalizer::Log1p => (0..COUNTS).map(|count| f32::from(count).ln_1p()).collect(),
            Normalizer::None | Normalizer::Standardize { .. } => Arc::from([]),
        };
        Self { column: column.clone(), field, width: *width, normalizer: *normalizer, logarithms }
    }

    /// Returns the numbers of a batch, `rows x width`.
    ///
    /// # Errors
    /// A row holds another number of them.
    pub(crate) fn values<'a>(&self, batch: &'a Batch) -> Result<&'a [f32], Error> {
        let column = &batch.columns[self.field];
        let wrong = |message: String| Error { column: self.column.clone(), message };
        let Cells::Float(values) = &column.cells else {
            return Err(wrong("must hold numbers, given another type".to_owned()));
        };
        if column.offsets.is_some() {
            return Err(wrong(format!("must hold {} numbers in every row, given any number", self.width)));
        }
        // Every row holds as many.
        match column.row(0, batch.rows).len() {
            held if held == self.width => Ok(values),
            held => Err(wrong(format!("each row must hold {} numbers, given {held}", self.width))),
        }
    }

    /// Returns the normalised number.
    #[inline]
    pub(crate) fn normalize(&self, value: f32) -> f32 {
        match self.normalizer {
            Normalizer::None => value,
            Normalizer::Log1p => {
                let value = value.max(0.0);
                match self.logarithms.get(value as usize) {
                    Some(logarithm) if (value as usize as f32).to_bits() == value.to_bits() => *logarithm,
                    _ => value.ln_1p(),
                }
            }
            Normalizer::Standardize { mean, stddev } => (value - mean) / stddev,
        }
    }
}

impl Numeric {
    /// Returns the field that its numbers come from.
    pub fn field(&self) -> usize {
        self.source.field
    }

    /// Writes the numbers of a batch into rows of `total` places.
    pub(crate) fn fill(&self, batch: &Batch, total: usize, out: &mut [f32]) -> Result<(), Error> {
        let values = self.source.values(batch)?;
        for (row, values) in out.chunks_exact_mut(total).zip(values.chunks_exact(self.width)) {
            for (place, value) in row[self.begin..].iter_mut().zip(values) {
                *place = self.source.normalize(*value);
            }
        }
        Ok(())
    }
}
