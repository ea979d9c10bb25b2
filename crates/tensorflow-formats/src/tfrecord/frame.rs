//! Frames of records.

use std::io::Write;

use crate::tfrecord::masked;

/// Bytes before a record: its length and the checksum of the length, both little-endian.
pub const HEADER_BYTES: usize = 12;
/// Bytes after a record: its checksum.
pub const FOOTER_BYTES: usize = 4;

/// Writes a record with its frame.
///
/// # Errors
/// The write to `output` failed.
pub fn write_frame(output: &mut impl Write, record: &[u8]) -> std::io::Result<()> {
    let length = (record.len() as u64).to_le_bytes();
    output.write_all(&length)?;
    output.write_all(&masked(&length).to_le_bytes())?;
    output.write_all(record)?;
    output.write_all(&masked(record).to_le_bytes())
}
