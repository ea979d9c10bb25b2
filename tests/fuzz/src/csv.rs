//! Rows of comma and tab separated files.

use trainyard_input::Format;

/// Reads rows as the first byte says.
pub fn run(data: &[u8]) {
    let Some((variant, bytes)) = data.split_first() else {
        return;
    };
    let format = if variant & 64 == 0 {
        Format::Csv
    } else {
        Format::Tsv
    };
    crate::rows::read_rows(format, *variant, bytes);
}
