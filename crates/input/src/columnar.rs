//! Rows of columnar files in memory, with the columns and types that the files have.

#[cfg(not(feature = "parquet"))]
mod absent;
#[cfg(feature = "parquet")]
mod rows;

#[cfg(not(feature = "parquet"))]
pub(crate) use absent::ColumnarRows;
#[cfg(feature = "parquet")]
pub(crate) use rows::{Arity, ColumnarRows, Texts, ValueColumn, Values};

/// Rows that were taken out of their files. Rows with columns of the same types are in the same table.
#[derive(Debug, Default)]
pub(crate) struct RowPool {
    tables: Vec<ColumnarRows>,
}

/// Place of a row in a [`RowPool`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowPlace {
    table: u32,
    row: u32,
}

impl RowPool {
    /// Copies a row into the pool.
    #[inline]
    pub(crate) fn push(&mut self, rows: &ColumnarRows, row: usize) -> RowPlace {
        let alike = self.tables.iter().position(|table| table.is_like(rows));
        let table = alike.unwrap_or_else(|| {
            self.tables.push(rows.empty());
            self.tables.len() - 1
        });
        let number = self.tables[table].rows();
        self.tables[table].push(rows, row);
        // Rows are counted in 32 bits: a data shard has fewer, and so has a shuffle buffer that fits into memory.
        RowPlace {
            table: table as u32,
            row: number as u32,
        }
    }

    /// Returns a row: its table, and its number there.
    #[inline]
    pub(crate) fn get(&self, place: RowPlace) -> (&ColumnarRows, usize) {
        (&self.tables[place.table as usize], place.row as usize)
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(ColumnarRows::rows).sum()
    }

    /// Removes all rows. The memory is kept.
    pub(crate) fn clear(&mut self) {
        self.tables.iter_mut().for_each(ColumnarRows::clear);
    }
}
