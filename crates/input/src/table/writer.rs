//! Writer of tables in any format. It is atomic: the file appears when it is complete.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use trainyard_storage::ResultFile;

use crate::formats;
use crate::output::Unwritten;
use crate::record_format::{Kept, RowWriter, Target};
use crate::{Cell, Error, Format, Layout};

/// Writer of a file. The file has a temporary name until it is finished. An unfinished file is removed.
pub struct TableWriter {
    path: PathBuf,
    /// Absent once the file has its name.
    file: Option<ResultFile>,
    /// Absent once the file is finished.
    rows: Option<Box<dyn RowWriter>>,
}

impl TableWriter {
    /// Creates a file. The extension of its name determines the compression. Parquet compresses its pages instead.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, format: Format, layout: Layout) -> Result<Self, Error> {
        Self::create_with_delimiter(path, format, None, layout)
    }

    /// Creates a file as [`TableWriter::create`]. CSV has this delimiter, or the comma.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create_with_delimiter(
        path: &Path,
        format: Format,
        delimiter: Option<u8>,
        layout: Layout,
    ) -> Result<Self, Error> {
        let target = (path, format);
        Self::create_as(target, delimiter, &layout, None)
    }

    /// Creates a Parquet file as [`TableWriter::create`]. Before the columns of the layout it has those that are kept: rows are written
    /// without them.
    ///
    /// # Errors
    /// The file cannot be created, or a kept column cannot be read.
    pub fn create_with_kept(path: &Path, layout: Layout, kept: &Kept) -> Result<Self, Error> {
        Self::create_as((path, Format::Parquet), None, &layout, Some(kept))
    }

    fn create_as(
        (path, format): (&Path, Format),
        delimiter: Option<u8>,
        layout: &Layout,
        kept: Option<&Kept>,
    ) -> Result<Self, Error> {
        let mut writer = Self {
            path: path.to_owned(),
            file: None,
            rows: None,
        };
        let (result, file) = ResultFile::create(path).map_err(|error| writer.failed(error))?;
        writer.file = Some(result);
        writer.rows = Some(formats::format(format).writer(Target {
            path,
            file: BufWriter::new(file),
            layout,
            delimiter,
            kept,
        })?);
        Ok(writer)
    }

    /// Appends a row with the cells of the layout's columns.
    ///
    /// # Errors
    /// The file cannot be written, or the format cannot hold a value.
    pub fn write(&mut self, row: &[Cell]) -> Result<(), Error> {
        let Some(rows) = &mut self.rows else {
            return Ok(());
        };
        let outcome = rows.write(row);
        outcome.map_err(|reason| self.failed(reason))
    }

    /// Completes the file and renames it to its final name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        if let Some(rows) = self.rows.take() {
            rows.finish().map_err(|reason| self.failed(reason))?;
        }
        let published = self.file.take().map_or(Ok(()), ResultFile::publish);
        published.map_err(|error| self.failed(error))
    }

    fn failed(&self, reason: impl Into<Unwritten>) -> Error {
        reason.into().of(&self.path)
    }
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "TableWriter({})", self.path.display())
    }
}
