//! Records of a file: raw bytes with their place, before parsing.

use std::io::ErrorKind;
use std::path::Path;

use crate::Error;

/// Origin of a record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) file: usize,
    /// Line on which the record begins; for TFRecord and Parquet, the number of the record in the file. From 1.
    pub(crate) line: u64,
    /// Byte of the decompressed content at which the record begins, from 0; for Parquet, the number of the row.
    pub(crate) offset: u64,
    pub(crate) pass: u64,
}

/// A record that borrows its bytes from the reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) place: Place,
    /// The fault of the record as a whole.
    pub(crate) fault: Option<&'a str>,
}

/// Returns the error of a file that the system cannot read or whose decompression failed.
pub(crate) fn failed(file: &Path, error: &std::io::Error) -> Error {
    if let Some(error) = trainyard_storage::Error::of(error) {
        return Error::Remote(Box::new(error.clone()));
    }
    let message = match error.kind() {
        // These messages come from [`crate::compression`].
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => error.to_string(),
        kind => kind.to_string(),
    };
    Error::File {
        file: file.to_owned(),
        message,
    }
}
