//! Content of `tf.train.Example` messages.

use trainyard_input::*;

use super::{number, numbers, parse, schema};
use crate::writer::{Kind, example, feature, field};

#[test]
fn packed_and_unpacked_values_are_the_same() {
    let wanted = schema(&[
        (
            "i",
            FieldKind::Int {
                separator: Some(b'|'),
                fraction: Fraction::Refused,
            },
        ),
        ("f", FieldKind::Floats { separator: b'|' }),
    ]);
    let record = |packed| {
        let ints = feature(Kind::Ints(&[5, -6, i64::MAX, i64::MIN, 300]), packed);
        example(&[
            ("i", ints),
            ("f", feature(Kind::Floats(&[1.5, -2.0]), packed)),
        ])
    };
    let packed = parse(&record(true), wanted.clone());
    let apart = parse(&record(false), wanted);
    let batch = packed.clone().expect("a batch");
    assert_eq!(packed, apart);
    assert_eq!(
        batch.columns[0].cells,
        Cells::Int(vec![5, -6, i64::MAX, i64::MIN, 300])
    );
    assert_eq!(batch.columns[1].cells, Cells::Float(vec![1.5, -2.0]));
    assert_eq!(batch.columns[1].offsets, Some(vec![0, 2]));
}

#[test]
fn missing_features_are_defaults_and_nothing() {
    let wanted = schema(&[
        (
            "f",
            FieldKind::Float {
                width: 2,
                separator: Some(b'|'),
                default: Some(vec![3.0, 4.0]),
            },
        ),
        ("i", FieldKind::INT),
        ("t", FieldKind::BYTES),
        (
            "ts",
            FieldKind::Bytes {
                separator: Some(b'|'),
            },
        ),
    ]);
    let empty = example(&[
        ("f", feature(Kind::Floats(&[]), true)),
        ("i", feature(Kind::Ints(&[]), true)),
        ("t", feature(Kind::Texts(&[]), true)),
        ("ts", Vec::new()),
    ]);
    let batch = parse(&example(&[]), wanted.clone()).expect("a batch");
    assert_eq!(batch.columns[0], Column::floats(vec![3.0, 4.0]));
    assert_eq!(batch.columns[1], Column::ints(vec![-1]));
    let mut one = Bytes::default();
    one.push(b"");
    assert_eq!(batch.columns[2], Column::bytes(one));
    let none = Column {
        cells: Cells::Bytes(Bytes::default()),
        offsets: Some(vec![0, 0]),
    };
    assert_eq!(batch.columns[3], none);
    assert_eq!(
        parse(&empty, wanted.clone()),
        Ok(batch.clone()),
        "an empty list is a missing feature"
    );
    assert_eq!(
        parse(b"", wanted.clone()),
        Ok(batch),
        "so is an Example without a byte"
    );
    let error = parse(b"", schema(&[("f", FieldKind::FLOAT)])).expect_err("no default");
    assert!(
        error.contains("column `f`: the value is missing and has no default"),
        "{error}"
    );
}

#[test]
fn whole_numbers_serve_as_floats_and_texts_but_nothing_else_is_taken_for_another_kind() {
    let record = example(&[
        ("i", feature(Kind::Ints(&[-12]), true)),
        ("f", feature(Kind::Floats(&[1.75]), true)),
        ("t", feature(Kind::Texts(&[b"x"]), true)),
    ]);
    let empty = example(&[
        ("f", feature(Kind::Floats(&[]), true)),
        ("t", feature(Kind::Texts(&[]), true)),
    ]);
    let truncated = FieldKind::Int {
        separator: None,
        fraction: Fraction::Dropped,
    };
    let wanted = schema(&[
        ("i", FieldKind::FLOAT),
        ("i", FieldKind::BYTES),
        ("f", truncated),
    ]);
    let batch = parse(&record, wanted).expect("a batch");
    assert_eq!(batch.columns[0], Column::floats(vec![-12.0]));
    assert!(matches!(&batch.columns[1].cells, Cells::Bytes(texts) if texts.get(0) == b"-12"));
    assert_eq!(batch.columns[2], Column::ints(vec![1]));
    for (name, kind, expected) in [
        (
            "f",
            FieldKind::INT,
            "column `f`: the feature must be an int64_list, given a float_list",
        ),
        (
            "f",
            FieldKind::BYTES,
            "must be a bytes_list or int64_list, given a float_list",
        ),
        (
            "t",
            FieldKind::FLOAT,
            "must be a float_list or int64_list, given a bytes_list",
        ),
        (
            "t",
            FieldKind::INT,
            "must be an int64_list, given a bytes_list",
        ),
    ] {
        // Also without a value, as in TensorFlow.
        for record in [&record, &empty] {
            let error = parse(record, schema(&[(name, kind.clone())])).expect_err("another kind");
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn a_feature_holds_as_many_values_as_its_column() {
    let record = example(&[
        ("i", feature(Kind::Ints(&[1, 2]), true)),
        ("f", feature(Kind::Floats(&[1.0, f32::INFINITY]), true)),
    ]);
    for (name, kind, expected) in [
        (
            "i",
            FieldKind::INT,
            "column `i`: the feature must hold 1 value, given 2",
        ),
        (
            "i",
            FieldKind::Float {
                width: 3,
                separator: Some(b'|'),
                default: None,
            },
            "column `i`: the feature must hold 3 values, given 2",
        ),
        (
            "f",
            FieldKind::Floats { separator: b'|' },
            "column `f`: inf is not a finite number",
        ),
    ] {
        let error = parse(&record, schema(&[(name, kind)])).expect_err("another number of values");
        assert!(error.contains(expected), "{error}");
    }
}

/// Protobuf allows split messages, repeated keys and unknown fields. Its encoding defines the result.
#[test]
fn the_last_of_equal_names_counts_and_parts_are_joined() {
    let one = feature(Kind::Ints(&[1]), true);
    let two = feature(Kind::Ints(&[2, 3]), true);
    let texts = feature(Kind::Texts(&[b"x"]), true);
    let ragged = || {
        schema(&[(
            "n",
            FieldKind::Int {
                separator: Some(b'|'),
                fraction: Fraction::Refused,
            },
        )])
    };
    let values =
        |record: &[u8]| parse(record, ragged()).map(|batch| batch.columns[0].cells.clone());
    let both = |kinds: &[&[u8]]| {
        let mut entry = field(1, b"n");
        kinds.iter().for_each(|kind| entry.extend(field(2, kind)));
        field(1, &field(1, &entry))
    };
    let twice = example(&[
        ("n", one.clone()),
        ("other", one.clone()),
        ("n", two.clone()),
    ]);
    assert_eq!(
        values(&twice),
        Ok(Cells::Int(vec![2, 3])),
        "the last entry counts"
    );
    assert_eq!(
        values(&both(&[&one, &two])),
        Ok(Cells::Int(vec![1, 2, 3])),
        "parts of a message are joined"
    );
    assert_eq!(
        values(&both(&[&texts, &two])),
        Ok(Cells::Int(vec![2, 3])),
        "the last kind that is set counts"
    );
    let parts = [
        example(&[("n", one.clone())]),
        example(&[("m", one.clone())]),
    ]
    .concat();
    assert_eq!(
        values(&parts),
        Ok(Cells::Int(vec![1])),
        "so are parts of the features"
    );
    let unknown = [
        vec![0x10, 5, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x25, 1, 2, 3, 4],
        field(9, b"?"),
        number(7),
    ]
    .concat();
    assert_eq!(
        values(&unknown),
        Ok(Cells::Int(vec![7])),
        "unknown fields are passed over"
    );
}

#[test]
fn what_is_no_example_is_told_with_its_byte() {
    for (record, expected) in [
        (
            b"\x07 not an example".as_slice(),
            "expected a field number above 0 before this at byte 1 of its 16",
        ),
        (
            &[0x0a, 5, 0x0a],
            "expected as many bytes as the length before says at byte 2 of its 3, found byte 0x0a",
        ),
        (
            &[0x08, 1],
            "expected a message `features` before this at byte 2 of its 2, found the end",
        ),
        (
            &[0x0b],
            "expected a field of wire type 0, 1, 2 or 5 before this at byte 1",
        ),
    ] {
        let error = parse(record, numbers()).expect_err("not an Example");
        assert!(
            error.contains("one.tfrecord: record 1 at byte 0: the record is no tf.train.Example: "),
            "{error}"
        );
        assert!(error.contains(expected), "{error}");
    }
}
