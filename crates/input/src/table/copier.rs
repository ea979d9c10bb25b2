//! Copies of rows of Parquet files.

use std::path::{Path, PathBuf};

use crate::formats::{ParquetCopier, parquet_types};
use crate::{ColumnType, Error};

/// Returns the types of the columns, or of those of these names, of Parquet files that become one: whole numbers and floats of several sizes go together.
///
/// # Errors
/// A file cannot be read, or a column has other types in two files.
pub fn column_types(files: &[PathBuf], names: Option<&[String]>) -> Result<Vec<ColumnType>, Error> {
    parquet_types(files, names)
}

/// Copies all rows of Parquet files that have the same columns into one file, with the types and bits of the originals, and returns the
/// number of rows and of columns. Of several sizes the copy has the largest, and floats where some are. The copy appears when it is
/// whole.
///
/// # Errors
/// A file cannot be read or created, or a column has types that do not go together.
pub fn copy_rows(files: &[PathBuf], output: &Path) -> Result<(u64, usize), Error> {
    let mut copier = ParquetCopier::open(files, &[output.to_owned()], None)?;
    let (rows, columns) = copier.size();
    for _ in 0..rows {
        copier.place(Some(0))?;
    }
    if rows > 0 {
        copier.finish(1)?;
    }
    Ok((rows, columns))
}

/// Copier of rows of Parquet files that have the same columns, in any order, into two files. Their columns have the types and bits of
/// the originals, also those that no job can read; of several sizes the largest, and floats where some are. The files have temporary names until they are finished; unfinished ones are removed.
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
        ParquetCopier::open(files, &parts, whole).map(Self)
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
