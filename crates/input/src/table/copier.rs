//! Copies of rows of Parquet files.

use std::path::PathBuf;

use crate::Error;
use crate::formats::ParquetCopier;

/// Copier of rows of Parquet files that have the same columns, in any order, into two files. Their columns have the types and bits of
/// the originals, also those that no job can read. The files have temporary names until they are finished; unfinished ones are removed.
pub struct RowCopier(ParquetCopier);

impl RowCopier {
    /// Creates the two files. The column `whole`, where it holds floats, is written as whole numbers of 64 bits.
    ///
    /// # Errors
    /// A file cannot be read or created, or a column has several types.
    pub fn create(
        files: &[PathBuf],
        parts: [PathBuf; 2],
        whole: Option<&str>,
    ) -> Result<Self, Error> {
        ParquetCopier::open(files, parts, whole).map(Self)
    }

    /// Places the next row in the part 0 or 1, or in none.
    ///
    /// # Errors
    /// A file cannot be read or written, or a value of the column `whole` is no whole number.
    pub fn place(&mut self, part: Option<usize>) -> Result<(), Error> {
        self.0.place(part)
    }

    /// Leaves out the other rows of the current file.
    ///
    /// # Errors
    /// As [`RowCopier::place`].
    pub fn end_file(&mut self) -> Result<(), Error> {
        self.0.end_file()
    }

    /// Completes the files of the first `parts` parts, and removes the others. Rows that were not placed are left out.
    ///
    /// # Errors
    /// As [`RowCopier::place`].
    pub fn finish(self, parts: usize) -> Result<(), Error> {
        self.0.finish(parts)
    }
}

impl std::fmt::Debug for RowCopier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("RowCopier")
    }
}
