//! Stub for programs that are built without the feature `parquet`: reading or writing a Parquet file is an error.

use std::path::{Path, PathBuf};

use crate::output::Unwritten;
use crate::record::{Content, Place};
use crate::record_format::{FileRecords, InputFile, RowWriter, Target, Want};
use crate::{Cell, ColumnType, Error, Schema};

const FEATURE: &str = "parquet";

/// The rows of a file. A value of this type cannot exist.
#[derive(Debug)]
pub(super) enum ParquetRows {}

impl ParquetRows {
    pub(super) fn open(file: &InputFile<'_>, _: Option<&Schema>) -> Result<Self, Error> {
        Err(not_built(file.path))
    }
}

impl FileRecords for ParquetRows {
    fn next(&mut self, _: &Path, _: &mut Place, _want: Want) -> Result<bool, Error> {
        match *self {}
    }

    fn seek(&mut self, _offset: u64, _line: u64, _until: u64) -> std::io::Result<()> {
        match *self {}
    }

    fn end(&self) -> u64 {
        match *self {}
    }

    fn content(&self) -> Content<'_> {
        match *self {}
    }
}

/// Writer of a file. A value of this type cannot exist.
#[derive(Debug)]
pub(super) enum ParquetWriter {}

impl ParquetWriter {
    pub(super) fn new(target: Target<'_>) -> Result<Self, Error> {
        let kept = target.kept.and_then(|kept| kept.files.first());
        Err(not_built(kept.map_or(target.path, PathBuf::as_path)))
    }
}

impl RowWriter for ParquetWriter {
    fn write(&mut self, _row: &[Cell]) -> Result<(), Unwritten> {
        match *self {}
    }

    fn finish(self: Box<Self>) -> Result<(), Unwritten> {
        match *self {}
    }
}

/// Copier of rows of files. A value of this type cannot exist.
pub(crate) enum ParquetCopier {}

impl ParquetCopier {
    pub(crate) fn open(
        files: &[PathBuf],
        parts: &[PathBuf],
        _whole: Option<&str>,
    ) -> Result<Self, Error> {
        let path = files.first().or(parts.first());
        Err(not_built(path.map_or(Path::new(""), PathBuf::as_path)))
    }

    pub(crate) fn size(&self) -> (u64, usize) {
        match *self {}
    }

    pub(crate) fn place(&mut self, _part: Option<usize>) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn end_file(&mut self) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn finish(self, _parts: usize) -> Result<(), Error> {
        match self {}
    }
}

pub(crate) fn column_types(
    files: &[PathBuf],
    _names: Option<&[String]>,
) -> Result<Vec<ColumnType>, Error> {
    let path = files.first();
    Err(not_built(path.map_or(Path::new(""), PathBuf::as_path)))
}

fn not_built(path: &Path) -> Error {
    Error::NotBuilt {
        file: path.to_owned(),
        feature: FEATURE,
    }
}

#[cfg(test)]
mod tests {
    use trainyard_diagnostic::Diagnostic;
    use trainyard_storage::Storage;

    use super::*;

    #[test]
    fn a_parquet_file_is_refused_with_the_feature_that_it_needs() {
        let file = InputFile {
            storage: &Storage::default(),
            path: "a.parquet".as_ref(),
            compression: None,
            trim: false,
            delimiter: None,
        };
        let refused = ParquetRows::open(&file, None);
        let refused: Diagnostic = refused.expect_err("there is no Parquet").into();
        let told = refused.render();
        assert!(
            told.contains("a.parquet") && told.contains("--features parquet"),
            "{told}"
        );
    }
}
