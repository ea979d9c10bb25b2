//! Order, sharding and damage of TFRecord files.

use trainyard_diagnostic::Diagnostic;
use trainyard_input::*;

use super::{file, ints, number, numbers, options, read, schema};
use crate::writer::{self, Kind, Writer, example, feature, frame};

#[test]
fn shuffle_shards_and_skipping_work_as_for_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let mut text = Vec::new();
    let mut records = Vec::new();
    let mut next = 0;
    for file in 0..3 {
        let mut lines = "n\n".to_owned();
        let mut writer = Writer::default();
        for _ in 0..20 {
            lines.push_str(&format!("{next}\n"));
            writer.write(&number(next));
            next += 1;
        }
        text.push(path(&format!("{file}.csv")));
        std::fs::write(&text[file], lines).expect("a file is written");
        // The extension of each name selects one of the three compressions.
        records.push(path(
            ["0.tfrecord", "1.tfrecord.gz", "2.tfrecord.zlib"][file],
        ));
        std::fs::write(
            &records[file],
            writer.finish(Compression::of(&records[file])),
        )
        .expect("a file is written");
    }
    for (shuffle_rows, sharding, skip_batches) in [
        (0, Sharding::Row, 0),
        (10, Sharding::Row, 3),
        (10, Sharding::File, 1),
        (7, Sharding::None, 5),
    ] {
        let options = Options {
            shuffle_rows,
            sharding,
            skip_batches,
            shard_index: 1,
            shard_count: 2,
            epochs: Some(3),
            ..options(records.clone())
        };
        let text = Options {
            files: text.clone(),
            format: Format::Csv,
            ..options.clone()
        };
        let read_records = read(options, numbers()).expect("batches");
        assert!(read_records.len() > 5);
        assert_eq!(
            read_records,
            read(text, numbers()).expect("batches"),
            "{shuffle_rows} {sharding:?}"
        );
    }
}

type Edit = fn(&mut Vec<u8>, usize);

/// Writes a file of the numbers 0 to 4. `edit` breaks the third record; its second argument is the offset of that
/// record.
fn broken(edit: impl FnOnce(&mut Vec<u8>, usize)) -> (tempfile::TempDir, Options) {
    let mut bytes: Vec<u8> = (0..5).flat_map(|n| frame(&number(n))).collect();
    let third = bytes.len() / 5 * 2;
    edit(&mut bytes, third);
    file("broken.tfrecord", &bytes)
}

#[test]
fn a_broken_record_is_left_out_and_the_next_one_read() {
    let (folder, options) = broken(|bytes, third| bytes[third + 14] ^= 1);
    let error = read(options.clone(), numbers()).expect_err("a checksum is wrong");
    let text = Diagnostic::from(error).render();
    assert!(text.contains("broken.tfrecord: record 3 at byte 60: the checksum of the record's 14 bytes is wrong: expected 0x"), "{text}");
    let dead_letter = Some(folder.path().join("dead.jsonl"));
    let skip = Options {
        bad_rows: BadRows::Skip,
        dead_letter,
        epochs: Some(2),
        ..options
    };
    assert_eq!(
        ints(&read(skip, numbers()).expect("batches")),
        [0, 1, 3, 4, 0, 1, 3, 4]
    );
    let letters =
        std::fs::read_to_string(folder.path().join("dead.jsonl")).expect("the dead letters");
    assert_eq!(letters.lines().count(), 1, "{letters}");
    assert!(
        letters.contains("\"record\":3") && letters.contains("\"offset\":60"),
        "{letters}"
    );
}

#[test]
fn where_the_length_is_lost_so_is_the_rest_of_the_file() {
    let cases: [(&str, Edit); 4] = [
        (
            "the checksum of the record's length is wrong: expected 0x",
            |bytes, third| bytes[third] ^= 1,
        ),
        (
            "the record is cut short: expected a header of 12 bytes, found 11",
            |bytes, third| bytes.truncate(third + 11),
        ),
        (
            "the record is cut short: expected 14 bytes and a checksum of 4, found 17",
            |bytes, third| {
                bytes.truncate(third + 29);
            },
        ),
        (
            "the record is too long: expected at most 268435456 bytes, found 1152921504606846976",
            |bytes, third| {
                let header = writer::header(1 << 60);
                bytes[third..third + 12].copy_from_slice(&header);
            },
        ),
    ];
    for (expected, edit) in cases {
        let (_folder, options) = broken(edit);
        let text =
            Diagnostic::from(read(options.clone(), numbers()).expect_err("a record is lost"))
                .render();
        assert!(
            text.contains("broken.tfrecord: record 3 at byte 60: "),
            "{text}"
        );
        assert!(
            text.contains(expected) && text.contains("; the rest of the file is not read"),
            "{text}"
        );
        let skip = Options {
            bad_rows: BadRows::Skip,
            ..options
        };
        assert_eq!(
            ints(&read(skip.clone(), numbers()).expect("batches")),
            [0, 1]
        );
        let of = |shard_index| {
            let shard = Options {
                sharding: Sharding::Row,
                shard_index,
                shard_count: 2,
                ..skip.clone()
            };
            let mut dataset = Dataset::open(shard, numbers()).expect("opens");
            let statistics = dataset.statistics();
            let rows = ints(
                &dataset
                    .by_ref()
                    .map(|batch| batch.expect("a batch"))
                    .collect::<Vec<_>>(),
            );
            (
                rows,
                statistics
                    .rows_skipped
                    .load(std::sync::atomic::Ordering::Relaxed),
            )
        };
        assert_eq!(
            (of(0), of(1)),
            ((vec![0], 1), (vec![1], 0)),
            "one shard counts it"
        );
    }
}

#[test]
fn broken_compression_is_a_bad_record() {
    for (name, compression) in [("t.gz", Compression::Gzip), ("t.zz", Compression::Zlib)] {
        let mut writer = Writer::default();
        (0..200).for_each(|n| writer.write(&number(n * 977)));
        let good = writer.finish(compression);
        let read_bytes = |bytes: &[u8]| {
            let (_folder, options) = file(name, bytes);
            let skip = Options {
                bad_rows: BadRows::Skip,
                batch_size: 1000,
                ..options.clone()
            };
            (
                read(options, numbers()),
                ints(&read(skip, numbers()).unwrap_or_default()),
            )
        };
        let all: Vec<i64> = (0..200).map(|n| n * 977).collect();
        assert_eq!(read_bytes(&good).1, all);
        let (cut, rows) = read_bytes(&good[..good.len() - 3]);
        let text = Diagnostic::from(cut.expect_err("the end is missing")).render();
        assert!(
            text.contains("content is cut short; the rest of the file is not read"),
            "{text}"
        );
        assert!(all.starts_with(&rows), "{rows:?}");
        let (longer, _) = read_bytes(&[good.as_slice(), b"123"].concat());
        assert!(matches!(longer, Err(Error::Row(_))), "{longer:?}");
        let members = read_bytes(&[good.as_slice(), &good].concat()).0;
        match compression {
            Compression::Gzip => {
                assert_eq!(
                    ints(&members.expect("two members")),
                    [all.clone(), all].concat()
                )
            }
            _ => assert!(matches!(members, Err(Error::Row(_)))),
        }
    }
}

#[test]
fn compressed_text_is_read_too() {
    let text = "n\n1\n2\n";
    for compression in [Compression::Gzip, Compression::Zlib] {
        let (_folder, options) = file("t.csv", &writer::compress(text.as_bytes(), compression));
        let options = Options {
            format: Format::Csv,
            compression: Some(compression),
            ..options
        };
        assert_eq!(
            ints(&read(options.clone(), numbers()).expect("batches")),
            [1, 2]
        );
        let cut = writer::compress(text.as_bytes(), compression);
        std::fs::write(&options.files[0], &cut[..cut.len() - 1]).expect("a file is written");
        let error = Dataset::open(options, numbers())
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .expect_err("cut short");
        assert!(
            error.to_string().contains("content is cut short"),
            "{error}"
        );
    }
}

#[test]
fn check_tells_features_that_no_record_holds() {
    let (_folder, options) = file(
        "t.tfrecord",
        &frame(&example(&[("number", feature(Kind::Ints(&[1]), true))])),
    );
    let found = check(
        &options,
        &schema(&[("number", FieldKind::INT), ("numbre", FieldKind::BYTES)]),
        10,
    );
    let [(error, 1)] = found.errors.as_slice() else {
        panic!("{found:?}")
    };
    let text = Diagnostic::from(error.clone()).render();
    assert!(
        text.contains("column `numbre` is not in") && text.contains("did you mean `number`?"),
        "{text}"
    );
}
