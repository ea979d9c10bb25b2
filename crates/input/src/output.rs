//! Output file, compressed as its name says.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use flate2::write::{GzEncoder, ZlibEncoder};

use crate::Compression;

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

/// Returns the message of a file that cannot be written.
pub(crate) fn cannot_write(error: &std::io::Error) -> String {
    format!("it cannot be written: {error}")
}
