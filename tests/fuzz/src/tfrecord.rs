//! Records of TFRecord files and the examples in them. Records are framed here, so that checksums do not stop the search.

use trainyard_input::Format;

/// Reads records as the first byte says.
pub fn run(data: &[u8]) {
    let Some((variant, bytes)) = data.split_first() else {
        return;
    };
    // As they are, or one record of the rest: its checksums are those of an honest writer.
    let framed;
    let bytes = if variant & 64 == 0 {
        bytes
    } else {
        framed = frame(bytes);
        &framed
    };
    crate::rows::read_rows(Format::TfRecord, *variant, bytes);
}

/// CRC-32C, bit by bit: another implementation than the one under test.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
        .to_le_bytes()
}

fn frame(record: &[u8]) -> Vec<u8> {
    let length = (record.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), record, &masked(record)].concat()
}
