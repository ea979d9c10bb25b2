//! Writer of sorted tables, the format of index files: blocks of entries, an index block and a footer.
//!
//! The format is that of `tensorflow/core/lib/io/table_builder.cc` (LevelDB's). Keys are written whole, with a restart
//! at each: an index has few entries, and no reader depends on shared prefixes.

use std::collections::BTreeMap;

use super::table::{FOOTER_BYTES, MAGIC, NO_COMPRESSION};
use crate::tfrecord::masked;

/// Bytes after which a block ends.
const BLOCK_BYTES: usize = 256 << 10;

/// Returns the file of a table with these entries.
pub(crate) fn table(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut handles = Block::default();
    let mut block = Block::default();
    let mut entries = entries.iter().peekable();
    while let Some((key, value)) = entries.next() {
        block.add(key, value);
        if block.bytes.len() >= BLOCK_BYTES || entries.peek().is_none() {
            let handle = put(&mut file, std::mem::take(&mut block));
            handles.add(key, &handle);
        }
    }
    let meta = put(&mut file, Block::default());
    let index = put(&mut file, handles);
    let mut footer = [meta, index].concat();
    footer.resize(FOOTER_BYTES - size_of_val(&MAGIC), 0);
    file.extend(footer);
    file.extend(MAGIC.to_le_bytes());
    file
}

/// A block under construction.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
}

impl Block {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.restarts.push(self.bytes.len() as u32);
        push_varint(&mut self.bytes, 0);
        push_varint(&mut self.bytes, key.len() as u64);
        push_varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn finish(mut self) -> Vec<u8> {
        // A block without entries has one restart, at 0.
        if self.restarts.is_empty() {
            self.restarts.push(0);
        }
        let count = self.restarts.len() as u32;
        let numbers = self.restarts.iter().chain([&count]);
        numbers.for_each(|number| self.bytes.extend(number.to_le_bytes()));
        self.bytes
    }
}

/// Appends a block with its trailer, and returns its handle.
fn put(file: &mut Vec<u8>, block: Block) -> Vec<u8> {
    let begin = file.len();
    file.extend(block.finish());
    let mut handle = Vec::new();
    push_varint(&mut handle, begin as u64);
    push_varint(&mut handle, (file.len() - begin) as u64);
    file.push(NO_COMPRESSION);
    let checksum = masked(&file[begin..]);
    file.extend(checksum.to_le_bytes());
    handle
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tensor_bundle::table::entries;

    #[test]
    fn a_table_of_many_blocks_reads_back() {
        let written: BTreeMap<Vec<u8>, Vec<u8>> = (0..3000_u32)
            .map(|number| (number.to_be_bytes().to_vec(), vec![number as u8; 300]))
            .chain([(Vec::new(), b"header".to_vec())])
            .collect();
        let file = table(&written);
        assert!(file.len() > 3 * BLOCK_BYTES);
        let read = entries(Path::new("t"), &file).expect("a table");
        assert!(read == written);
    }
}
