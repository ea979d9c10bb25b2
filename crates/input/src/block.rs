//! Reading of a file's content in large blocks. Records are slices of a block.

use std::io::Result;
use std::path::Path;

use trainyard_storage::Storage;

use crate::Compression;
use crate::compression::Content;

/// Bytes of the first read: enough for a header or the records that `check` reads.
const FIRST_BYTES: usize = 1 << 16;
/// Bytes of a block. The block grows for a longer record.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of compressed content that stay in memory for [`Block::seek`]. To seek further back, the content is
/// decompressed again from its start.
const KEPT_BYTES: usize = 32 << 20;

/// The part of a file's content that is in memory.
#[derive(Debug)]
pub(crate) struct Block {
    content: Content,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    offset: u64,
    /// Offset in the content at which reading stops.
    until: u64,
    /// Bytes behind the current position that stay in memory.
    kept: usize,
}

impl Block {
    /// Opens a file.
    pub(crate) fn open(storage: &Storage, path: &Path, compression: Compression) -> Result<Self> {
        let content = Content::open(storage, path, compression)?;
        Ok(Self {
            content,
            buffer: Vec::new(),
            begin: 0,
            end: 0,
            offset: 0,
            until: u64::MAX,
            kept: 0,
        })
    }

    /// Returns the bytes that were read and not yet passed.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Returns the last `count` bytes that were passed. They are valid until [`Block::more`] is called.
    #[inline]
    pub(crate) fn passed(&self, count: usize) -> &[u8] {
        &self.buffer[self.begin - count..self.begin]
    }

    /// Returns the offset in the content of the first byte of [`Block::bytes`].
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Advances the position by `count` bytes.
    #[inline]
    pub(crate) fn pass(&mut self, count: usize) {
        self.begin += count;
        self.offset += count as u64;
    }

    /// Moves to byte `offset` of the content. The caller needs no bytes from `until` on, so uncompressed content is
    /// read no further. An offset beyond the end of the content leaves no bytes.
    pub(crate) fn seek(&mut self, offset: u64, until: u64) -> Result<()> {
        let compressed = self.content.is_compressed();
        if compressed {
            self.kept = KEPT_BYTES;
        } else {
            self.until = until;
        }
        if !self.place(offset) {
            if !compressed || offset < self.offset {
                self.offset = if compressed { 0 } else { offset };
                self.content.seek(self.offset)?;
                (self.begin, self.end) = (0, 0);
            }
            while !self.place(offset) {
                self.pass(self.end - self.begin);
                if !self.more()? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Moves to byte `offset` of the content if that byte is in memory or is the next to be read.
    fn place(&mut self, offset: u64) -> bool {
        let first = self.offset - self.begin as u64;
        match offset.checked_sub(first) {
            Some(begin) if begin <= self.end as u64 => {
                (self.begin, self.offset) = (begin as usize, offset);
                true
            }
            _ => false,
        }
    }

    /// Reads more bytes after those in memory. Returns `false` at the end of the content.
    pub(crate) fn more(&mut self) -> Result<bool> {
        let wanted = self
            .until
            .saturating_sub(self.offset + (self.end - self.begin) as u64);
        if wanted == 0 {
            return Ok(false);
        }
        // Kept bytes are moved only when the buffer is full, so each byte is copied about once.
        let dropped = match self.kept {
            0 => self.begin,
            kept if self.end == self.buffer.len() && self.begin >= kept + BLOCK_BYTES => {
                self.begin - kept
            }
            _ => 0,
        };
        if dropped > 0 {
            self.buffer.copy_within(dropped..self.end, 0);
            (self.begin, self.end) = (self.begin - dropped, self.end - dropped);
        }
        let length = self.buffer.len();
        if self.end == length || length < BLOCK_BYTES {
            self.buffer.resize(
                if length == 0 {
                    FIRST_BYTES
                } else {
                    BLOCK_BYTES.max(2 * self.end)
                },
                0,
            );
        }
        let room = self.buffer.len() - self.end;
        let stop = self.end + usize::try_from(wanted).map_or(room, |wanted| wanted.min(room));
        let read = self.content.read(&mut self.buffer[self.end..stop])?;
        self.end += read;
        Ok(read > 0)
    }

    /// Reads until `count` bytes are in memory. Returns `false` if the content ends before.
    pub(crate) fn fill(&mut self, count: usize) -> Result<bool> {
        while self.end - self.begin < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Returns a file of `bytes` bytes and its content. Each aligned group of eight bytes is unique.
    fn file(bytes: usize, compression: Compression) -> (tempfile::NamedTempFile, Vec<u8>) {
        let content: Vec<u8> = (0..bytes as u64 / 8).flat_map(u64::to_le_bytes).collect();
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        let written = match compression {
            Compression::None => file.write_all(&content),
            _ => {
                let mut encoder =
                    flate2::write::GzEncoder::new(&mut file, flate2::Compression::fast());
                encoder
                    .write_all(&content)
                    .and_then(|()| encoder.finish().map(drop))
            }
        };
        written.expect("the file is written");
        (file, content)
    }

    /// Seeks to each place in turn and compares the bytes that are read there.
    fn compare(
        compression: Compression,
        bytes: usize,
        places: impl IntoIterator<Item = (usize, usize)>,
    ) {
        let (file, content) = file(bytes, compression);
        let mut block =
            Block::open(&Storage::default(), file.path(), compression).expect("the file opens");
        for (offset, count) in places {
            let end = (offset + count).min(content.len());
            block
                .seek(offset as u64, end as u64)
                .expect("the file is read");
            assert_eq!(
                block.fill(count).expect("the file is read"),
                offset + count <= content.len()
            );
            assert_eq!(block.offset(), offset as u64);
            assert!(
                block.bytes().starts_with(&content[offset..end]),
                "{count} bytes at {offset}"
            );
            block.pass(end - offset);
            assert_eq!(block.passed(end - offset), &content[offset..end]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_place_is_found_from_any_other(
            compressed in any::<bool>(),
            places in prop::collection::vec((0..3_000_000_usize, prop_oneof![0..100_usize, 0..1_500_000_usize]), 1..12),
        ) {
            compare(if compressed { Compression::Gzip } else { Compression::None }, 3_000_000, places);
        }
    }

    #[test]
    fn what_was_passed_over_of_compressed_content_stays_for_a_while() {
        let bytes = 3 * KEPT_BYTES;
        let (file, _) = file(bytes, Compression::Gzip);
        let mut block = Block::open(&Storage::default(), file.path(), Compression::Gzip)
            .expect("the file opens");
        for step in 0..64 {
            let offset = (step * bytes / 64) as u64;
            block.seek(offset, u64::MAX).expect("the file is read");
            let before = offset.saturating_sub(KEPT_BYTES as u64);
            assert!(
                block.place(before),
                "{before} is not there any more at {offset}"
            );
        }
        assert!(
            block.buffer.len() <= 2 * KEPT_BYTES,
            "{} bytes are held",
            block.buffer.len()
        );
    }

    #[test]
    fn places_are_found_further_back_than_bytes_are_kept() {
        let bytes = 3 * KEPT_BYTES;
        let near =
            (0..60).map(|place| (place % 7 * KEPT_BYTES / 8 + place * KEPT_BYTES / 30, 1000));
        let far = [
            (bytes - 10, 10),
            (bytes - KEPT_BYTES, 8),
            (5, 5),
            (bytes - 1, 1),
        ];
        compare(Compression::Gzip, bytes, near.chain(far));
    }
}
