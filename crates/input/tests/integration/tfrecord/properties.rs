//! Properties of TFRecord files, for any rows and any bytes.

use proptest::prelude::*;
use trainyard_input::*;

use super::{file, ints, number, numbers, parse, read, schema};
use crate::writer::{Kind, Writer, example, feature};

/// Columns of every kind that both CSV and TFRecord can hold.
fn all_kinds() -> Schema {
    schema(&[
        (
            "float",
            FieldKind::Float {
                width: 1,
                separator: None,
                default: Some(vec![0.5]),
            },
        ),
        (
            "vector",
            FieldKind::Float {
                width: 2,
                separator: Some(b'|'),
                default: Some(vec![1.0, 2.0]),
            },
        ),
        ("int", FieldKind::INT),
        ("text", FieldKind::BYTES),
        ("weights", FieldKind::Floats { separator: b'|' }),
        (
            "ids",
            FieldKind::Int {
                separator: Some(b'|'),
                fraction: Fraction::Refused,
            },
        ),
        (
            "words",
            FieldKind::Bytes {
                separator: Some(b'|'),
            },
        ),
        ("int", FieldKind::FLOAT.clone()),
        ("int", FieldKind::BYTES),
    ])
}

type Row = (
    (Option<f32>, Option<(f32, f32)>, i64, String),
    (Vec<f32>, Vec<i64>, Vec<String>),
);

fn finite() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("finite", |number| number.is_finite())
}

fn row() -> impl Strategy<Value = Row> {
    let lists = (
        prop::collection::vec(finite(), 0..4),
        prop::collection::vec(any::<i64>(), 0..4),
        prop::collection::vec("[a-zA-Z,\" é]{1,9}", 0..4),
    );
    (
        (
            prop::option::of(finite()),
            prop::option::of((finite(), finite())),
            any::<i64>(),
            "[a-z,\"\n é]{0,20}",
        ),
        lists,
    )
}

fn join<T: ToString>(values: &[T]) -> String {
    values
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join("|")
}

proptest! {
    #[test]
    fn tfrecord_and_csv_of_the_same_rows_give_equal_batches(
        rows in prop::collection::vec((row(), any::<bool>(), 0..7_usize), 1..20),
        shuffle_rows in 0..9_usize,
        compression in 0..3_usize,
    ) {
        let compression = [Compression::None, Compression::Gzip, Compression::Zlib][compression];
        let mut csv = "float,vector,int,text,weights,ids,words\n".to_owned();
        let mut writer = Writer::default();
        for (((float, vector, int, text), (weights, ids, words)), packed, turn) in &rows {
            let floats: Vec<f32> = float.iter().copied().collect();
            let pair: Vec<f32> = vector.iter().flat_map(|pair| [pair.0, pair.1]).collect();
            let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            csv.push_str(&format!(
                "{},{},{int},{},{},{},{}\n",
                join(&floats), join(&pair), quoted(text), join(weights), join(ids), quoted(&join(words)),
            ));
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let mut features = vec![
                ("float", feature(Kind::Floats(&floats), *packed)),
                ("vector", feature(Kind::Floats(&pair), *packed)),
                ("int", feature(Kind::Ints(&[*int]), *packed)),
                ("text", feature(Kind::Texts(&[text.as_bytes()]), *packed)),
                ("weights", feature(Kind::Floats(weights), *packed)),
                ("ids", feature(Kind::Ints(ids), *packed)),
                ("words", feature(Kind::Texts(&words), *packed)),
                ("unwanted", feature(Kind::Texts(&[b"?"]), *packed)),
            ];
            // A map has no order, so the features may be in any order.
            features.rotate_left(*turn);
            if *packed {
                features.retain(|(name, bytes)| *name == "int" || bytes.len() > 4 || bytes.is_empty());
            }
            writer.write(&example(&features));
        }
        let (_records, records) = file("rows", &writer.finish(compression));
        let records = Options { compression: Some(compression), shuffle_rows, trim: false, ..records };
        let (_text, text) = file("rows.csv", csv.as_bytes());
        let text = Options { format: Format::Csv, files: text.files, compression: None, ..records.clone() };
        let records = read(records, all_kinds());
        let text = read(text, all_kinds());
        prop_assert!(records.is_ok(), "{:?}", records);
        prop_assert_eq!(records, text);
    }

    /// Bits of the file are flipped, and the file may be cut. Every record that is read was written.
    #[test]
    fn damage_is_told_and_what_is_read_was_written(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..4),
        compression in 0..3_usize,
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let compression = [Compression::None, Compression::Gzip, Compression::Zlib][compression];
        let mut writer = Writer::default();
        let all: Vec<i64> = (0..30).map(|n| n * 1_000_003).collect();
        all.iter().for_each(|n| writer.write(&number(*n)));
        let good = writer.finish(compression);
        let mut bytes = good.clone();
        for (place, bit) in &flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let (_folder, options) = file("t", &bytes);
        let skip = Options { bad_rows: BadRows::Skip, compression: Some(compression), ..options.clone() };
        let strict = Options { compression: Some(compression), ..options };
        // If the whole file is lost, no record is read.
        let kept = ints(&read(skip, numbers()).unwrap_or_default());
        let mut written = all.iter();
        prop_assert!(kept.iter().all(|n| written.any(|other| other == n)), "{:?}", kept);
        let whole = read(strict, numbers()).map(|batches| ints(&batches));
        let cut_between = compression == Compression::None && good.starts_with(&bytes);
        // A change of a meaningless bit of a header, such as gzip's time, goes undetected.
        prop_assert!(whole.is_err() || whole == Ok(all) || cut_between, "{:?}", whole);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), name in 0..3_usize) {
        let (_folder, options) = file(["t", "t.gz", "t.zz"][name], &bytes);
        let outcome = read(options, all_kinds());
        prop_assert!(bytes.is_empty() || outcome.is_err());
    }

    /// The checksums are right, so the message is parsed.
    #[test]
    fn any_message_is_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        drop(parse(&bytes, all_kinds()));
        let mut record = example(&[
            ("int", feature(Kind::Ints(&[1 << 40]), true)),
            ("text", feature(Kind::Texts(&[b"some text"]), true)),
            ("weights", feature(Kind::Floats(&[1.0, 2.0]), false)),
        ]);
        for (place, byte) in flips {
            let place = place.index(record.len());
            record[place] = byte;
        }
        if let Ok(batch) = parse(&record, all_kinds()) {
            prop_assert_eq!(batch.rows, 1);
            for column in &batch.columns {
                prop_assert_eq!(column.row(0, 1).end, column.cells.len());
            }
        }
    }
}
