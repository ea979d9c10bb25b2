//! Output file, compressed as its name says, and why it is not written.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use flate2::write::{GzEncoder, ZlibEncoder};

use crate::{Compression, Error};

/// A file that is being written.
#[derive(Debug)]
pub enum CompressedFile {
    /// As it is.
    Plain(BufWriter<File>),
    /// RFC 1952.
    Gzip(GzEncoder<BufWriter<File>>),
    /// RFC 1950.
    Zlib(ZlibEncoder<BufWriter<File>>),
}

impl CompressedFile {
    /// Returns the output into `file`. The extension of its final name determines the compression.
    pub fn new(name: &Path, file: BufWriter<File>) -> Self {
        let level = flate2::Compression::default();
        match Compression::of(name) {
            Compression::None => Self::Plain(file),
            Compression::Gzip => Self::Gzip(GzEncoder::new(file, level)),
            Compression::Zlib => Self::Zlib(ZlibEncoder::new(file, level)),
        }
    }

    /// Writes the end of the content into the file, which need not be on the disk then.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(self) -> Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Gzip(out) => out.finish()?.flush(),
            Self::Zlib(out) => out.finish()?.flush(),
        }
    }

    /// Writes everything to the disk.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Plain(out) => sync(out),
            Self::Gzip(out) => sync(out.finish()?),
            Self::Zlib(out) => sync(out.finish()?),
        }
    }
}

impl Write for CompressedFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zlib(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zlib(out) => out.flush(),
        }
    }
}

/// Writes the buffer of a file and the file to the disk.
pub(crate) fn sync(mut out: BufWriter<File>) -> Result<()> {
    out.flush()?;
    out.get_ref().sync_all()
}

/// Reason why rows are not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// The format cannot hold a value or a name.
    Unfit(String),
    /// The system does not write the file.
    System(std::io::Error),
}

impl Unwritten {
    /// Returns the error of a file, which is there unfinished.
    pub(crate) fn of(self, file: &Path) -> Error {
        match self {
            Self::Unfit(message) => Error::Unfit {
                file: file.to_owned(),
                message,
            },
            Self::System(error) => {
                Error::Unwritten(Box::new(trainyard_storage::unwritten(file, &error)))
            }
        }
    }
}

impl From<String> for Unwritten {
    fn from(message: String) -> Self {
        Self::Unfit(message)
    }
}

impl From<std::io::Error> for Unwritten {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

#[cfg(feature = "parquet")]
impl From<parquet::errors::ParquetError> for Unwritten {
    fn from(error: parquet::errors::ParquetError) -> Self {
        match error {
            parquet::errors::ParquetError::External(source) => match source.downcast() {
                Ok(error) => Self::System(*error),
                Err(other) => Self::Unfit(other.to_string()),
            },
            other => Self::Unfit(other.to_string()),
        }
    }
}
