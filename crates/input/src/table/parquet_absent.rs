//! Stub for programs that are built without the feature `parquet`: writing a Parquet file is an error.

use std::io::Write;
use std::path::Path;

use super::{Cell, Layout};
use crate::Error;
use crate::parquet_absent::FEATURE;

/// Writer of a file. A value of this type cannot exist.
pub(crate) struct ParquetWriter<W> {
    never: std::convert::Infallible,
    out: W,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(crate) fn new(path: &Path, _out: W, _layout: &Layout) -> Result<Self, Error> {
        Err(Error::NotBuilt {
            file: path.to_owned(),
            feature: FEATURE,
        })
    }

    pub(crate) fn write(&mut self, _row: &[Cell]) -> Result<(), String> {
        match self.never {}
    }

    pub(crate) fn finish(self) -> Result<W, String> {
        Ok(self.out)
    }
}
