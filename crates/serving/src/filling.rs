//! The rows of a request while they are read. Their bytes have a bound: a small request can describe large rows.

use tokio::sync::OwnedSemaphorePermit;
use trainyard_input::{Batch, FieldKind, Given, NamedColumns, Unfinished};

use crate::Error;

/// Bounds of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestBounds {
    /// Most rows.
    pub(crate) rows_max: usize,
    /// Most bytes that its values take in memory.
    pub(crate) bytes_max: usize,
}

/// Most values in a cell. They are read before the column takes them, and a value takes some 60 bytes then.
pub(crate) const CELL_VALUES_MAX: usize = 1 << 20;

/// Bytes of an id that a cross makes of a row: the id, and its place among the ids of the batch.
const MADE_BYTES: usize = 8;

/// A batch whose rows are complete.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) batch: Batch,
    /// Bytes of what the model makes of the batch beyond its values.
    pub(crate) made_bytes: usize,
    /// Bytes of the batch and of what the model makes of it.
    pub(crate) bytes: usize,
    /// The part of the budget of all batches that this one has until it is answered. A small one has none.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// The batch of a request.
#[derive(Debug)]
pub(crate) struct Filling<'c> {
    columns: &'c NamedColumns,
    batch: Batch,
    bytes: usize,
    bytes_max: usize,
}

impl<'c> Filling<'c> {
    pub(crate) fn new(columns: &'c NamedColumns, bounds: RequestBounds) -> Self {
        Self {
            columns,
            batch: columns.begin(1),
            bytes: 0,
            bytes_max: bounds.bytes_max,
        }
    }

    /// Returns the columns of the model.
    pub(crate) fn columns(&self) -> &'c NamedColumns {
        self.columns
    }

    /// Returns the most values that a cell of a column may have.
    pub(crate) fn values_max(&self, place: usize) -> usize {
        let widths = self.columns.kinds(place).map(|kind| match kind {
            FieldKind::Float { width, .. } => *width,
            kind if kind.is_ragged() => CELL_VALUES_MAX,
            _ => 1,
        });
        widths.max().unwrap_or(CELL_VALUES_MAX)
    }

    /// Counts bytes that were read again for a row.
    ///
    /// # Errors
    /// The request is too large.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            return Err("the rows are too large".to_owned());
        }
        Ok(())
    }

    /// Appends the values of a row to a column.
    ///
    /// # Errors
    /// The column cannot hold the values, or the request is too large.
    pub(crate) fn append(&mut self, place: usize, values: &[Given<'_>]) -> Result<(), String> {
        let grown = self.columns.append(&mut self.batch, place, values)?;
        self.charge(grown)
    }

    /// Returns the error of a request: its own, or that its rows are too large.
    pub(crate) fn error(&self, own: impl FnOnce() -> Error) -> Error {
        if self.bytes > self.bytes_max {
            let most = self.bytes_max;
            return Error::Expanded { most };
        }
        own()
    }

    /// Completes a batch of `rows` rows.
    ///
    /// # Errors
    /// A column has another number of rows, or the model cannot use a row.
    pub(crate) fn finish(self, rows: usize) -> Result<Filled, Error> {
        let columns = self.columns;
        let finished = columns.finish(self.batch, rows);
        let batch = finished.map_err(|unfinished| {
            Error::Request(match unfinished {
                Unfinished::Rows { place, given } => {
                    let name = &columns.names()[place];
                    format!("column `{name}` has {given} rows, others have {rows}")
                }
                Unfinished::Bad {
                    row,
                    column,
                    reason,
                } => format!("row {}: column `{column}`: {reason}", row + 1),
            })
        })?;
        let made_bytes = columns.values_made(&batch).saturating_mul(MADE_BYTES);
        let bytes = made_bytes.saturating_add(self.bytes);
        if bytes > self.bytes_max {
            let most = self.bytes_max;
            return Err(Error::Expanded { most });
        }
        Ok(Filled {
            batch,
            made_bytes,
            bytes,
            room: None,
        })
    }
}

/// What tests of requests have in common.
#[cfg(test)]
pub(crate) mod fixtures {
    use trainyard_input::{FieldKind, Format, NamedColumns, Options, Schema};

    use super::RequestBounds;

    /// Bounds of a small request.
    pub(crate) const BOUNDS: RequestBounds = RequestBounds {
        rows_max: 10,
        bytes_max: 1 << 20,
    };

    /// Returns the columns of these fields.
    pub(crate) fn columns(fields: &[(&str, FieldKind)]) -> NamedColumns {
        let mut schema = Schema::default();
        for (name, kind) in fields {
            schema.want(name, kind.clone());
        }
        NamedColumns::new(&schema, &Options::new(vec!["t".into()], Format::Csv))
    }
}
