//! A file's content in large blocks, of which records are parts.

use std::io::Result;
use std::path::Path;

use crate::Compression;
use crate::compression::Content;

/// Bytes read first: enough for a header or the records that `check` looks at.
const FIRST_BYTES: usize = 1 << 16;
/// Bytes of a block. It grows for a record that is longer.
const BLOCK_BYTES: usize = 1 << 20;

/// The part of a file's content that is in memory.
#[derive(Debug)]
pub(crate) struct Block {
    content: Content,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    offset: u64,
}

impl Block {
    /// Opens a file.
    pub(crate) fn open(path: &Path, compression: Compression) -> Result<Self> {
        let content = Content::open(path, compression)?;
        Ok(Self { content, buffer: Vec::new(), begin: 0, end: 0, offset: 0 })
    }

    /// Returns the bytes that were read and not passed over.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Returns the last `count` bytes that were passed over; they are there until [`Block::more`] is called.
    #[inline]
    pub(crate) fn passed(&self, count: usize) -> &[u8] {
        &self.buffer[self.begin - count..self.begin]
    }

    /// Returns the place in the content of the first byte of [`Block::bytes`].
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Passes over bytes.
    #[inline]
    pub(crate) fn pass(&mut self, count: usize) {
        self.begin += count;
        self.offset += count as u64;
    }

    /// Reads more bytes behind those that are there; `false` at the end of the content.
    pub(crate) fn more(&mut self) -> Result<bool> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let length = self.buffer.len();
        if self.end == length || length < BLOCK_BYTES {
            self.buffer.resize(if length == 0 { FIRST_BYTES } else { BLOCK_BYTES.max(2 * self.end) }, 0);
        }
        let read = self.content.read(&mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read > 0)
    }

    /// Reads until `count` bytes are there; `false` if the content ends before.
    pub(crate) fn fill(&mut self, count: usize) -> Result<bool> {
        while self.end - self.begin < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
