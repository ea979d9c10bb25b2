//! Sorted tables, the format of index files: blocks of entries, an index block and a footer.
//!
//! The format is that of `tensorflow/core/lib/io/table` (LevelDB's). A block is followed by a byte for its compression,
//! and by the masked crc32c of both.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use crate::tfrecord::unmasked;

use crate::tensor_bundle::Error;
use crate::tensor_bundle::block::Entries;
use crate::tensor_bundle::cursor::Cursor;

/// The last eight bytes of a table.
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Bytes of the footer: two handles, padding, magic number.
pub(crate) const FOOTER_BYTES: usize = 48;
/// Bytes after a block: compression, checksum.
const TRAILER_BYTES: usize = 5;
/// Largest block after decompression, in bytes. TensorFlow begins a new block after 256 KiB.
const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// Most entries: tensors and slices together.
const ENTRIES_MAX: u64 = 1 << 20;
/// Most bytes of all keys and values, with keys restored and blocks decompressed.
const TABLE_BYTES_MAX: u64 = 512 << 20;

pub(crate) const NO_COMPRESSION: u8 = 0;
const SNAPPY_COMPRESSION: u8 = 1;

/// Location of a block.
#[derive(Debug, Clone, Copy)]
struct Handle {
    offset: u64,
    bytes: u64,
}

impl Handle {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        Some(Self {
            offset: cursor.varint()?,
            bytes: cursor.varint()?,
        })
    }
}

/// Returns the entries of a table.
///
/// # Errors
/// A checksum or length is wrong, keys are not in order, or a limit is exceeded.
pub(crate) fn entries(path: &Path, file: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let damaged = |what: String| Error::damaged(path, what);
    let Some((blocks, footer)) = file.split_last_chunk::<FOOTER_BYTES>() else {
        return Err(damaged(format!(
            "{} bytes, expected at least a footer of {FOOTER_BYTES}",
            file.len()
        )));
    };
    let index = index_handle(footer).map_err(damaged)?;
    let index = block(path, blocks, index)?;
    let mut index = Entries::new(&index).map_err(damaged)?;
    let mut out = BTreeMap::new();
    let mut bytes = 0;
    while let Some((_, value)) = index.step().map_err(damaged)? {
        let Some(handle) = Handle::read(&mut Cursor::new(value)) else {
            return Err(damaged("the place of a block is cut off".to_owned()));
        };
        let contents = block(path, blocks, handle)?;
        let mut entries = Entries::new(&contents).map_err(damaged)?;
        let before = out.len();
        while let Some((key, value)) = entries.step().map_err(damaged)? {
            if out
                .last_key_value()
                .is_some_and(|(last, _): (&Vec<u8>, _)| last.as_slice() >= key)
            {
                return Err(damaged(format!(
                    "key {} of the block at byte {} is not above the key before",
                    out.len(),
                    handle.offset
                )));
            }
            bytes += (key.len() + value.len()) as u64;
            Error::check_limit(
                path,
                "the size of all keys and entries in bytes",
                bytes,
                TABLE_BYTES_MAX,
            )?;
            Error::check_limit(
                path,
                "the number of entries",
                out.len() as u64 + 1,
                ENTRIES_MAX,
            )?;
            out.insert(key.to_vec(), value.to_vec());
        }
        // This also bounds the work: keys must ascend, so no block with entries can be referenced twice.
        if out.len() == before {
            return Err(damaged(format!(
                "the block at byte {} has no entries",
                handle.offset
            )));
        }
    }
    Ok(out)
}

fn index_handle(footer: &[u8; FOOTER_BYTES]) -> Result<Handle, String> {
    let (handles, magic) = footer.split_last_chunk().unwrap_or((footer, &[0; 8]));
    let magic = u64::from_le_bytes(*magic);
    if magic != MAGIC {
        return Err(format!(
            "its last 8 bytes are {magic:016x}, expected {MAGIC:016x}, so it is no index of a V2 checkpoint or is cut off"
        ));
    }
    let mut cursor = Cursor::new(handles);
    let read = Handle::read(&mut cursor).and_then(|_meta| Handle::read(&mut cursor));
    read.ok_or_else(|| "the footer does not say where the index block lies".to_owned())
}

/// Returns the contents of a block, verified and decompressed.
fn block<'a>(path: &Path, blocks: &'a [u8], handle: Handle) -> Result<Cow<'a, [u8]>, Error> {
    let Handle { offset, bytes } = handle;
    let mut cursor = Cursor::new(blocks);
    let found = cursor
        .take(offset)
        .and_then(|_| cursor.take(bytes))
        .zip(cursor.take(TRAILER_BYTES as u64));
    let Some((contents, &[compression, ref stored @ ..])) = found else {
        return Err(Error::damaged(
            path,
            format!(
                "a block of {bytes} bytes at byte {offset} does not fit into the {} bytes of blocks",
                blocks.len()
            ),
        ));
    };
    let expected = unmasked(Cursor::new(stored).four().map_or(0, u32::from_le_bytes));
    let found = crc32c::crc32c_append(crc32c::crc32c(contents), &[compression]);
    if found != expected {
        let what = format!("the block of {bytes} bytes");
        return Err(Error::Checksum {
            path: path.to_owned(),
            what,
            offset,
            expected,
            found,
        });
    }
    match compression {
        NO_COMPRESSION => {
            Error::check_limit(path, "the size of a block in bytes", bytes, BLOCK_BYTES_MAX)?;
            Ok(Cow::Borrowed(contents))
        }
        SNAPPY_COMPRESSION => decompress(path, contents, offset).map(Cow::Owned),
        other => Err(Error::unsupported(
            path,
            format!(
                "the block at byte {offset} has compression {other}, read are 0 (none) and 1 (snappy)"
            ),
        )),
    }
}

fn decompress(path: &Path, contents: &[u8], offset: u64) -> Result<Vec<u8>, Error> {
    let damaged =
        |error: snap::Error| Error::damaged(path, format!("the block at byte {offset}: {error}"));
    let length = snap::raw::decompress_len(contents).map_err(damaged)?;
    Error::check_limit(
        path,
        "the size of a decompressed block in bytes",
        length as u64,
        BLOCK_BYTES_MAX,
    )?;
    snap::raw::Decoder::new()
        .decompress_vec(contents)
        .map_err(damaged)
}
