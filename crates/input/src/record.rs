//! Records of a file with their place, before parsing.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;

use crate::Error;
#[cfg(feature = "parquet")]
use crate::columnar::ColumnarRows;

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

/// The content of a record, which the reader owns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// Bytes of the file, or the inline form of a row.
    Bytes(&'a [u8]),
    /// A row of columns that are in memory.
    #[cfg(feature = "parquet")]
    Row(&'a ColumnarRows, usize),
}

impl<'a> Content<'a> {
    /// Returns the number of bytes; for a row, of its inline form.
    #[inline]
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            #[cfg(feature = "parquet")]
            Self::Row(rows, row) => rows.encoded_len(row),
        }
    }

    /// Returns the bytes of a format whose records are bytes.
    #[inline]
    pub(crate) fn as_bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            #[cfg(feature = "parquet")]
            Self::Row(..) => &[],
        }
    }

    /// Returns the bytes; for a row, its inline form.
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            #[cfg(feature = "parquet")]
            Self::Row(..) => {
                let mut bytes = Vec::with_capacity(self.len());
                self.append_to(&mut bytes);
                Cow::Owned(bytes)
            }
        }
    }

    /// Appends the bytes; for a row, its inline form. In a buffer that is read in a random order, a row is faster than
    /// its columns: its cells are side by side.
    #[inline]
    pub(crate) fn append_to(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Bytes(content) => bytes.extend_from_slice(content),
            #[cfg(feature = "parquet")]
            Self::Row(rows, row) => crate::row::encode(rows.cells(row), bytes),
        }
    }
}

/// A record that borrows its content from the reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) place: Place,
    /// The fault of the record as a whole.
    pub(crate) fault: Option<&'a str>,
}

/// Returns the error of a file that the system cannot read or whose decompression failed.
pub(crate) fn failed(file: &Path, error: &std::io::Error) -> Error {
    if let Some(error) = trainyard_storage::Error::of(error) {
        return Error::Remote(Box::new(error.clone()));
    }
    match error.kind() {
        // These messages come from [`crate::compression`].
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => Error::Content {
            file: file.to_owned(),
            message: error.to_string(),
            help: "copy the file again from where it was made; `gzip -t` says whether one is whole",
        },
        ErrorKind::Unsupported => Error::Content {
            file: file.to_owned(),
            message: error.to_string(),
            help: "name the file without `.gz`, or set input.compression = \"none\"",
        },
        kind => Error::File {
            file: file.to_owned(),
            message: kind.to_string(),
        },
    }
}
