//! Pieces: values that are stored contiguously in a data file.

use std::sync::atomic::AtomicBool;

use crate::tensor_bundle::region::Region;

/// A whole tensor, or a slice of a tensor, as it is stored.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Part of the tensor that the piece covers.
    pub(crate) region: Region,
    /// Number of the data file.
    pub(crate) shard: usize,
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    /// Length in the file, in bytes.
    pub(crate) bytes: u64,
    /// The expected checksum, unmasked.
    pub(crate) crc32c: u32,
    /// The bytes were compared with the checksum since the bundle was opened.
    pub(crate) verified: AtomicBool,
}
