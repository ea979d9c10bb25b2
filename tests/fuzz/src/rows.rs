//! Files of rows, read as training data.

use trainyard_input::{
    BadRows, Compression, Dataset, FieldKind, Format, Fraction, Options, Schema,
};

use crate::scratch;

/// Reads a file as training data, as `variant` says: which bad rows are left out, how it is compressed, how it is shuffled.
pub(crate) fn read_rows(format: Format, variant: u8, bytes: &[u8]) {
    let folder = scratch::folder();
    let path = folder.path().join("rows");
    std::fs::write(&path, bytes).expect("a file");
    let mut schema = Schema::default();
    schema.want(
        "a",
        FieldKind::Float {
            width: 1,
            separator: None,
            default: Some(vec![0.0]),
        },
    );
    schema.want("b", FieldKind::INT);
    schema.want(
        "b",
        FieldKind::Int {
            separator: Some(b'|'),
            fraction: Fraction::Dropped,
        },
    );
    schema.want("c", FieldKind::BYTES);
    schema.want(
        "c",
        FieldKind::Bytes {
            separator: Some(b'|'),
        },
    );
    schema.want("a", FieldKind::Floats { separator: b'|' });
    let compression = [
        Compression::None,
        Compression::None,
        Compression::Gzip,
        Compression::Zlib,
    ];
    let options = Options {
        compression: Some(compression[usize::from(variant & 3)]),
        trim: variant & 4 == 0,
        missing: vec!["NA".to_owned()].into(),
        bad_rows: if variant & 8 == 0 {
            BadRows::Skip
        } else {
            BadRows::Fail
        },
        bad_rows_max: 50,
        batch_size: 3,
        drop_remainder: variant & 16 != 0,
        shuffle_rows: if variant & 32 == 0 { 0 } else { 5 },
        seed: 11,
        skip_batches: u64::from(variant >> 7),
        ..Options::new(vec![path], format)
    };
    let Ok(dataset) = Dataset::open(options, schema) else {
        return;
    };
    for batch in dataset {
        let Ok(batch) = batch else { return };
        assert!(batch.rows > 0 && batch.rows <= 3);
        for column in &batch.columns {
            column
                .rows(batch.rows)
                .for_each(|place| assert!(place.end <= column.cells.len()));
        }
    }
}
