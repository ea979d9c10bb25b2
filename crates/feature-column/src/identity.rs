//! `categorical_column_with_identity`: the number is the id.

use trainyard_input::{Batch, Cells, RowRule};

/// An identity column.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) buckets: u32,
    pub(crate) default: Option<u32>,
    /// Numbers out of range are skipped, as for an indicator; otherwise they are errors.
    pub(crate) lenient: bool,
}

impl Identity {
    /// Returns whether there are numbers that cannot be used.
    pub(crate) fn refuses(&self) -> bool {
        self.default.is_none() && !self.lenient
    }

    /// Returns the id of a number, or `None` if it has none. A negative number is no value, as in `tf.nn.safe_embedding_lookup_sparse`.
    ///
    /// # Errors
    /// The number is too large, and there is no default.
    pub(crate) fn id(&self, value: i64) -> Result<Option<u32>, String> {
        match u32::try_from(value) {
            Ok(id) if id < self.buckets => Ok(Some(id)),
            _ if self.default.is_some() => Ok(self.default),
            _ if value < 0 || self.lenient => Ok(None),
            _ => Err(format!("id must be below {}, given {value}", self.buckets)),
        }
    }
}

/// The rule that each id of a field is in range.
#[derive(Debug)]
pub(crate) struct IdsInRange {
    pub(crate) field: usize,
    pub(crate) identity: Identity,
}

impl RowRule for IdsInRange {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        let column = &batch.columns[self.field];
        let Cells::Int(numbers) = &column.cells else {
            return Ok(());
        };
        let mut numbers = numbers[column.row(row, batch.rows)].iter();
        numbers.try_for_each(|number| self.identity.id(*number).map(|_| ()))
    }
}
