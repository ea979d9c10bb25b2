//! Writer of checkpoints in every supported form. It shares no code with the reader: messages are encoded by hand.

use std::collections::BTreeMap;
use std::path::Path;

/// `DataType` of TensorFlow for floats.
pub(crate) const FLOAT: u64 = 1;

/// A checkpoint to write.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) header: Vec<u8>,
    pub(crate) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) shards: Vec<Vec<u8>>,
    /// Bytes after which a block ends.
    pub(crate) block_bytes: usize,
    /// 0 = none, 1 = snappy.
    pub(crate) compression: u8,
}

/// A tensor, or a slice of a tensor, as in its entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) dtype: u64,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: &'a [u8],
    pub(crate) crc32c: u32,
}

impl<'a> Values<'a> {
    pub(crate) fn new(dtype: u64, shape: &'a [usize], bytes: &'a [u8]) -> Self {
        Self {
            dtype,
            shape,
            bytes,
            crc32c: crc32c::crc32c(bytes),
        }
    }
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// Encodes a field with a number.
pub(crate) fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

/// Encodes a field with bytes or a message.
pub(crate) fn message(tag: u64, inner: &[u8]) -> Vec<u8> {
    [
        varint(tag << 3 | 2),
        varint(inner.len() as u64),
        inner.to_vec(),
    ]
    .concat()
}

pub(crate) fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Encodes the fields of an entry, without its slices.
pub(crate) fn entry(values: Values<'_>, shard: usize, offset: usize, size: u64) -> Vec<u8> {
    let dims: Vec<u8> = values
        .shape
        .iter()
        .flat_map(|&size| message(2, &number(1, size as u64)))
        .collect();
    let checksum = [
        varint(6 << 3 | 5),
        masked(values.crc32c).to_le_bytes().to_vec(),
    ]
    .concat();
    [
        number(1, values.dtype),
        message(2, &dims),
        number(3, shard as u64),
        number(4, offset as u64),
        number(5, size),
        checksum,
    ]
    .concat()
}

/// Encodes a `TensorSliceProto` from (start, length) of each dimension.
pub(crate) fn slice(extents: &[(usize, usize)]) -> Vec<u8> {
    let extent = |&(start, length): &(usize, usize)| {
        message(
            1,
            &[number(1, start as u64), number(2, length as u64)].concat(),
        )
    };
    extents.iter().flat_map(extent).collect()
}

/// Returns the key of a slice. Its numbers must be below 64.
pub(crate) fn slice_key(name: &str, extents: &[(usize, usize)]) -> Vec<u8> {
    let numbers = extents
        .iter()
        .flat_map(|&(start, length)| [0x80 | start as u8, 0x80 | length as u8]);
    [
        b"\0",
        name.as_bytes(),
        b"\0\x01\x01",
        &[extents.len() as u8],
    ]
    .concat()
    .into_iter()
    .chain(numbers)
    .collect()
}

fn block(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut restarts = Vec::new();
    let mut last = Vec::new();
    for (index, (key, value)) in entries.iter().enumerate() {
        let mut shared = key.iter().zip(&last).take_while(|(a, b)| a == b).count();
        if index % 4 == 0 {
            restarts.push(out.len() as u32);
            shared = 0;
        }
        out.extend(
            [shared, key.len() - shared, value.len()]
                .into_iter()
                .flat_map(|n| varint(n as u64)),
        );
        out.extend_from_slice(&key[shared..]);
        out.extend_from_slice(value);
        last.clone_from(key);
    }
    let count = restarts.len() as u32;
    out.extend(
        restarts
            .into_iter()
            .chain([count])
            .flat_map(u32::to_le_bytes),
    );
    out
}

/// Appends a block with its trailer, and returns its handle.
pub(crate) fn put_block(file: &mut Vec<u8>, contents: &[u8], compression: u8) -> Vec<u8> {
    let place = [varint(file.len() as u64), varint(contents.len() as u64)].concat();
    file.extend_from_slice(contents);
    file.push(compression);
    let sum = crc32c::crc32c(&[contents, &[compression]].concat());
    file.extend(masked(sum).to_le_bytes());
    place
}

/// Ends a table after its data blocks: an index block with these handles, and the footer.
pub(crate) fn put_index(file: &mut Vec<u8>, places: &[(Vec<u8>, Vec<u8>)]) {
    let meta = put_block(file, &block(&[]), 0);
    let index = put_block(file, &block(places), 0);
    let mut footer = [meta, index].concat();
    footer.resize(40, 0);
    footer.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    file.extend(footer);
}

impl Writer {
    pub(crate) fn new(shards: usize, big_endian: bool) -> Self {
        let version = message(3, &number(1, 1));
        Self {
            header: [
                number(1, shards as u64),
                number(2, u64::from(big_endian)),
                version,
            ]
            .concat(),
            entries: BTreeMap::new(),
            shards: vec![Vec::new(); shards],
            block_bytes: 256 << 10,
            compression: 0,
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], shard: usize, values: Values<'_>) {
        let value = entry(
            values,
            shard,
            self.shards[shard].len(),
            values.bytes.len() as u64,
        );
        self.shards[shard].extend_from_slice(values.bytes);
        self.entries.insert(key.to_vec(), value);
    }

    /// Adds the entry of a whole tensor that is saved in slices.
    pub(crate) fn add_partitioned(
        &mut self,
        name: &str,
        dtype: u64,
        shape: &[usize],
        slices: &[Vec<(usize, usize)>],
    ) {
        let mut value = entry(Values::new(dtype, shape, &[]), 0, 0, 0);
        value.extend(
            slices
                .iter()
                .flat_map(|extents| message(7, &slice(extents))),
        );
        self.entries.insert(name.as_bytes().to_vec(), value);
    }

    pub(crate) fn index(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut places = Vec::new();
        let mut open = Vec::new();
        let header = (Vec::new(), self.header.clone());
        let mut entries = [header].into_iter().chain(self.entries.clone()).peekable();
        while let Some(entry) = entries.next() {
            open.push(entry);
            let contents = block(&open);
            if contents.len() >= self.block_bytes || entries.peek().is_none() {
                let contents = match self.compression {
                    1 => snap::raw::Encoder::new()
                        .compress_vec(&contents)
                        .expect("a small block"),
                    _ => contents,
                };
                let key = open.last().expect("one was pushed").0.clone();
                places.push((key, put_block(&mut file, &contents, self.compression)));
                open.clear();
            }
        }
        put_index(&mut file, &places);
        file
    }

    pub(crate) fn write(&self, prefix: &Path) {
        let prefix = prefix.display();
        std::fs::write(format!("{prefix}.index"), self.index()).expect("an index is written");
        for (shard, bytes) in self.shards.iter().enumerate() {
            let path = format!("{prefix}.data-{shard:05}-of-{:05}", self.shards.len());
            std::fs::write(path, bytes).expect("a data file is written");
        }
    }
}
