//! Damaged files cause an error, but never a panic, a large allocation or wrong values.

use std::path::Path;

use proptest::prelude::*;
use trainyard_tensorflow_formats::tensor_bundle::{Bundle, Error, Tensor};

use crate::golden::recorded;
use crate::memory;
use crate::writer::masked;

const PREFIXES: [&str; 2] = ["model.ckpt-30", "mixed.ckpt-7"];
const DATA: &str = "data-00000-of-00001";

fn file(prefix: &str, ending: &str) -> Vec<u8> {
    std::fs::read(recorded().join(format!("{prefix}.{ending}"))).expect("a recorded file")
}

/// Reads everything, also all rows as floats if there are few.
fn read_all(prefix: &Path) -> Result<Vec<Tensor>, Error> {
    let bundle = Bundle::open(prefix)?;
    for info in bundle.tensors() {
        if info.rows() <= 100 && info.row_width() <= 100 {
            let mut out = vec![0.0; info.rows() * info.row_width()];
            let _ = bundle.read_f32_rows(&info.name, 0..info.rows(), &mut out);
        }
    }
    // All tensors are read before the first error is returned.
    let all: Vec<_> = bundle
        .tensors()
        .map(|info| bundle.read(&info.name))
        .collect();
    all.into_iter().collect()
}

fn read_bytes(index: &[u8], data: &[u8]) -> Result<Vec<Tensor>, Error> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("m.index"), index).expect("an index is written");
    std::fs::write(folder.path().join(format!("m.{DATA}")), data).expect("a data file is written");
    read_all(&folder.path().join("m"))
}

/// Changes one byte, or truncates the file.
fn damage(bytes: &mut Vec<u8>, at: f64, change: Option<u8>) {
    let place = (at * bytes.len() as f64) as usize;
    match change {
        Some(bits) => bytes[place] ^= bits,
        None => bytes.truncate(place),
    }
}

/// Recomputes the checksums of a recorded index: one block of entries, the empty meta block, the index block.
fn seal(index: &mut [u8], pristine: &[u8]) {
    let number = |place: &mut usize| {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = pristine[*place];
            *place += 1;
            value |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    };
    let mut footer = pristine.len() - 48;
    let [meta, meta_bytes, points, points_bytes] = [(); 4].map(|()| number(&mut footer));
    for (begin, end) in [
        (0, meta - 5),
        (meta, meta + meta_bytes),
        (points, points + points_bytes),
    ] {
        let sum = masked(crc32c::crc32c(&index[begin..=end]));
        index[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_changed_or_cut_index_is_an_error_or_means_the_same(
        prefix in prop::sample::select(PREFIXES.to_vec()),
        at in 0.0_f64..1.0,
        change in prop::option::weighted(0.8, 1_u8..),
    ) {
        memory::limit();
        let mut index = file(prefix, "index");
        let data = file(prefix, DATA);
        let whole = read_bytes(&index, &data).expect("the recorded checkpoint is whole");
        damage(&mut index, at, change);
        if let Ok(found) = read_bytes(&index, &data) {
            prop_assert_eq!(found, whole);
        }
    }

    #[test]
    fn changed_or_cut_data_is_an_error(
        prefix in prop::sample::select(PREFIXES.to_vec()),
        at in 0.0_f64..1.0,
        change in prop::option::weighted(0.8, 1_u8..),
    ) {
        memory::limit();
        let index = file(prefix, "index");
        let mut data = file(prefix, DATA);
        damage(&mut data, at, change);
        prop_assert!(read_bytes(&index, &data).is_err());
    }

    /// With correct checksums, a changed index reaches the code that parses the contents of blocks.
    #[test]
    fn an_index_changed_under_right_checksums_is_read_or_an_error(
        prefix in prop::sample::select(PREFIXES.to_vec()),
        changes in prop::collection::vec((0.0_f64..1.0, any::<u8>()), 1..5),
    ) {
        memory::limit();
        let pristine = file(prefix, "index");
        let data = file(prefix, DATA);
        let mut index = pristine.clone();
        for (at, byte) in changes {
            let place = (at * (pristine.len() - 48) as f64) as usize;
            index[place] = byte;
        }
        seal(&mut index, &pristine);
        let _ = read_bytes(&index, &data);
    }

    #[test]
    fn any_bytes_are_no_checkpoint(index in prop::collection::vec(any::<u8>(), 0..400)) {
        memory::limit();
        prop_assert!(read_bytes(&index, &[]).is_err());
    }
}
