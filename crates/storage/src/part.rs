//! Parts of a local file, as they are uploaded.

use std::os::unix::fs::FileExt as _;

use bytes::Bytes;

/// Bytes of a part of a large object. Stores require at least 5 MiB. A smaller object is written by one request.
pub(crate) const PART_BYTES: u64 = 16 << 20;

/// Reads a part of a local file.
pub(crate) fn part(file: &std::fs::File, begin: u64, bytes: u64) -> std::io::Result<Bytes> {
    let mut out = vec![0; bytes as usize];
    file.read_exact_at(&mut out, begin)?;
    Ok(out.into())
}
