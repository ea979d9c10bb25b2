//! Data files.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::tensor_bundle::error::shown;
use crate::tensor_bundle::piece::Piece;
use crate::tensor_bundle::{Error, TensorInfo};

/// Bytes per read; a multiple of every element's width.
const CHUNK_BYTES: u64 = 1 << 20;

/// A data file, and its length when the bundle was opened.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// Returns the length of a regular file. Other files are refused: opening a pipe would wait for its other end.
pub(crate) fn file_bytes(path: &Path) -> Result<u64, Error> {
    let metadata = std::fs::metadata(path).map_err(Error::io("find", path))?;
    if metadata.is_file() {
        Ok(metadata.len())
    } else {
        Err(Error::damaged(path, "it is not a regular file"))
    }
}

impl Shard {
    pub(crate) fn find(path: PathBuf) -> Result<Self, Error> {
        let bytes = file_bytes(&path)?;
        Ok(Self { path, bytes })
    }

    /// Reads bytes `wanted` of a piece, counted from its beginning, and passes them to `sink` in order as (position,
    /// bytes).
    ///
    /// Until a piece is verified, a call reads all of it and compares it with its checksum. `sink` gets bytes before
    /// the comparison, so they are valid only if the result is `Ok`.
    pub(crate) fn stream(
        &self,
        tensor: &TensorInfo,
        piece: &Piece,
        wanted: Range<u64>,
        mut sink: impl FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        let verify = !piece.verified.load(Ordering::Acquire);
        let read = if verify {
            0..piece.bytes
        } else {
            wanted.clone()
        };
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        let mut buffer = vec![0; CHUNK_BYTES.min(read.end - read.start) as usize];
        let mut place = read.start;
        let mut found = 0;
        while place < read.end {
            let length = CHUNK_BYTES.min(read.end - place);
            let Some(chunk) = buffer.get_mut(..length as usize) else {
                break;
            };
            file.read_exact_at(chunk, piece.offset + place)
                .map_err(Error::io("read", &self.path))?;
            if verify {
                found = crc32c::crc32c_append(found, chunk);
            }
            let begin = wanted.start.max(place);
            let end = wanted.end.min(place + length);
            if begin < end
                && let Some(part) = chunk.get((begin - place) as usize..(end - place) as usize)
            {
                sink(begin, part);
            }
            place += length;
        }
        if verify {
            self.compare(tensor, piece, found)?;
            piece.verified.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Reads all bytes of a piece, without comparing them with the checksum.
    pub(crate) fn bytes_of(&self, piece: &Piece) -> Result<Vec<u8>, Error> {
        let file = File::open(&self.path).map_err(Error::io("open", &self.path))?;
        let mut out = vec![0; piece.bytes as usize];
        file.read_exact_at(&mut out, piece.offset)
            .map_err(Error::io("read", &self.path))?;
        Ok(out)
    }

    /// Compares a checksum with the expected checksum of a piece.
    pub(crate) fn compare(
        &self,
        tensor: &TensorInfo,
        piece: &Piece,
        found: u32,
    ) -> Result<(), Error> {
        if found == piece.crc32c {
            return Ok(());
        }
        let name = shown(&tensor.name);
        let what = match tensor.slices {
            0 => format!("tensor `{name}`"),
            _ => format!("the slice at {:?} of tensor `{name}`", piece.region.starts),
        };
        let path = self.path.clone();
        let offset = piece.offset;
        Err(Error::Checksum {
            path,
            what,
            offset,
            expected: piece.crc32c,
            found,
        })
    }
}
