//! Checkpoints written in any form are read back.

use std::ops::Range;

use proptest::prelude::*;
use trainyard_tensorflow_formats::tensor_bundle::{Bundle, Values};

use crate::writer::{self, Writer, slice_key};

/// Numbers of types in TensorFlow, and their widths.
const WIDTHS: [(u64, usize); 8] = [
    (1, 4),
    (2, 8),
    (3, 4),
    (9, 8),
    (4, 1),
    (10, 1),
    (14, 2),
    (19, 2),
];

/// Returns the parts of a tensor that is cut at these positions of each dimension.
fn parts(shape: &[usize], cuts: &[Vec<usize>]) -> Vec<Vec<(usize, usize)>> {
    let mut out = vec![Vec::new()];
    for (&length, cuts) in shape.iter().zip(cuts) {
        let mut places: Vec<usize> = cuts
            .iter()
            .map(|cut| cut % length)
            .chain([0, length])
            .collect();
        places.sort_unstable();
        places.dedup();
        let extents = places.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
        let extents: Vec<_> = extents.collect();
        out = out
            .into_iter()
            .flat_map(|front: Vec<_>| {
                extents
                    .iter()
                    .map(move |&extent| [front.clone(), vec![extent]].concat())
            })
            .collect();
    }
    out
}

/// Returns whether an element lies in a part.
fn inside(mut element: usize, shape: &[usize], part: &[(usize, usize)]) -> bool {
    shape
        .iter()
        .zip(part)
        .rev()
        .all(|(&length, &(start, long))| {
            let index = element % length;
            element /= length;
            (start..start + long).contains(&index)
        })
}

fn stored(bits: u64, width: usize, big_endian: bool) -> Vec<u8> {
    let mut bytes = bits.to_le_bytes()[..width].to_vec();
    if big_endian {
        bytes.reverse();
    }
    bytes
}

/// Returns the values as exact `f64`, for any type.
fn wide(values: &Values) -> Vec<f64> {
    match values {
        Values::F32(values) | Values::Bf16(values) | Values::F16(values) => {
            values.iter().map(|&value| value.into()).collect()
        }
        Values::F64(values) => values.clone(),
        Values::I32(values) => values.iter().map(|&value| value.into()).collect(),
        Values::I64(values) => values.iter().map(|&value| value as f64).collect(),
        Values::U8(values) => values.iter().map(|&value| value.into()).collect(),
        Values::Bool(values) => values
            .iter()
            .map(|&value| f64::from(u8::from(value)))
            .collect(),
        Values::Strings(_) => panic!("no strings were written"),
    }
}

/// Returns the bits of a small natural number in a type, and its value.
fn bits(dtype: u64, value: u8) -> (u64, f64) {
    let real = f32::from(value);
    match dtype {
        1 => (real.to_bits().into(), real.into()),
        2 => (f64::from(real).to_bits(), real.into()),
        10 => (u64::from(value % 2), f64::from(value % 2)),
        14 => (u64::from(real.to_bits() >> 16), real.into()),
        // Subnormal halves are multiples of 2^-24.
        19 => (value.into(), f64::from(value) / 16_777_216.0),
        _ => (value.into(), real.into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_partition_type_order_and_compression_is_read_back(
        shape in prop::collection::vec(1_usize..9, 1..4),
        cuts in prop::collection::vec(prop::collection::vec(0_usize..9, 0..3), 3),
        (dtype, width) in prop::sample::select(WIDTHS.to_vec()),
        (big_endian, compressed) in any::<(bool, bool)>(),
        shards in 1_usize..4,
        block_bytes in 1_usize..400,
        rows in any::<(usize, usize)>(),
    ) {
        let elements: usize = shape.iter().product();
        let values: Vec<(u64, f64)> = (0..elements).map(|element| bits(dtype, (element % 251) as u8)).collect();
        let mut file = Writer { block_bytes, compression: u8::from(compressed), ..Writer::new(shards, big_endian) };
        let parts = parts(&shape, &cuts);
        file.add_partitioned("a/table", dtype, &shape, &parts);
        for (number, part) in parts.iter().enumerate() {
            let own = (0..elements).filter(|&element| inside(element, &shape, part));
            let bytes: Vec<u8> = own.flat_map(|element| stored(values[element].0, width, big_endian)).collect();
            let lengths: Vec<usize> = part.iter().map(|(_, length)| *length).collect();
            file.add(&slice_key("a/table", part), number % shards, writer::Values::new(dtype, &lengths, &bytes));
        }
        let bytes: Vec<u8> = values.iter().flat_map(|(bits, _)| stored(*bits, width, big_endian)).collect();
        file.add(b"a/whole", shards - 1, writer::Values::new(dtype, &shape, &bytes));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let prefix = folder.path().join("model.ckpt-1");
        file.write(&prefix);

        let bundle = Bundle::open(&prefix).expect("it is whole");
        prop_assert_eq!(bundle.tensor("a/table").map(|info| info.slices), Some(parts.len()));
        let expected: Vec<f64> = values.iter().map(|(_, real)| *real).collect();
        let row_width = elements / shape[0];
        let begin = rows.0 % (shape[0] + 1);
        let end = begin + rows.1 % (shape[0] - begin + 1);
        // Rows come first, because the first read of rows compares the checksum.
        for name in ["a/table", "a/whole"] {
            if matches!(dtype, 1 | 2 | 14 | 19) {
                for Range { start, end } in [begin..end, 0..shape[0], begin..end] {
                    let mut out = vec![f32::NAN; (end - start) * row_width];
                    bundle.read_f32_rows(name, start..end, &mut out).expect("rows are read");
                    let out: Vec<f64> = out.into_iter().map(f64::from).collect();
                    prop_assert_eq!(&out, &expected[start * row_width..end * row_width]);
                }
            }
            let tensor = bundle.read(name).expect("it is read");
            prop_assert_eq!(tensor.values.len(), elements);
            prop_assert_eq!(&wide(&tensor.values), &expected);
        }
    }

    #[test]
    fn strings_are_read_back(
        strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
        big_endian in any::<bool>(),
    ) {
        let four = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let lengths: Vec<u8> = strings.iter().flat_map(|text| four(text.len() as u32)).collect();
        let checksum = four(writer::masked(crc32c::crc32c(&lengths)));
        let contents = [&checksum[..], &strings.concat()].concat();
        let mut bytes: Vec<u8> = strings.iter().flat_map(|text| writer::varint(text.len() as u64)).collect();
        bytes.extend_from_slice(&contents);
        let shape = [strings.len()];
        let mut values = writer::Values::new(7, &shape, &bytes);
        values.crc32c = crc32c::crc32c(&[lengths, contents].concat());
        let mut file = Writer::new(1, big_endian);
        file.add(b"words", 0, values);
        let folder = tempfile::tempdir().expect("a temporary folder");
        file.write(&folder.path().join("words"));
        let tensor = Bundle::open(&folder.path().join("words")).and_then(|bundle| bundle.read("words"));
        prop_assert_eq!(tensor.expect("it is whole").values, Values::Strings(strings));
    }
}

/// A file of several chunks, whose length is no multiple of a row or an element.
#[test]
fn a_table_of_several_chunks_is_read_part_by_part() {
    let rows = 70_001;
    let width = 7;
    let values: Vec<f32> = (0..rows * width).map(|place| place as f32).collect();
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let mut file = Writer::new(1, false);
    file.add(b"front", 0, writer::Values::new(4, &[3], &[1, 2, 3]));
    file.add(
        b"table",
        0,
        writer::Values::new(writer::FLOAT, &[rows, width], &bytes),
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    file.write(&folder.path().join("large"));
    let bundle = Bundle::open(&folder.path().join("large")).expect("it is whole");
    for rows in [37_400..37_500, 0..70_001, 37_400..70_001, 70_000..70_001] {
        let mut out = vec![0.0; rows.len() * width];
        bundle
            .read_f32_rows("table", rows.clone(), &mut out)
            .expect("rows are read");
        assert!(
            out == values[rows.start * width..rows.end * width],
            "{rows:?}"
        );
    }
}
