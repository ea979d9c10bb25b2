//! Stub for programs that are built without the feature `parquet`: opening a Parquet file is an error.

use std::path::Path;

use trainyard_storage::Storage;

use crate::record::Place;
use crate::{Error, Schema};

pub(crate) const FEATURE: &str = "parquet";

/// The rows of a file. A value of this type cannot exist.
#[derive(Debug)]
pub(crate) enum ParquetRows {}

impl ParquetRows {
    pub(crate) fn open(_: &Storage, path: &Path, _: Option<&Schema>) -> Result<Self, Error> {
        Err(Error::NotBuilt {
            file: path.to_owned(),
            feature: FEATURE,
        })
    }

    pub(crate) fn columns(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn number(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn seek(&mut self, _number: u64) {
        match *self {}
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match *self {}
    }

    pub(crate) fn next(&mut self, _: &Path, _: &mut Place, _wanted: bool) -> Result<bool, Error> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use trainyard_diagnostic::Diagnostic;

    use super::*;

    #[test]
    fn a_parquet_file_is_refused_with_the_feature_that_it_needs() {
        let refused = ParquetRows::open(&Storage::default(), "a.parquet".as_ref(), None);
        let refused: Diagnostic = refused.expect_err("there is no Parquet").into();
        let told = refused.render();
        assert!(
            told.contains("a.parquet") && told.contains("--features parquet"),
            "{told}"
        );
    }
}
