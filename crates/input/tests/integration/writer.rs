//! Writer of TFRecord files with `tf.train.Example` messages.

use std::io::Write as _;

use flate2::write::{GzEncoder, ZlibEncoder};
use trainyard_input::Compression;

/// The values of a feature.
pub(crate) enum Kind<'a> {
    Texts(&'a [&'a [u8]]),
    Floats(&'a [f32]),
    Ints(&'a [i64]),
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// Returns a protobuf field of wire type 2.
pub(crate) fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [
        varint(number << 3 | 2),
        varint(bytes.len() as u64),
        bytes.to_vec(),
    ]
    .concat()
}

/// Returns a `tf.train.Feature`, with packed or unpacked numbers.
pub(crate) fn feature(kind: Kind<'_>, packed: bool) -> Vec<u8> {
    let list = |numbers: Vec<Vec<u8>>, tag: u8| {
        if packed {
            field(1, &numbers.concat())
        } else {
            numbers
                .iter()
                .flat_map(|number| [&[tag], number.as_slice()].concat())
                .collect()
        }
    };
    match kind {
        Kind::Texts(texts) => field(
            1,
            &texts
                .iter()
                .flat_map(|text| field(1, text))
                .collect::<Vec<_>>(),
        ),
        Kind::Floats(numbers) => field(
            2,
            &list(
                numbers
                    .iter()
                    .map(|number| number.to_le_bytes().to_vec())
                    .collect(),
                0x0d,
            ),
        ),
        Kind::Ints(numbers) => field(
            3,
            &list(
                numbers
                    .iter()
                    .map(|number| varint(*number as u64))
                    .collect(),
                0x08,
            ),
        ),
    }
}

/// Returns a `tf.train.Example` of these features.
pub(crate) fn example(features: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entry = |(name, feature): &(&str, Vec<u8>)| {
        field(1, &[field(1, name.as_bytes()), field(2, feature)].concat())
    };
    field(1, &features.iter().flat_map(entry).collect::<Vec<_>>())
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    let crc = crc32c::crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// Returns the header of a record of this length.
pub(crate) fn header(length: u64) -> Vec<u8> {
    [
        length.to_le_bytes().as_slice(),
        &masked(&length.to_le_bytes()),
    ]
    .concat()
}

/// Returns a record with its header and checksum.
pub(crate) fn frame(record: &[u8]) -> Vec<u8> {
    [
        header(record.len() as u64).as_slice(),
        record,
        &masked(record),
    ]
    .concat()
}

pub(crate) fn compress(bytes: &[u8], compression: Compression) -> Vec<u8> {
    let level = flate2::Compression::fast();
    let mut gzip = GzEncoder::new(Vec::new(), level);
    let mut zlib = ZlibEncoder::new(Vec::new(), level);
    match compression {
        Compression::None => return bytes.to_vec(),
        Compression::Gzip => gzip.write_all(bytes).and_then(|()| gzip.finish()),
        Compression::Zlib => zlib.write_all(bytes).and_then(|()| zlib.finish()),
    }
    .expect("memory takes everything")
}

/// A file under construction.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn write(&mut self, record: &[u8]) {
        self.0.extend(frame(record));
    }

    pub(crate) fn finish(self, compression: Compression) -> Vec<u8> {
        compress(&self.0, compression)
    }
}
