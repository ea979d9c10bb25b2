//! Values that lie in one place of one data file.

use std::sync::atomic::AtomicBool;

use crate::region::Region;

/// A whole tensor or a slice of one, as it is stored.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The part of the tensor that it is.
    pub(crate) region: Region,
    /// Number of the data file.
    pub(crate) shard: usize,
    /// Where it begins in the file, in bytes.
    pub(crate) offset: u64,
    /// Its length in the file.
    pub(crate) bytes: u64,
    /// The expected checksum, unmasked.
    pub(crate) crc32c: u32,
    /// Whether its bytes were compared with the checksum since the bundle was opened.
    pub(crate) verified: AtomicBool,
}
