//! Encoder of the rows that [`crate::row`] decodes.

use crate::row::{FLOAT, INT, LIST, MISSING, TEXT};

/// Appends a cell without a value.
#[inline]
pub(crate) fn put_missing(row: &mut Vec<u8>) {
    row.push(MISSING);
}

/// Appends a whole number.
#[inline]
pub(crate) fn put_int(row: &mut Vec<u8>, number: i64) {
    let mut cell = [INT; 9];
    cell[1..].copy_from_slice(&number.to_le_bytes());
    row.extend_from_slice(&cell);
}

/// Appends a float.
#[inline]
pub(crate) fn put_float(row: &mut Vec<u8>, number: f64) {
    let mut cell = [FLOAT; 9];
    cell[1..].copy_from_slice(&number.to_le_bytes());
    row.extend_from_slice(&cell);
}

/// Appends a text.
///
/// # Panics
/// The text has 4 GiB or more. Texts of Parquet files are shorter.
#[inline]
pub(crate) fn put_text(row: &mut Vec<u8>, text: &[u8]) {
    row.push(TEXT);
    row.extend_from_slice(
        &u32::try_from(text.len())
            .expect("a text is under 4 GiB")
            .to_le_bytes(),
    );
    row.extend_from_slice(text);
}

/// Appends the head of a list. The caller appends as many cells.
#[inline]
pub(crate) fn put_list(row: &mut Vec<u8>, cells: usize) {
    row.push(LIST);
    row.extend_from_slice(&u32::try_from(cells).unwrap_or(u32::MAX).to_le_bytes());
}
