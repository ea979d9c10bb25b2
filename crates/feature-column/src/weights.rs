//! Weights of ids: each record has as many as ids.

use trainyard_input::{Batch, Cells, RowRule};

/// The rule that a field holds a weight for each id of a feature.
#[derive(Debug)]
pub(crate) struct WeightForEachId {
    /// Field of the weights.
    pub(crate) weights: usize,
    /// Numbers whose product is the number of ids.
    pub(crate) counts: Vec<Count>,
}

/// A number of values or ids of a row.
#[derive(Debug)]
pub(crate) enum Count {
    /// The values of a field, with the placeholder of a missing one.
    Values(usize),
    /// The values of a field, without the placeholder of a missing one.
    Present(usize),
    /// The same number in each row.
    Fixed(usize),
}

impl Count {
    /// Returns the field of the values.
    pub(crate) fn field(&self) -> Option<usize> {
        match self {
            Self::Values(field) | Self::Present(field) => Some(*field),
            Self::Fixed(_) => None,
        }
    }

    /// Returns the number of combinations of a row, where each count is the number of values of a key.
    pub(crate) fn combinations(counts: &[Self], batch: &Batch, row: usize) -> usize {
        let counts = counts.iter().map(|count| count.of(batch, row));
        counts.fold(1, usize::saturating_mul)
    }

    fn of(&self, batch: &Batch, row: usize) -> usize {
        match self {
            Self::Values(field) => batch.columns[*field].row(row, batch.rows).len(),
            Self::Present(field) => {
                let column = &batch.columns[*field];
                let places = column.row(row, batch.rows);
                let is_missing = match &column.cells {
                    _ if column.offsets.is_some() => false,
                    Cells::Bytes(texts) => texts.get(places.start).is_empty(),
                    Cells::Int(numbers) => numbers[places.start] == -1,
                    Cells::Float(_) => false,
                };
                if is_missing { 0 } else { places.len() }
            }
            Self::Fixed(count) => *count,
        }
    }
}

impl RowRule for WeightForEachId {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        let ids = Count::combinations(&self.counts, batch, row);
        let given = batch.columns[self.weights].row(row, batch.rows).len();
        if given == ids {
            Ok(())
        } else {
            Err(mismatch(ids, given))
        }
    }
}

/// Returns the reason why weights cannot be used.
pub(crate) fn mismatch(ids: usize, given: usize) -> String {
    format!("each of {ids} ids must have a weight, given {given}")
}
