//! Messages about unexpected files, which are refused before memory is allocated for them.

use trainyard_diagnostic::Diagnostic;
use trainyard_tensorflow_formats::tensor_bundle::{Bundle, DType, Error};

use crate::memory;
use crate::writer::{
    FLOAT, Values, Writer, entry, message, number, put_block, put_index, slice_key, varint,
};

const FOUR: [u8; 16] = [0; 16];

/// Returns a checkpoint with one table of 2 x 2 floats.
fn table() -> Writer {
    let mut file = Writer::new(1, false);
    file.add(b"dnn/table", 0, Values::new(FLOAT, &[2, 2], &FOUR));
    file
}

/// Returns a checkpoint with a table of 2 x 2 floats in slices of these (start, length).
fn partitioned(slices: &[Vec<(usize, usize)>]) -> Writer {
    let mut file = Writer::new(1, false);
    file.add_partitioned("emb", FLOAT, &[2, 2], slices);
    for extents in slices {
        let lengths: Vec<usize> = extents.iter().map(|(_, length)| *length).collect();
        let bytes = vec![0; lengths.iter().product::<usize>() * 4];
        file.add(
            &slice_key("emb", extents),
            0,
            Values::new(FLOAT, &lengths, &bytes),
        );
    }
    file
}

fn values(shape: &[usize]) -> Values<'_> {
    Values::new(FLOAT, shape, &FOUR)
}

/// Returns the checkpoint with another entry of the table.
fn with_entry(value: Vec<u8>) -> Writer {
    let mut file = table();
    file.entries.insert(b"dnn/table".to_vec(), value);
    file
}

fn open(file: &Writer) -> Result<Bundle, Error> {
    memory::limit();
    let folder = tempfile::tempdir().expect("a temporary folder");
    file.write(&folder.path().join("m"));
    Bundle::open(&folder.path().join("m"))
}

#[track_caller]
fn refused(file: &Writer, expected: &[&str]) {
    let text = open(file).expect_err("it is refused").to_string();
    assert!(expected.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn the_writer_of_these_tests_writes_what_is_read() {
    assert!(open(&table()).is_ok());
    assert!(open(&partitioned(&[vec![(0, 1), (0, 2)], vec![(1, 1), (0, 2)]])).is_ok());
}

#[test]
fn headers_of_other_formats_are_refused() {
    let header = |parts: &[Vec<u8>]| Writer {
        header: parts.concat(),
        ..table()
    };
    refused(
        &header(&[number(1, 1), number(2, 2)]),
        &["m.index", "endianness is 2", "expected 0 (little) or 1"],
    );
    let version = message(3, &[number(1, 9), number(2, 2)].concat());
    refused(
        &header(&[number(1, 1), version]),
        &[
            "format version 9",
            "version 2 or higher",
            "of version 1",
            "save",
        ],
    );
    refused(
        &header(&[number(1, 1), message(3, &number(3, 1))]),
        &["not one of [1]"],
    );
    refused(
        &header(&[number(1, 0)]),
        &["0 data files", "expected 1 to 99999"],
    );
    refused(&header(&[number(1, u64::MAX)]), &["-1 data files"]);
    refused(
        &header(&[number(1, 2)]),
        &["cannot find", "m.data-00000-of-00002"],
    );
    refused(&header(&[vec![0xff; 3]]), &["no BundleHeaderProto"]);
}

#[test]
fn sizes_and_places_that_no_file_has_are_refused() {
    let huge = 1_usize << 60;
    refused(
        &with_entry(entry(values(&[2, 2]), 0, 0, 1 << 60)),
        &[
            "tensor `dnn/table`",
            "1152921504606846976 bytes at byte 0",
            "has 16 bytes",
            "copy the checkpoint",
        ],
    );
    refused(
        &with_entry(entry(values(&[2, 2]), 0, usize::MAX / 2, 16)),
        &["16 bytes at byte 9223372036854775807"],
    );
    refused(
        &with_entry(entry(values(&[2, 2]), 0, usize::MAX, 16)),
        &["its offset is -1"],
    );
    refused(
        &with_entry(entry(values(&[2, 2]), 5, 0, 16)),
        &["data file 5, there are 1"],
    );
    refused(
        &with_entry(entry(values(&[huge]), 0, 0, 16)),
        &["1152921504606846976 elements", "16 bytes of all data"],
    );
    refused(
        &with_entry(entry(values(&[huge, huge]), 0, 0, 16)),
        &["too many elements"],
    );
    refused(
        &with_entry(entry(values(&[2, 1]), 0, 0, 16)),
        &["16 bytes, expected 2 elements of 4 bytes"],
    );
    refused(
        &with_entry(entry(values(&[1; 300]), 0, 0, 4)),
        &["300 dimensions, at most 254"],
    );
    let strings = Values::new(7, &[1 << 40], &FOUR);
    refused(
        &with_entry(entry(strings, 0, 0, 16)),
        &["16 bytes are too few for 1099511627776 strings"],
    );
    refused(
        &with_entry(message(2, &number(3, 1))),
        &["number of dimensions is unknown"],
    );
    refused(&with_entry(vec![0xff; 4]), &["no BundleEntryProto"]);
}

#[test]
fn slices_that_do_not_cover_their_table_are_refused() {
    let upper = vec![(0, 1), (0, 2)];
    let lower = vec![(1, 1), (0, 2)];
    let left = vec![(0, 2), (0, 1)];
    refused(
        &partitioned(std::slice::from_ref(&lower)),
        &["4 elements of 4 bytes, its shape is [2, 2], are more than the 8 bytes of all data"],
    );
    let mut roomy = partitioned(std::slice::from_ref(&lower));
    roomy.add(b"other", 0, Values::new(FLOAT, &[2, 2], &FOUR));
    refused(
        &roomy,
        &["tensor `emb`", "slices cover 2 elements, expected 4"],
    );
    refused(
        &partitioned(&[upper.clone(), lower.clone(), left]),
        &["tensor `emb`", "overlap"],
    );
    refused(
        &partitioned(&[upper.clone(), upper.clone()]),
        &["no entry of its slice at [0, 0]"],
    );
    refused(
        &partitioned(&[vec![(1, 2), (0, 2)]]),
        &["length 2 at 1 exceeds a dimension of 2"],
    );
    refused(
        &partitioned(&[upper.clone(), vec![(0, 2)]]),
        &["1 dimensions, expected 2"],
    );
    let mut other = partitioned(&[upper.clone(), lower.clone()]);
    other.add(
        &slice_key("emb", &lower),
        0,
        Values::new(3, &[1, 2], &FOUR[..8]),
    );
    refused(
        &other,
        &["slice at [1, 0] is int32 [1, 2]", "expected float32 [1, 2]"],
    );
}

#[test]
fn tables_of_other_forms_are_refused() {
    let refused = |index: &[u8], expected: &str| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("m.index"), index).expect("an index is written");
        let text = Bundle::open(&folder.path().join("m"))
            .expect_err("it is refused")
            .to_string();
        assert!(text.contains(expected), "{text}");
    };
    memory::limit();
    refused(b"", "0 bytes, expected at least a footer of 48");
    refused(
        &[7; 100],
        "last 8 bytes are 0707070707070707, expected db4775248b80fb57",
    );
    let whole = |compression, contents: &[u8], times| {
        let mut file = Vec::new();
        let place = put_block(&mut file, contents, compression);
        put_index(&mut file, &vec![(Vec::new(), place); times]);
        file
    };
    refused(
        &whole(3, &[0; 4], 1),
        "has compression 3, read are 0 (none) and 1 (snappy)",
    );
    let claim = varint(0xffff_ffff);
    refused(
        &whole(1, &claim, 1),
        "size of a decompressed block in bytes is 4294967295, at most 67108864",
    );
    refused(&whole(0, &[0; 4], 1), "the block at byte 0 has no entries");
    let one = [&[0, 0, 0][..], &[0; 4]].concat();
    refused(
        &whole(0, &one, 2),
        "key 1 of the block at byte 0 is not above the key before",
    );
    let mut far = Vec::new();
    put_index(
        &mut far,
        &[(Vec::new(), [varint(u64::MAX), varint(u64::MAX)].concat())],
    );
    refused(
        &far,
        "a block of 18446744073709551615 bytes at byte 18446744073709551615 does not fit",
    );
}

#[test]
fn names_that_are_no_text_are_refused() {
    let mut file = table();
    file.add(b"a\xff\n", 0, Values::new(FLOAT, &[2, 2], &FOUR));
    refused(&file, &[r"the name `a\xff\n` is not UTF-8"]);
}

#[test]
fn a_wrong_value_is_named_with_file_tensor_and_both_checksums() {
    let mut file = table();
    file.shards[0][5] = 1;
    let folder = tempfile::tempdir().expect("a temporary folder");
    file.write(&folder.path().join("m"));
    let bundle = Bundle::open(&folder.path().join("m")).expect("the index is whole");
    let mut other = [0; 16];
    let expected = crc32c::crc32c(&FOUR);
    other[5] = 1;
    let found = crc32c::crc32c(&other);
    // The error repeats, because a failed comparison does not verify the piece.
    for _ in 0..2 {
        let mut out = [0.0; 2];
        let errors = [
            bundle.read("dnn/table").map(drop),
            bundle.read_f32_rows("dnn/table", 1..2, &mut out),
        ];
        for error in errors {
            let text = error.expect_err("it is refused").to_string();
            let sums = format!("crc32c {found:08x}, expected {expected:08x}");
            assert!(
                text.contains("m.data-00000-of-00001 is damaged: tensor `dnn/table` at byte 0"),
                "{text}"
            );
            assert!(text.contains(&sums), "{text}");
        }
    }
}

#[test]
fn types_that_are_not_read_are_listed() {
    let mut file = table();
    file.add(b"words/of", 0, Values::new(21, &[1 << 40], &FOUR));
    let folder = tempfile::tempdir().expect("a temporary folder");
    file.write(&folder.path().join("m"));
    let bundle = Bundle::open(&folder.path().join("m")).expect("it is whole");
    assert_eq!(
        bundle.tensor("words/of").map(|info| info.dtype),
        Some(DType::Other(21))
    );
    let text = bundle
        .read("words/of")
        .expect_err("it is not read")
        .to_string();
    assert!(
        text.contains("tensor `words/of` is DataType 21, read are numbers, bool and string"),
        "{text}"
    );
}

#[test]
fn questions_that_cannot_be_answered_say_what_can() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    table().write(&folder.path().join("m"));
    let bundle = Bundle::open(&folder.path().join("m")).expect("it is whole");
    let text = Diagnostic::from(bundle.read("dnn/tabel").expect_err("there is none")).render();
    assert!(
        text.contains("error[E3002]") && text.contains("m.index holds no tensor `dnn/tabel`"),
        "{text}"
    );
    assert!(text.contains("help: did you mean `dnn/table`?"), "{text}");
    for (rows, room) in [(1..3, 4), (0..1, 3), (usize::MAX - 1..usize::MAX, 2)] {
        let mut out = vec![0.0; room];
        let text = bundle
            .read_f32_rows("dnn/table", rows, &mut out)
            .expect_err("it is refused")
            .to_string();
        assert!(
            text.contains("it has rows 0..2 of 2 elements") && text.contains("room for"),
            "{text}"
        );
    }
    let text = Diagnostic::from(Bundle::open(folder.path()).expect_err("no state file")).render();
    assert!(
        text.contains("error[E1201]") && text.contains("/checkpoint: No such file"),
        "{text}"
    );
    std::fs::write(
        folder.path().join("checkpoint"),
        "all_model_checkpoint_paths: \"m\"\n",
    )
    .expect("a state file");
    let text = Bundle::open(folder.path())
        .expect_err("it names none")
        .to_string();
    assert!(
        text.contains("it has no line `model_checkpoint_path: \"...\"`"),
        "{text}"
    );
    std::fs::write(
        folder.path().join("checkpoint"),
        "model_checkpoint_path: \"/gone/m\"\n",
    )
    .expect("a state file");
    let text = Bundle::open(folder.path())
        .expect_err("it names a lost one")
        .to_string();
    assert!(
        text.contains("/checkpoint") && text.contains("`/gone/m`, but there is no /gone/m.index"),
        "{text}"
    );
}
